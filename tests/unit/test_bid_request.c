/* SPDX-License-Identifier: MIT */
/*
 * Bid requests, intact and damaged, are read as jansson reads them: the same ones are refused, and
 * the others mean what jansson's own, plain output of them means.  One difference is wanted: a
 * number past the range of a double is not refused but infinite.
 */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handler_stub.h"
#include "handlers/bid_request.h"

extern CU_TestInfo bid_request_tests[];

enum { SAMPLE_SIZE = 16384, DAMAGED_PER_SAMPLE = 250 };

static const char *const pieces[] = {
	"\"", "{", "}", "[", "]", ",", ":", "0", "-", "1e3", "1.5", "\\", "\\u0041", "\\u0000",
	"\\ud83d", "\\ude00", "\xc3\xa9", "\xff", "\xe2\x82", " ", "\n", "null", "true", "false",
	"\"id\":", "\"imp\":[],", "\"imp\":[{\"id\":\"x\"}],", "\"id\":7,", "{}", "[]", "\"\"",
	"\"cur\":[\"EUR\"],", "\"\\u0069d\":\"y\",", "\"w\":1,", "\"h\":\"2\",", "\"device\":{},",
	"\"pmp\":{\"deals\":[{\"id\":\"d\"}]},", "\"bidfloor\":5,", "\"banner\":[],", "\"video\":{},",
};

static uint64_t random_state;

static size_t pick(size_t count)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (size_t)(random_state >> 33) % count;
}

static void put_texts(FILE *out, const char *name, struct bid_texts texts)
{
	size_t i;

	fprintf(out, "%s", name);
	for (i = 0; i < texts.count; i++) {
		fprintf(out, " %zu:", texts.items[i].len);
		if (texts.items[i].len)
			fwrite(texts.items[i].ptr, 1, texts.items[i].len, out);
	}
}

static void put_text(FILE *out, const char *name, struct wc_span text)
{
	put_texts(out, text.ptr ? name : "no text", (struct bid_texts){&text, 1});
}

static void put_floor(FILE *out, struct bid_floor floor)
{
	fprintf(out, " floor %.17g %d\n", floor.price, floor.is_usd);
}

static void put_imp(FILE *out, const struct bid_imp *imp)
{
	size_t i;

	put_text(out, "imp", imp->id);
	fprintf(out, " secure %d private %d", imp->secure, imp->private_auction);
	put_floor(out, imp->floor);
	for (i = 0; i < imp->deal_count; i++) {
		put_text(out, "deal", imp->deals[i].id);
		put_floor(out, imp->deals[i].floor);
	}
	for (i = 0; i < imp->size_count; i++)
		fprintf(out, "%dx%d\n", imp->sizes[i].w, imp->sizes[i].h);
	put_texts(out, "mimes", imp->mimes);
	fprintf(out, " duration %.17g %.17g\n", imp->min_duration, imp->max_duration);
}

/* All that is read of a body as text, for free(); NULL: it is no JSON. */
static char *describe(const char *body, size_t len)
{
	struct wc_request *req = stub_request_new(body, len);
	struct bid_request request;
	struct bid_imp imp;
	enum bid_request_fault fault = bid_request_read(&request, req);
	char *text = NULL;
	size_t size;
	FILE *out = fault == BID_REQUEST_NO_JSON ? NULL : open_memstream(&text, &size);

	if (out && fault == BID_REQUEST_FINE) {
		put_text(out, "id", request.id);
		put_text(out, "country", request.country);
		fprintf(out, " usd %d ", request.is_usd);
		put_texts(out, "wseat", request.wseat);
		put_texts(out, "bseat", request.bseat);
		put_texts(out, "badv", request.badv);
		put_texts(out, "bcat", request.bcat);
		while (bid_request_next_imp(&request, &imp))
			put_imp(out, &imp);
	} else if (out) {
		fprintf(out, "fault %d", fault);
	}
	if (out)
		fclose(out);
	stub_request_free(req);
	return text;
}

