/* SPDX-License-Identifier: MIT */
/*
 * A handler without a server: the functions of whitecap.h that handlers call, with the request
 * given by the test and the answer kept for it.  One request at a time.
 */
#ifndef HANDLER_STUB_H
#define HANDLER_STUB_H

#include "whitecap.h"

enum { STUB_HEADERS = 8, STUB_LOG = 4096, STUB_MEMORY = 1 << 20 };

struct wc_request {
	struct wc_span body;
	const char *content_type; /* NULL: the request has none */

	/* The answer. */
	int replies;
	int status;
	char *body_sent; /* a copy, terminated */
	size_t body_len;
	const void *body_ptr; /* as the handler gave it */
	struct stub_header {
		char name[32];
		char value[128];
	} headers[STUB_HEADERS];
	size_t header_count;

	/* wc_alloc()'s memory: each piece by itself, so that a sanitizer sees what runs over it. */
	struct stub_piece {
		struct stub_piece *next;
		_Alignas(max_align_t) char bytes[];
	} *pieces;
	size_t room;
};

/* Log lines of all workers, one after the other. */
extern char stub_log[STUB_LOG];

struct wc_request *stub_request_new(const char *body, size_t len);
void stub_request_free(struct wc_request *req);
const char *stub_header(const struct wc_request *req, const char *name);
uint64_t stub_counter(const char *name);

#endif
