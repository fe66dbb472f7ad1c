/* SPDX-License-Identifier: MIT */
/*
 * The head of an HTTP/1.1 response, put together from pieces that are ready: status lines are
 * constants, the Date field is formatted once a second.
 */
#ifndef HTTP_RESPONSE_H
#define HTTP_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http_date.h"
#include "span.h"

/* Room that a head needs besides its fields and reason. */
enum { HTTP_HEAD_ROOM = 256 };

enum http_connection { HTTP_CONNECTION_NONE, HTTP_CONNECTION_CLOSE, HTTP_CONNECTION_KEEP_ALIVE };

struct http_head {
	int status;                      /* 200 to 599 */
	struct wc_span reason;           /* ptr NULL: the status's own */
	struct wc_span fields;           /* ready lines, each with its CRLF */
	uint64_t content_length;         /* left out where the status has no body */
	enum http_connection connection; /* what to say of it */
	const char *date;                /* HTTP_DATE_LEN octets */
};

/* Writes the head to `out`, which has HTTP_HEAD_ROOM and room for reason and fields.  Returns its
 * length. */
size_t http_response_head(char *out, const struct http_head *head);

/* The status's usual reason phrase; "Unknown" for one that has none. */
const char *http_reason(int status);

/* Whether responses of that status have a body (RFC 9110, 6.4.1): not 1xx, 204, 304. */
static inline bool http_has_body(int status)
{
	return status >= 200 && status != 204 && status != 304;
}

/* A field that a handler may set: token name, value of visible octets, blanks and obs-text. */
bool http_is_field_name(const char *name, size_t len);
bool http_is_field_value(const char *value, size_t len);

#endif