/* The same as jansson understands it. */
static char *describe_by_jansson(const char *body, size_t len, json_error_t *error)
{
	json_t *root = json_loadb(body, len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, error);
	char *plain = root ? json_dumps(root, JSON_COMPACT) : NULL;
	char *text = plain ? describe(plain, strlen(plain)) : NULL;

	free(plain);
	json_decref(root);
	return text;
}

static bool is_same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Returns whether it was valid. */
static bool compare(const char *body, size_t len)
{
	json_error_t error = {0};
	char *expected = describe_by_jansson(body, len, &error);
	char *found = describe(body, len);
	bool is_valid = expected != NULL;
	bool is_out_of_range = !expected && json_error_code(&error) == json_error_numeric_overflow;

	if (!is_out_of_range && !is_same(expected, found)) {
		fprintf(stderr, "%.*s\nexpected %s\nfound %s\n", (int)len, body,
			expected ? expected : error.text, found ? found : "nothing");
		CU_FAIL("not as jansson reads it");
	}
	free(expected);
	free(found);
	return is_valid;
}

/* Replaces up to a few octets by a piece, or by a part of the sample itself. */
static size_t damage(char *body, size_t len)
{
	static const size_t lengths[] = {0, 0, 1, 1, 2, 5, 20};
	char piece[32];
	size_t piece_len, at = pick(len + 1);
	size_t gone = lengths[pick(sizeof(lengths) / sizeof(lengths[0]))];

	if (pick(4) == 0) {
		size_t from = pick(len + 1);

		piece_len = len - from < sizeof(piece) ? len - from : pick(sizeof(piece));
		memcpy(piece, body + from, piece_len);
	} else {
		const char *text = pieces[pick(sizeof(pieces) / sizeof(pieces[0]))];

		piece_len = strlen(text) < sizeof(piece) ? strlen(text) : sizeof(piece);
		memcpy(piece, text, piece_len);
	}
	if (gone > len - at)
		gone = len - at;
	memmove(body + at + piece_len, body + at + gone, len - at - gone);
	memcpy(body + at, piece, piece_len);
	return len - gone + piece_len;
}

static unsigned compare_damaged(const char *sample, size_t len)
{
	char body[SAMPLE_SIZE + 256];
	unsigned i, valid = 0;

	for (i = 0; i < DAMAGED_PER_SAMPLE; i++) {
		size_t damaged_len = len, times = 1 + pick(2);

		memcpy(body, sample, len);
		while (times--)
			damaged_len = damage(body, damaged_len);
		valid += compare(body, damaged_len);
	}
	return valid;
}

static unsigned compare_cuts(const char *sample, size_t len)
{
	unsigned valid = 0;
	size_t cut;

	while (len && strchr(" \t\r\n", sample[len - 1]))
		len--;
	for (cut = 0; cut < len; cut++) {
		char *text = describe(sample, cut);

		valid += text != NULL;
		free(text);
	}
	return valid;
}

/* Sums up what `check` returns for each sample. */
static unsigned for_samples(unsigned (*check)(const char *sample, size_t len))
{
	const char *srcdir = getenv("srcdir");
	char path[1024], sample[SAMPLE_SIZE];
	struct dirent *entry;
	unsigned sum = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/tests/openrtb/requests", srcdir ? srcdir : ".");
	dir = opendir(path);
	CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
	while ((entry = readdir(dir))) {
		char file[2048];
		FILE *f;

		snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
		f = entry->d_name[0] == '.' ? NULL : fopen(file, "rb");
		if (!f)
			continue;
		sum += check(sample, fread(sample, 1, sizeof(sample), f));
		fclose(f);
	}
	closedir(dir);
	return sum;
}

static unsigned compare_sample(const char *sample, size_t len)
{
	return compare(sample, len);
}

