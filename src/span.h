/* SPDX-License-Identifier: MIT */
/* Octets somewhere in memory, not terminated: wc_span of the public interface, with helpers. */
#ifndef SPAN_H
#define SPAN_H

#include <stdbool.h>
#include <string.h>

#include "octet.h"
#include "whitecap.h"

static inline struct wc_span span_of(const char *text)
{
	return (struct wc_span){text, strlen(text)};
}

static inline bool span_is(struct wc_span s, const char *text)
{
	return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

static inline bool span_is_case(struct wc_span s, const char *text)
{
	return s.len == strlen(text) && octet_equal_case(s.ptr, text, s.len);
}

#endif
