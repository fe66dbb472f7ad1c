/* SPDX-License-Identifier: MIT */
/*
 * The request path: the input, fed cut by cut as a connection does, has the same outcome as when it is fed whole.  The
 * first octet says how it is cut.
 */
#include "autoconf.h"

#include "fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "http_request.h"

enum { INPUT_MAX = 65536, OUTCOMES_MAX = 256 };

static const struct http_limits limits = {
	.head_size = 4096, .max_fields = 20, .target_size = 1000, .body_size = 8192};

struct outcome {
	enum http_progress progress;
	uint16_t status;
	uint64_t body_len, body_sum;
};

struct feed {
	struct http_request *request;
	char *buf; /* one allocation of exactly the octets there are, for the sanitizer */
	size_t len;
	struct outcome outcomes[OUTCOMES_MAX];
	size_t count;
};

static uint64_t sum(const char *data, uint64_t len)
{
	uint64_t hash = 14695981039346656037u;

	for (uint64_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)data[i]) * 1099511628211u;
	return hash;
}

static void append(struct feed *feed, const char *data, size_t len)
{
	char *grown = malloc(feed->len + len + 1);

	memcpy(grown, feed->buf, feed->len);
	memcpy(grown + feed->len, data, len);
	free(feed->buf);
	feed->buf = grown;
	feed->len += len;
}

static void drop(struct feed *feed, size_t len)
{
	assert(len <= feed->len);
	memmove(feed->buf, feed->buf + len, feed->len - len);
	feed->len -= len;
}

/* What a connection does with what it has read.  False: refused, nothing more is read. */
static bool process(struct feed *feed)
{
	struct http_request *request = feed->request;
	struct outcome *outcome;
	size_t used;

	while (feed->len > 0 && feed->count < OUTCOMES_MAX) {
		enum http_progress progress = http_request_feed(request, feed->buf, feed->len, &used);

		assert(used <= feed->len);
		if (progress == HTTP_MORE) {
			feed->len = used;
			return true;
		}
		outcome = &feed->outcomes[feed->count++];
		*outcome = (struct outcome){progress, request->status, 0, 0};
		if (progress == HTTP_BAD)
			return false;
		assert(request->head_len + request->body_len <= used);
		assert(request->body_len <= limits.body_size);
		outcome->body_len = request->body_len;
		outcome->body_sum = sum(feed->buf + request->head_len, request->body_len);
		drop(feed, used);
		http_request_init(request, &limits);
	}
	return feed->count < OUTCOMES_MAX;
}

static void run(struct feed *feed, const char *data, size_t len, size_t step)
{
	feed->request = malloc(http_request_size(&limits));
	feed->buf = malloc(1);
	feed->len = feed->count = 0;
	http_request_init(feed->request, &limits);
	for (size_t at = 0; at < len; at += step) {
		append(feed, data + at, len - at < step ? len - at : step);
		if (!process(feed))
			break;
	}
	free(feed->buf);
	free(feed->request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct feed whole, cut;
	size_t step = len > 0 ? data[0] % 32 + 1u : 1;

	if (len < 2 || len > INPUT_MAX)
		return 0;
	http_request_setup(&limits);
	run(&whole, (const char *)data + 1, len - 1, len);
	run(&cut, (const char *)data + 1, len - 1, step);
	assert(whole.count == cut.count);
	for (size_t i = 0; i < whole.count; i++) {
		assert(whole.outcomes[i].progress == cut.outcomes[i].progress);
		assert(whole.outcomes[i].body_len == cut.outcomes[i].body_len);
		assert(whole.outcomes[i].body_sum == cut.outcomes[i].body_sum);
	}
	return 0;
}
