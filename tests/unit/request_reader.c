/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "request_reader.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct http_limits limits = {
	.head_size = 256, .max_fields = 4, .target_size = 32, .body_size = 20};

void outcome_free(struct outcome *outcome)
{
	free(outcome->request);
	free(outcome->buf);
}

/* Appends a piece, in a buffer of exactly that size. */
static char *append(char *buf, size_t len, const char *piece, size_t piece_len)
{
	char *grown = malloc(len + piece_len + !(len + piece_len));

	if (len > 0)
		memcpy(grown, buf, len);
	if (piece_len > 0)
		memcpy(grown + len, piece, piece_len);
	free(buf);
	return grown;
}

struct outcome read_pieces(struct octets text, size_t cut, size_t step)
{
	struct outcome outcome = {.progress = HTTP_MORE};
	size_t kept = 0, at = 0, piece = cut, used;

	outcome.request = malloc(http_request_size(&limits));
	http_request_setup(&limits);
	http_request_init(outcome.request, &limits);
	while (outcome.progress == HTTP_MORE && at < text.len) {
		outcome.buf = append(outcome.buf, kept, text.ptr + at, piece);
		at += piece;
		outcome.progress =
			http_request_feed(outcome.request, outcome.buf, kept + piece, &used);
		outcome.unread = kept + piece - used + text.len - at;
		kept = used;
		piece = step < text.len - at ? step : text.len - at;
	}
	return outcome;
}

void read_every_way(struct octets text, const void *expected,
		    bool (*is_good)(const struct outcome *, const void *expected))
{
	for (size_t cut = text.len; cut > 0; cut--) {
		for (int bytewise = cut == 1; bytewise >= 0; bytewise--) {
			struct outcome outcome = read_pieces(text, cut, bytewise ? 1 : text.len);
			bool good = is_good(&outcome, expected);

			if (!good)
				printf("\ncut at %zu%s: outcome %d, status %d, %zu unread, of\n%.*s\n",
				       cut, bytewise ? ", bytewise" : "", outcome.progress,
				       outcome.request->status, outcome.unread, (int)text.len,
				       text.ptr);
			CU_ASSERT(good);
			outcome_free(&outcome);
		}
	}
}
