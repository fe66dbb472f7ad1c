/* SPDX-License-Identifier: MIT */
/*
 * A decoder that is saved at every octet and put in the place of another one goes on as if nothing had
 * been: what a connection does that moves in the middle of a chunked body.
 */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_chunked.h"

extern CU_TestInfo http_chunked_tests[];

#define HEAD "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const struct http_limits limits = {
	.head_size = 256, .max_fields = 4, .target_size = 32, .body_size = 40};

static const char *const texts[] = {
	HEAD "5\r\nhello\r\n0\r\n\r\n",
	HEAD "0\r\n\r\nGET /next",
	HEAD "1;name=value\r\na\r\n0000000a \t;x\r\n0123456789\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\nrest",
	HEAD "A\r\nabcdefghij\r\n1E\r\nabcdefghijklmnopqrstuvwxyz0123\r\n00\r\n\r\n",
	HEAD "29\r\n",                                         /* too large */
	HEAD "5\r\nhello\r\n24\r\n",                           /* together too large */
	HEAD "5\r\nhelloX",
	HEAD "5\nhello",
	HEAD "00000000000000005\r\nhello",                     /* 17 digits */
	HEAD "5\r\nhello\r\n0\r\nBad Name: x\r\n\r\n",
	HEAD "1;0123456789012345678901234567890123456789012345678901234567890123456789"
	     "012345678901234567890123456789012345678901234567890123456789012345678901234567890123"
	     "012345678901234567890123456789012345678901234567890123456789012345678901234567890123"
	     "456789\r\na\r\n0\r\n\r\n",                        /* too long an extension */
};

struct decoder {
	struct http_request *request;
	char buf[1024];
	size_t len, used; /* octets here, octets of the request */
	enum http_progress progress;
};

static void decoder_init(struct decoder *decoder)
{
	decoder->request = malloc(http_request_size(&limits));
	http_request_setup(&limits);
	http_request_init(decoder->request, &limits);
	decoder->len = decoder->used = 0;
	decoder->progress = HTTP_MORE;
}

static void decoder_feed(struct decoder *decoder, const char *octets, size_t len)
{
	memcpy(decoder->buf + decoder->len, octets, len);
	decoder->len += len;
	decoder->progress = http_request_feed(decoder->request, decoder->buf, decoder->len,
					      &decoder->used);
	if (decoder->progress == HTTP_MORE)
		decoder->len = decoder->used;
}

/* As conn_move.c does it.  False: it could not be restored. */
static bool decoder_move(struct decoder *decoder)
{
	struct http_request old = *decoder->request;
	uint32_t head_len = old.phase == HTTP_PHASE_CHUNKED ? old.head_len : 0;
	size_t used;

	free(decoder->request);
	decoder->request = malloc(http_request_size(&limits));
	http_request_init(decoder->request, &limits);
	if (head_len == 0)
		return true;
	return http_request_feed(decoder->request, decoder->buf, head_len, &used) == HTTP_MORE &&
	       decoder->request->phase == HTTP_PHASE_CHUNKED &&
	       http_chunked_restore(decoder->request, decoder->len, old.chunk_state, old.chunk_digits,
				    old.chunk_left, old.chunk_overhead) == 0;
}

static bool is_same(const struct decoder *a, const struct decoder *b, size_t rest_a, size_t rest_b)
{
	const struct http_request *x = a->request, *y = b->request;

	if (a->progress != b->progress || x->status != y->status)
		return false;
	if (a->progress != HTTP_DONE)
		return true;
	return x->head_len == y->head_len && x->body_len == y->body_len && rest_a == rest_b &&
	       memcmp(a->buf, b->buf, x->head_len + x->body_len) == 0;
}

/* Octets of the text that do not belong to the request. */
static size_t rest_of(const struct decoder *decoder, size_t unfed)
{
	return unfed + decoder->len - decoder->used;
}

static void test_moved_once(void)
{
	for (size_t i = 0; i < COUNT(texts); i++) {
		size_t len = strlen(texts[i]);
		struct decoder whole, moved;

		decoder_init(&whole);
		decoder_feed(&whole, texts[i], len);
		for (size_t cut = 1; cut < len; cut++) {
			size_t fed = cut;

			decoder_init(&moved);
			decoder_feed(&moved, texts[i], cut);
			if (moved.progress == HTTP_MORE) {
				CU_ASSERT(decoder_move(&moved));
				decoder_feed(&moved, texts[i] + cut, len - cut);
				fed = len;
			}
			if (!is_same(&whole, &moved, rest_of(&whole, 0), rest_of(&moved, len - fed)))
				printf("\ntext %zu, cut at %zu\n", i, cut);
			CU_ASSERT(is_same(&whole, &moved, rest_of(&whole, 0),
					  rest_of(&moved, len - fed)));
			free(moved.request);
		}
		free(whole.request);
	}
}

static void test_moved_at_every_octet(void)
{
	for (size_t i = 0; i < COUNT(texts); i++) {
		size_t len = strlen(texts[i]), at = 0;
		struct decoder whole, moved;

		decoder_init(&whole);
		decoder_feed(&whole, texts[i], len);
		decoder_init(&moved);
		while (at < len && moved.progress == HTTP_MORE) {
			decoder_feed(&moved, texts[i] + at++, 1);
			if (moved.progress == HTTP_MORE)
				CU_ASSERT(decoder_move(&moved));
		}
		CU_ASSERT(is_same(&whole, &moved, rest_of(&whole, 0), rest_of(&moved, len - at)));
		free(whole.request);
		free(moved.request);
	}
}

static const struct {
	size_t body;
	uint8_t state, digits;
	uint64_t left;
	int result;
} restored[] = {
	{0, 0, 0, 0, 0},
	{40, 0, 16, UINT64_MAX, 0},  /* a size is checked when it is whole */
	{41, 0, 0, 0, -1},
	{30, 4, 0, 10, 0},
	{30, 4, 0, 11, -1},
	{30, 4, 0, UINT64_MAX, -1},
	{0, 0, 17, 0, -1},
	{0, 12, 0, 0, -1},           /* whole */
	{0, 13, 0, 0, -1},           /* bad */
	{0, 200, 0, 0, -1},
};

static void test_what_cannot_have_been(void)
{
	char buf[1024] = HEAD;
	size_t head = strlen(HEAD), used;

	for (size_t i = 0; i < COUNT(restored); i++) {
		struct http_request *request = malloc(http_request_size(&limits));

		http_request_setup(&limits);
		http_request_init(request, &limits);
		CU_ASSERT_EQUAL(http_request_feed(request, buf, head, &used), HTTP_MORE);
		CU_ASSERT_EQUAL(http_chunked_restore(request, head + restored[i].body,
						     restored[i].state, restored[i].digits,
						     restored[i].left, 0),
				restored[i].result);
		free(request);
	}
}

CU_TestInfo http_chunked_tests[] = {
	{"moved once", test_moved_once},
	{"moved at every octet", test_moved_at_every_octet},
	{"what cannot have been", test_what_cannot_have_been},
	CU_TEST_INFO_NULL,
};