static void test_samples(void)
{
	CU_ASSERT(for_samples(compare_sample) > 20);
}

static void test_cut_samples(void)
{
	CU_ASSERT_EQUAL(for_samples(compare_cuts), 0);
}

/* Enough of them are still JSON, so that not only refusals are compared. */
static void test_damaged_samples(void)
{
	random_state = 1;
	CU_ASSERT(for_samples(compare_damaged) > 500);
}

#define IMP "\"imp\":[{\"id\":\"1\",\"banner\":{\"w\":3,\"h\":2}}]"

/* Each pair means the same. */
static const char *const pairs[][2] = {
	{"{\"id\":\"a\"," IMP "}", "{\"\\u0069d\":\"\\u0061\",\"\\u0069mp\":[{\"i\\u0064\":\"1\","
				   "\"banner\":{\"w\":3.0,\"\\u0068\":2e0}}]}"},
	/* The last one counts. */
	{"{\"id\":\"b\"," IMP "}", "{\"id\":\"a\"," IMP ",\"id\":\"b\"}"},
	{"{" IMP "}", "{\"id\":\"a\"," IMP ",\"id\":1}"},
	{"{\"id\":\"a\"," IMP "}", "{\"id\":\"a\",\"imp\":[7]," IMP "}"},
	{"{\"id\":\"a\",\"imp\":{}}", "{\"id\":\"a\"," IMP ",\"imp\":{}}"},
	{"{\"id\":\"a\"," IMP ",\"device\":{}}",
	 "{\"id\":\"a\"," IMP ",\"device\":{\"geo\":{\"country\":\"X\"}},\"device\":{}}"},
	{"{\"id\":\"a\"," IMP "}", "{\"id\":\"a\"," IMP ",\"device\":{\"geo\":{\"country\":\"X\"},"
				   "\"geo\":null}}"},
	{"{\"id\":\"a\"," IMP "}", "{\"id\":\"a\"," IMP ",\"badv\":[\"x\"],\"badv\":{}}"},
	{"{\"id\":\"a\"," IMP "}", "{\"id\":\"a\"," IMP ",\"cur\":[\"EUR\"],\"cur\":5}"},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"}]}",
	 "{\"id\":\"a\",\"imp\":[{\"id\":2,\"id\":\"1\",\"banner\":{\"w\":1,\"h\":1},\"banner\":0,"
	 "\"video\":{\"mimes\":[\"m\"],\"minduration\":1,\"maxduration\":2},\"video\":0,"
	 "\"pmp\":{\"private_auction\":1,\"deals\":[{\"id\":\"d\"}]},\"pmp\":0,\"secure\":1,"
	 "\"secure\":\"1\",\"bidfloor\":1,\"bidfloor\":null,\"bidfloorcur\":\"EUR\","
	 "\"bidfloorcur\":1}]}"},
	/* Past the range of a double. */
	{"{\"id\":\"a\"," IMP "}", "{\"id\":\"a\"," IMP ",\"x\":1e999}"},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"video\":{}}]}",
	 "{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"video\":{\"maxduration\":1e999}}]}"},
};

static void test_pairs(void)
{
	size_t i;

	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		char *first = describe(pairs[i][0], strlen(pairs[i][0]));
		char *second = describe(pairs[i][1], strlen(pairs[i][1]));

		if (!first || !is_same(first, second))
			fprintf(stderr, "%s\n%s\n%s\n", pairs[i][1], first ? first : "nothing",
				second ? second : "nothing");
		CU_ASSERT(first && is_same(first, second));
		free(first);
		free(second);
	}
}

CU_TestInfo bid_request_tests[] = {
	{"samples, as jansson reads them", test_samples},
	{"damaged samples, as jansson reads them", test_damaged_samples},
	{"samples cut at every octet", test_cut_samples},
	{"escaped keys, keys that come twice, large numbers", test_pairs},
	CU_TEST_INFO_NULL,
};
