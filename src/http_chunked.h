/* SPDX-License-Identifier: MIT */
/*
 * Chunked bodies (RFC 9112, 7.1), decoded in place and strictly: sizes of at most 16 hex digits,
 * CRLF and nothing else as line end, extensions and trailers checked, bounded and dropped.
 */
#ifndef HTTP_CHUNKED_H
#define HTTP_CHUNKED_H

#include "http_request.h"

/*
 * Goes on with a request in phase HTTP_PHASE_CHUNKED; used by http_request_feed(), whose contract
 * holds.  Moves the decoded octets together behind the head.
 */
enum http_progress http_chunked_feed(struct http_request *request, char *buf, size_t len,
				     size_t *used);

/*
 * Puts a decoder, whose head has just been read, where another one stood: `len` octets of head and
 * decoded body are in the buffer.  -1: that can't have been.
 */
int http_chunked_restore(struct http_request *request, size_t len, uint8_t state, uint8_t digits,
			 uint64_t left, uint32_t overhead);

#endif
