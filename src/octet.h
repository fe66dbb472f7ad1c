/* SPDX-License-Identifier: MIT */
/* Classes of octets in HTTP (RFC 9110, 5.6.2 and RFC 3986), one table look-up each. */
#ifndef OCTET_H
#define OCTET_H

#include <stdbool.h>
#include <stddef.h>

enum {
	OCTET_TOKEN = 1,
	OCTET_TARGET = 2, /* in a request target, but for "%" HEX HEX */
	OCTET_HOST = 4,   /* in a registered name, but for "%" HEX HEX */
	OCTET_HEX = 8,
	OCTET_TEXT = 16,  /* in a field value: visible, blank or over 127 */
};

extern const unsigned char octet_class[256];

static inline bool octet_is(char c, unsigned kind)
{
	return octet_class[(unsigned char)c] & kind;
}

static inline bool octet_all(const char *s, size_t len, unsigned kind)
{
	for (size_t i = 0; i < len; i++)
		if (!octet_is(s[i], kind))
			return false;
	return true;
}

static inline char octet_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Whether they are the same but for the case of ASCII letters, whatever the locale. */
static inline bool octet_equal_case(const char *a, const char *b, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (a[i] != b[i] && octet_lower(a[i]) != octet_lower(b[i]))
			return false;
	return true;
}

#endif
