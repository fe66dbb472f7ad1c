/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "http_chunked.h"

#include <string.h>

#include "octet.h"

enum chunk_state {
	SIZE,          /* digits of the size */
	SIZE_BLANK,    /* blanks behind it: only an extension may follow */
	EXTENSION,
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER,       /* first octet of a trailer line */
	TRAILER_NAME,
	TRAILER_VALUE,
	TRAILER_LF,
	LAST_LF,
	WHOLE,
	BAD,
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum chunk_state bad(struct http_request *request, unsigned status)
{
	request->status = (uint16_t)status;
	return BAD;
}

static enum chunk_state on_size(struct http_request *request, char c)
{
	int digit = hex_digit(c);

	if (digit >= 0) {
		if (++request->chunk_digits > 16)
			return bad(request, 400);
		request->chunk_left = request->chunk_left << 4 | (unsigned)digit;
		return SIZE;
	}
	if (request->chunk_digits == 0)
		return bad(request, 400);
	if (request->chunk_left > request->limits->body_size - request->body_len)
		return bad(request, 413);
	return c == '\r' ? SIZE_LF : c == ';' ? EXTENSION
	       : c == ' ' || c == '\t'	      ? SIZE_BLANK
					      : bad(request, 400);
}

/* The line of a size has ended: the data follows, or the trailers. */
static enum chunk_state on_size_lf(struct http_request *request)
{
	request->chunk_digits = 0;
	return request->chunk_left > 0 ? DATA : TRAILER;
}

static enum chunk_state on_trailer(struct http_request *request, char c)
{
	return c == '\r' ? LAST_LF : octet_is(c, OCTET_TOKEN) ? TRAILER_NAME : bad(request, 400);
}

/* Extensions and trailers are the client's to send, but not without end. */
static bool is_overlong(struct http_request *request, enum chunk_state state)
{
	bool counts = state == SIZE_BLANK || state == EXTENSION ||
		      (state >= TRAILER && state <= TRAILER_LF);

	return counts && ++request->chunk_overhead > request->limits->head_size;
}

/* One octet outside of chunk data. */
static enum chunk_state step(struct http_request *request, enum chunk_state state, char c)
{
	if (is_overlong(request, state))
		return bad(request, 431);
	switch (state) {
	case SIZE:
		return on_size(request, c);
	case SIZE_BLANK:
		return c == ';' ? EXTENSION : c == ' ' || c == '\t' ? SIZE_BLANK : bad(request, 400);
	case EXTENSION:
		return c == '\r' ? SIZE_LF : octet_is(c, OCTET_TEXT) ? EXTENSION : bad(request, 400);
	case SIZE_LF:
		return c == '\n' ? on_size_lf(request) : bad(request, 400);
	case DATA_CR:
		return c == '\r' ? DATA_LF : bad(request, 400);
	case DATA_LF:
		return c == '\n' ? SIZE : bad(request, 400);
	case TRAILER:
		return on_trailer(request, c);
	case TRAILER_NAME:
		return c == ':' ? TRAILER_VALUE : octet_is(c, OCTET_TOKEN) ? TRAILER_NAME : bad(request, 400);
	case TRAILER_VALUE:
		return c == '\r' ? TRAILER_LF : octet_is(c, OCTET_TEXT) ? TRAILER_VALUE : bad(request, 400);
	case TRAILER_LF:
		return c == '\n' ? TRAILER : bad(request, 400);
	case LAST_LF:
		return c == '\n' ? WHOLE : bad(request, 400);
	default:
		return bad(request, 400);
	}
}

/* Moves what there is of a chunk's data to the end of the body. Returns the octets taken. */
static size_t take_data(struct http_request *request, char *buf, size_t pos, size_t len)
{
	size_t end = request->head_len + (size_t)request->body_len;
	size_t n = len - pos < request->chunk_left ? len - pos : (size_t)request->chunk_left;

	if (pos != end)
		memmove(buf + end, buf + pos, n);
	request->body_len += n;
	request->chunk_left -= n;
	return n;
}

enum http_progress http_chunked_feed(struct http_request *request, char *buf, size_t len,
				     size_t *used)
{
	enum chunk_state state = request->chunk_state;
	size_t pos = request->fed;

	while (pos < len && state < WHOLE) {
		if (state == DATA) {
			pos += take_data(request, buf, pos, len);
			if (request->chunk_left == 0)
				state = DATA_CR;
		} else {
			state = step(request, state, buf[pos++]);
		}
	}
	request->chunk_state = (uint8_t)state;
	if (state == WHOLE) {
		*used = pos;
		return HTTP_DONE;
	}
	request->fed = (uint32_t)(request->head_len + request->body_len);
	*used = request->fed;
	return state == BAD ? HTTP_BAD : HTTP_MORE;
}

int http_chunked_restore(struct http_request *request, size_t len, uint8_t state, uint8_t digits,
			 uint64_t left, uint32_t overhead)
{
	uint64_t body = len - request->head_len, limit = request->limits->body_size;

	if (state >= WHOLE || digits > 16 || body > limit)
		return -1;
	/* A size that is still being read is checked when it is whole. */
	if (state != SIZE && left > limit - body)
		return -1;
	request->chunk_state = state;
	request->chunk_digits = digits;
	request->chunk_left = left;
	request->chunk_overhead = overhead;
	request->body_len = body;
	request->fed = (uint32_t)len;
	return 0;
}
