/* SPDX-License-Identifier: MIT */
/*
 * One HTTP/1.x request (RFC 9112), read from a buffer that grows: head by http-parser, everything
 * that it is lenient about checked again, body counted or de-chunked in place.
 *
 * The octets of a request stay contiguous, from its first one on, in one buffer; the buffer may
 * move between calls, for all that is kept of it are offsets.  Every octet is looked at once,
 * however the request was cut.
 */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_limits {
	uint32_t
		head_size; /* octets of the head, and of a chunked body's extensions and trailers */
	uint32_t max_fields; /* fields in the head; room in http_request.fields */
	uint32_t target_size;
	uint64_t body_size; /* decoded */
};

/* Octets of the buffer, counted from the request's first. */
struct http_span {
	uint32_t at, len;
};

struct http_field {
	struct http_span name, value; /* value without the blanks around it */
};

enum http_progress {
	HTTP_MORE, /* not whole yet */
	HTTP_DONE, /* a whole request */
	HTTP_BAD,  /* refused with `status`; nothing after it can be read: close */
};

enum http_phase { HTTP_PHASE_HEAD, HTTP_PHASE_LENGTH, HTTP_PHASE_CHUNKED };

struct http_request {
	const struct http_limits *limits;
	enum http_phase phase;
	uint16_t status;      /* HTTP_BAD: 400, 413, 414, 417, 431, 501 or 505 */
	uint8_t version;      /* 10 or 11 */
	bool keep_alive;      /* the client lets the connection go on */
	bool is_head;         /* the method is HEAD */
	bool expect_continue; /* the client waits for 100 (RFC 9110, 10.1.1) */
	struct http_span method, target, path,
		query;           /* path of length 0: "/" by absolute form; query.at 0: none */
	uint32_t head_len;       /* 0 until the head is whole; then the body is at this offset */
	uint64_t content_length; /* declared */
	uint64_t body_len;       /* of the body, so far, decoded */
	uint32_t field_count;

	/* Private. */
	uint32_t start; /* of the request line, behind empty lines */
	uint32_t fed;   /* octets that were looked at */
	uint8_t item;   /* what the parser delivered last */
	uint8_t rewrites;
	uint32_t blanks_end; /* of a run of blanks that was rewritten; 0: none */
	uint8_t chunk_state;
	uint8_t chunk_digits;
	uint32_t chunk_overhead; /* octets of extensions and trailers */
	uint64_t chunk_left;
	const char *base;
	uint64_t parser[4];
	struct http_field fields[]; /* limits->max_fields */
};

/* Once per process, before the first request: http-parser keeps its head limit in a static. */
void http_request_setup(const struct http_limits *limits);

size_t http_request_size(const struct http_limits *limits);
void http_request_init(struct http_request *request, const struct http_limits *limits);

/*
 * Goes on with a request whose octets so far are buf[0..len), the first ones as they were left by
 * the call before. *used is how many of them belong to this request: on HTTP_DONE the next one
 * begins there; on HTTP_MORE only these must be kept, and the next octets be appended there (fewer
 * than len when chunks were decoded).
 */
enum http_progress http_request_feed(struct http_request *request, char *buf, size_t len,
				     size_t *used);

#endif
