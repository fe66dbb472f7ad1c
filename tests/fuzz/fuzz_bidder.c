/* SPDX-License-Identifier: MIT */
/*
 * The bidder, whole: what it refuses as no JSON is none for jansson either, and the other way
 * round; each answer with a bid is JSON that bears the request's id.
 */
#include "autoconf.h"

#include "fuzz.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/handler_stub.h"

extern const struct wc_handler wc_handler_descriptor;

enum { INPUT_MAX = 16384 };

static void *start(void)
{
	const char *srcdir = getenv("srcdir");
	char path[4096];
	json_t *options;
	void *state = NULL;

	snprintf(path, sizeof path, "%s/tests/openrtb/campaigns.json", srcdir ? srcdir : ".");
	options = json_pack("{s:s}", "file", path);
	if (!options || wc_handler_descriptor.init(&state, options, NULL) != 0)
		abort();
	json_decref(options);
	return state;
}

static void check_bid(const struct wc_request *req, const json_t *asked)
{
	json_t *answer = json_loadb(req->body_sent, req->body_len,
				    JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);

	assert(answer && json_is_object(answer));
	assert(!asked || json_equal(json_object_get(answer, "id"), json_object_get(asked, "id")));
	json_decref(answer);
}

/* What every bid request must be. */
static bool is_sound(const json_t *asked)
{
	const json_t *imps = json_object_get(asked, "imp"), *imp;
	size_t i;

	if (!json_is_string(json_object_get(asked, "id")) || json_array_size(imps) == 0)
		return false;
	json_array_foreach(imps, i,
			   imp) if (!json_is_string(json_object_get(imp, "id"))) return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static void *state;
	struct wc_request *req;
	json_error_t error;
	json_t *asked;
	bool is_out_of_range;

	if (len > INPUT_MAX)
		return 0;
	if (!state)
		state = start();
	asked = json_loadb((const char *)data, len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL,
			   &error);
	is_out_of_range = !asked && json_error_code(&error) == json_error_numeric_overflow;
	req = stub_request_new((const char *)data, len);
	assert(wc_handler_descriptor.handle(req, state) == WC_DONE && req->replies == 1);
	assert(req->status == 200 || req->status == 204 || req->status == 400 ||
	       req->status == 500);
	assert(asked || is_out_of_range || req->status == 400);
	/* jansson overlooks a NUL behind a number. */
	assert(req->status != 400 || !is_sound(asked) || memchr(data, 0, len));
	if (req->status == 200)
		check_bid(req, asked);
	stub_request_free(req);
	json_decref(asked);
	return 0;
}
