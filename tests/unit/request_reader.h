/* SPDX-License-Identifier: MIT */
/*
 * Every case is read whole, cut in two at every octet, and octet by octet, each time from a buffer
 * that ends where its octets end and moves between calls: the outcome must be the same.
 */
#ifndef REQUEST_READER_H
#define REQUEST_READER_H

#include "http_request.h"

/* A text that may hold NUL, with its length. */
struct octets {
	const char *ptr;
	size_t len;
};

#define T(text) {text, sizeof(text) - 1}
#define HEAD(fields) "POST /bid HTTP/1.1\r\nHost: a\r\n" fields "\r\n"
#define CHUNKED(body) HEAD("Transfer-Encoding: chunked\r\n") body
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Texts as long as the limits. */
#define X16 "xxxxxxxxxxxxxxxx"
#define X64 X16 X16 X16 X16
#define FIELD_OF_64 "A: " X16 X16 X16 "xxxxxxxxxxx\r\n"
#define HEAD_OF_256(more) \
	"GET / HTTP/1.1\r\nHost: a" X16 X16 "xxxxx" more "\r\n" \
	FIELD_OF_64 FIELD_OF_64 FIELD_OF_64 "\r\n"

struct outcome {
	enum http_progress progress;
	struct http_request *request;
	char *buf;     /* the request's octets, chunks decoded */
	size_t unread; /* octets behind the request */
};

/* Reads `text`: the first `cut` octets at once, then pieces of `step`.  The limits are few fields, and
 * sizes to which a text comes only in a case about them. */
struct outcome read_pieces(struct octets text, size_t cut, size_t step);

void outcome_free(struct outcome *outcome);

/* Checks what comes of the text, in whatever way it is read. */
void read_every_way(struct octets text, const void *expected,
		    bool (*is_good)(const struct outcome *, const void *expected));

#endif
