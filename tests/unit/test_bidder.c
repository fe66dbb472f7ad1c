/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handler_stub.h"

extern const struct wc_handler wc_handler_descriptor;
extern CU_TestInfo bidder_tests[];

static const struct wc_handler *const bidder = &wc_handler_descriptor;
static void *state;

static void sample_path(char *path, size_t size, const char *name)
{
	const char *srcdir = getenv("srcdir");

	snprintf(path, size, "%s/tests/openrtb/%s", srcdir ? srcdir : ".", name);
}

static void start(void)
{
	char path[1024];
	json_t *options;

	sample_path(path, sizeof(path), "campaigns.json");
	options = json_pack("{s:s}", "file", path);
	state = NULL;
	CU_ASSERT_EQUAL_FATAL(bidder->init(&state, options, NULL), 0);
	json_decref(options);
}

static void start_with(const char *campaigns)
{
	json_t *options = json_loads(campaigns, 0, NULL);

	CU_ASSERT_PTR_NOT_NULL_FATAL(options);
	state = NULL;
	CU_ASSERT_EQUAL_FATAL(bidder->init(&state, options, NULL), 0);
	json_decref(options);
}

static void stop(void)
{
	bidder->fini(state);
	state = NULL;
}

static struct wc_request *post(const char *body, size_t len)
{
	struct wc_request *req = stub_request_new(body, len);

	CU_ASSERT_EQUAL(bidder->handle(req, state), WC_DONE);
	CU_ASSERT_EQUAL(req->replies, 1);
	return req;
}

static json_t *answer_of(const struct wc_request *req)
{
	return json_loadb(req->body_sent, req->body_len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES,
			  NULL);
}

static void check_status(const char *body, int status)
{
	struct wc_request *req = post(body, strlen(body));

	if (req->status != status)
		fprintf(stderr, "%d, expected %d: %s\n", req->status, status, body);
	CU_ASSERT_EQUAL(req->status, status);
	stub_request_free(req);
}

/* Appends {impid, cid, seat, price, dealid?} for each bid, as in expected.json. */
static void list_bids(const json_t *answer, json_t *list)
{
	static const char *const names[] = {"impid", "cid", "price", "dealid"};
	size_t i, j, k;
	json_t *seatbid, *bid;

	json_array_foreach (json_object_get(answer, "seatbid"), i, seatbid) {
		json_array_foreach (json_object_get(seatbid, "bid"), j, bid) {
			json_t *entry = json_object();

			json_object_set(entry, "seat", json_object_get(seatbid, "seat"));
			for (k = 0; k < sizeof(names) / sizeof(names[0]); k++)
				if (json_object_get(bid, names[k]))
					json_object_set(entry, names[k],
							json_object_get(bid, names[k]));
			json_array_append_new(list, entry);
		}
	}
}

static void check_answer(const char *name, const struct wc_request *req, const json_t *expected)
{
	json_t *answer = answer_of(req);
	json_t *bids = json_array();

	list_bids(answer, bids);
	if (!json_equal(bids, json_object_get(expected, "bids")))
		fprintf(stderr, "%s: %.*s\n", name, (int)req->body_len, req->body_sent);
	CU_ASSERT(json_equal(bids, json_object_get(expected, "bids")));
	CU_ASSERT_STRING_EQUAL(stub_header(req, "Content-Type"), "application/json");
	CU_ASSERT_STRING_EQUAL(stub_header(req, "x-openrtb-version"), "2.6");
	json_decref(answer);
	json_decref(bids);
}

static size_t read_sample(const char *name, char *body, size_t size)
{
	char path[1024], file[256];
	size_t len;
	FILE *f;

	snprintf(file, sizeof(file), "requests/%s.json", name);
	sample_path(path, sizeof(path), file);
	f = fopen(path, "rb");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	len = fread(body, 1, size, f);
	fclose(f);
	return len;
}

static json_t *load_expected(void)
{
	char path[1024];
	json_t *expected;

	sample_path(path, sizeof(path), "expected.json");
	expected = json_load_file(path, 0, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(expected);
	return expected;
}

static void test_samples(void)
{
	static char body[1 << 16];
	json_t *expected = load_expected();
	const char *name;
	json_t *value;

	start();
	json_object_foreach (expected, name, value) {
		struct wc_request *req = post(body, read_sample(name, body, sizeof(body)));

		CU_ASSERT_EQUAL(req->status, json_integer_value(json_object_get(value, "status")));
		if (req->status == 200)
			check_answer(name, req, value);
		if (req->status == 204)
			CU_ASSERT_EQUAL(req->body_len, 0);
		stub_request_free(req);
	}
	stop();
	json_decref(expected);
}

/* Every sample without its end is 400, and never read past its end. */
static void test_truncated_samples(void)
{
	static char body[1 << 16];
	json_t *expected = load_expected();
	const char *name;
	json_t *value;

	start();
	json_object_foreach (expected, name, value) {
		size_t len = read_sample(name, body, sizeof(body));
		size_t step = len / 512 + 1;
		size_t cut;

		for (cut = 0; cut < len; cut += step) {
			struct wc_request *req = post(body, cut);

			CU_ASSERT_EQUAL(req->status, 400);
			stub_request_free(req);
		}
	}
	stop();
	json_decref(expected);
}

/* Whatever octet stands at a place, the answer is one of the three. */
static void test_damaged_samples(void)
{
	static const char octets[] = "\"{}[]0-\\,:\x01\xff";
	static char body[1 << 16];
	size_t len = read_sample("private-deal", body, sizeof(body));
	size_t at, i;

	start();
	for (at = 0; at < len; at++) {
		char kept = body[at];

		for (i = 0; i < sizeof(octets); i++) {
			struct wc_request *req;

			body[at] = octets[i];
			req = post(body, len);
			CU_ASSERT(req->status == 200 || req->status == 204 || req->status == 400);
			stub_request_free(req);
		}
		body[at] = kept;
	}
	stop();
}

#define BANNER "\"banner\":{\"w\":300,\"h\":250}"

static const struct {
	const char *body;
	int status;
} cases[] = {
	{"{\"id\":\"\",\"imp\":[{\"id\":\"\"," BANNER "}]}", 200},
	{" {\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}]} \n", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}]} x", 400},
	{"{\"id\":1,\"imp\":[{\"id\":\"1\"," BANNER "}]}", 400},
	{"{\"id\":null,\"imp\":[{\"id\":\"1\"," BANNER "}]}", 400},
	{"{\"id\":\"a\",\"imp\":[{\"id\":1," BANNER "}]}", 400},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"},7]}", 400},
	{"{\"id\":\"a\",\"imp\":[null]}", 400},
	{"{\"id\":\"a\",\"imp\":[[]]}", 400},
	{"{\"id\":\"a\",\"imp\":\"1\"}", 400},
	{"\"text\"", 400},
	{"null", 400},
	{"\xff", 400},
	/* Wrong types count as absent. */
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"banner\":\"x\"}]}", 204},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"banner\":[300,250]}]}", 204},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"banner\":{\"w\":\"300\",\"h\":250}}]}", 204},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"banner\":{\"w\":300.5,\"h\":250}}]}", 204},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"banner\":{\"w\":-300,\"h\":250}}]}", 204},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"banner\":{\"w\":1e300,\"h\":250}}]}", 204},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"banner\":{\"w\":3e2,\"h\":250}}]}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER ",\"video\":[]}]}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER ",\"bidfloor\":\"9\"}]}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER ",\"bidfloor\":9}]}", 204},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER ",\"bidfloor\":2.5}]}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER ",\"bidfloorcur\":7}]}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER ",\"bidfloorcur\":\"EUR\"}]}", 204},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER ",\"pmp\":{\"private_auction\":1}}]}", 204},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER ",\"pmp\":{\"deals\":[1,{}]}}]}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER ",\"pmp\":\"x\"}]}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}],\"cur\":[\"EUR\",\"USD\"]}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}],\"cur\":[]}", 204},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}],\"cur\":\"EUR\"}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}],\"wseat\":[]}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}],\"wseat\":[7,\"\"]}", 204},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}],\"bseat\":[null],\"badv\":{}}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}],\"device\":{\"geo\":[]}}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}],\"device\":{\"geo\":{\"country\":5}}}", 200},
	/* A format list decides alone; an empty one is none. */
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"banner\":{\"w\":300,\"h\":250,\"format\":[]}}]}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"banner\":{\"w\":300,\"h\":250,\"format\":null}}]}", 200},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"banner\":{\"w\":300,\"h\":250,"
	 "\"format\":[{\"w\":1,\"h\":1}]}}]}", 204},
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"banner\":{\"w\":300,\"h\":250,"
	 "\"format\":[null]}}]}", 204},
	/* Numbers past 64 bits where nobody reads them. */
	{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}],\"ext\":{\"n\":123456789012345678901234}}",
	 200},
};

static void test_cases(void)
{
	size_t i;

	start();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_status(cases[i].body, cases[i].status);
	stop();
}

static void test_categories(void)
{
	static const struct {
		const char *bcat;
		int status;
	} tries[] = {
		{"IAB2", 204}, {"IAB2-1", 204}, {"IAB2-1-7", 204}, {"IAB2-1-7-3", 200},
		{"IAB2-1-70", 200}, {"IAB", 200}, {"IAB2-", 200}, {"IAB20", 200}, {"", 200},
	};
	char body[256];
	size_t i;

	start_with("{\"campaigns\":[{\"id\":\"c\",\"seat\":\"s\",\"price\":1,\"cat\":[\"IAB2-1-7\"],"
		   "\"banner\":[[300,250]]}]}");
	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		snprintf(body, sizeof(body),
			 "{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}],\"bcat\":[\"x\",\"%s\"]}",
			 tries[i].bcat);
		check_status(body, tries[i].status);
	}
	stop();
}

static const json_t *get_bid(const json_t *answer, size_t seat, size_t bid)
{
	const json_t *seatbid = json_array_get(json_object_get(answer, "seatbid"), seat);

	return json_array_get(json_object_get(seatbid, "bid"), bid);
}

/* Equal prices: the first configured wins.  Bids of one seat stand together. */
static void test_order_and_seats(void)
{
	static const char body[] =
		"{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"banner\":{\"w\":10,\"h\":10}},"
		"{\"id\":\"2\",\"banner\":{\"w\":20,\"h\":20}},"
		"{\"id\":\"3\",\"banner\":{\"w\":10,\"h\":10}}]}";
	struct wc_request *req;
	json_t *answer;

	start_with("{\"campaigns\":["
		   "{\"id\":\"low\",\"seat\":\"s\",\"price\":1,\"banner\":[[10,10],[20,20]]},"
		   "{\"id\":\"a\",\"seat\":\"s\",\"price\":2.5,\"banner\":[[10,10]]},"
		   "{\"id\":\"b\",\"seat\":\"t\",\"price\":2.5,\"banner\":[[10,10],[20,20]]}]}");
	req = post(body, strlen(body));
	answer = answer_of(req);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(answer, "seatbid")), 2);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(get_bid(answer, 0, 0), "impid")), "1");
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(get_bid(answer, 0, 0), "cid")), "a");
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(get_bid(answer, 0, 1), "impid")), "3");
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(get_bid(answer, 1, 0), "impid")), "2");
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(get_bid(answer, 1, 0), "cid")), "b");
	json_decref(answer);
	stub_request_free(req);
	stop();
}

/* Texts come back as they were sent, whatever they hold. */
static void test_texts(void)
{
	static const char body[] =
		"{\"id\":\"a\\u0000\\\"\\\\\\n\\u001f\\u007f\\ud83d\\ude00\xc3\xa9\\/\","
		"\"imp\":[{\"id\":\"\\u0000\"," BANNER "}]}";
	struct wc_request *req;
	json_t *sent, *answer;

	start();
	req = post(body, strlen(body));
	sent = json_loadb(body, strlen(body), JSON_ALLOW_NUL, NULL);
	answer = answer_of(req);
	CU_ASSERT(json_equal(json_object_get(answer, "id"), json_object_get(sent, "id")));
	CU_ASSERT_EQUAL(json_string_length(json_object_get(get_bid(answer, 0, 0), "impid")), 1);
	json_decref(sent);
	json_decref(answer);
	stub_request_free(req);
	stop();
}

static void test_price_text(void)
{
	static const char *const prices[] = {"1.25", "0.8", "3",   "2.0",
					     "0.1",  "7.75", "0.333", "1234567.891"};
	static const char body[] = "{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}]}";
	char text[256];
	size_t i;

	for (i = 0; i < sizeof(prices) / sizeof(prices[0]); i++) {
		struct wc_request *req;

		snprintf(text, sizeof(text), "{\"campaigns\":[{\"id\":\"c\",\"seat\":\"s\","
			 "\"price\":%s,\"banner\":[[300,250]]}]}", prices[i]);
		start_with(text);
		req = post(body, strlen(body));
		snprintf(text, sizeof(text), "\"price\":%s,", prices[i]);
		CU_ASSERT_PTR_NOT_NULL(strstr(req->body_sent, text));
		stub_request_free(req);
		stop();
	}
}

static void test_markup(void)
{
	static const char body[] = "{\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"video\":{\"mimes\":"
				   "[\"v\",\"<b>\"],\"maxduration\":90}}]}";
	struct wc_request *req;
	json_t *answer;

	start_with("{\"campaigns\":[{\"id\":\"<i>&\\\"'\",\"seat\":\"s\",\"price\":1,\"video\":"
		   "{\"mimes\":[\"<b>\"],\"duration\":90}}]}");
	req = post(body, strlen(body));
	answer = answer_of(req);
	CU_ASSERT_PTR_NOT_NULL(strstr(req->body_sent, "<Duration>00:01:30</Duration>"));
	CU_ASSERT_PTR_NOT_NULL(strstr(req->body_sent, "Ad id=\\\"&lt;i&gt;&amp;&quot;&#39;\\\""));
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(get_bid(answer, 0, 0), "mtype")), 2);
	CU_ASSERT_PTR_NULL(json_object_get(get_bid(answer, 0, 0), "w"));
	json_decref(answer);
	stub_request_free(req);
	stop();
}

/* `count` times `piece` between `head` and `tail`. */
static struct wc_request *run_repeated(const char *head, const char *piece, const char *tail,
				       size_t count, int *result)
{
	size_t step = strlen(piece);
	char *body = malloc(strlen(head) + step * count + strlen(tail) + 1);
	char *end = stpcpy(body, head);
	struct wc_request *req;

	while (count--)
		end = stpcpy(end, piece);
	end = stpcpy(end, tail);
	req = stub_request_new(body, (size_t)(end - body));
	*result = bidder->handle(req, state);
	free(body);
	return req;
}

/* More than fits: an error (500), never a crash; much but not too much: an answer. */
static void test_sizes(void)
{
	static const char imp[] = ",{\"id\":\"1\"," BANNER "}";
	static const char head[] = "{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}";
	static const struct {
		const char *head, *piece, *tail;
		size_t count;
		int result, status;
	} tries[] = {
		{head, imp, "]}", 1000, WC_DONE, 200},
		{head, imp, "]}", 20000, WC_ERROR, 0},
		{head, ",{\"id\":\"1\"}", "]}", 90000, WC_DONE, 200},
		{"", "[", "", 1000000, WC_DONE, 400},
		{"", "{\"a\":", "", 200000, WC_DONE, 400},
		{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}],\"badv\":[\"\"", ",\"x\"", "]}",
		 50000, WC_DONE, 200},
		{"{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "}],\"badv\":[\"\"", ",\"x\"", "]}",
		 200000, WC_ERROR, 0},
		{"{\"id\":\"", "\\u0001", "\",\"imp\":[{\"id\":\"1\"," BANNER "}]}", 100000, WC_DONE,
		 200},
	};
	size_t i;

	start();
	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		int result;
		struct wc_request *req = run_repeated(tries[i].head, tries[i].piece, tries[i].tail,
						      tries[i].count, &result);

		if (result != tries[i].result || req->status != tries[i].status)
			fprintf(stderr, "try %zu: %d %d\n", i, result, req->status);
		CU_ASSERT_EQUAL(result, tries[i].result);
		CU_ASSERT_EQUAL(req->status, tries[i].status);
		stub_request_free(req);
	}
	stop();
}

static const struct {
	const char *options;
	const char *message;
} mistakes[] = {
	{"{}", "campaigns: found nothing, expected a list of objects"},
	{"{\"campaigns\":{}}", "campaigns: found {}, expected a list of objects"},
	{"{\"campaigns\":[],\"camp\":1}", "camp: unknown key"},
	{"{\"campaigns\":[],\"file\":\"x\"}", "options: found {"},
	{"{\"file\":5}", "options: found {\"file\":5}, expected either"},
	{"{\"file\":\"/nonexistent\"}", "/nonexistent: "},
	{"{\"campaigns\":[7]}", "campaigns[0]: found 7, expected an object"},
	{"{\"campaigns\":[{\"seat\":\"s\",\"price\":1}]}", "campaigns[0].id: found nothing"},
	{"{\"campaigns\":[{\"id\":\"a\",\"seat\":\"\",\"price\":1}]}", "campaigns[0].seat: found \"\""},
	{"{\"campaigns\":[{\"id\":\"a\",\"seat\":\"s\",\"price\":1},"
	 "{\"id\":\"a\",\"seat\":\"s\",\"price\":\"1\"}]}",
	 "campaigns[1].price: found \"1\", expected a number from 0 up"},
	{"{\"campaigns\":[{\"id\":\"a\",\"seat\":\"s\",\"price\":-1}]}", "price: found -1"},
	{"{\"campaigns\":[{\"id\":\"a\",\"seat\":\"s\",\"price\":1,\"prize\":2}]}",
	 "campaigns[0].prize: unknown key"},
	{"{\"campaigns\":[{\"id\":\"a\",\"seat\":\"s\",\"price\":1,\"cat\":\"IAB1\"}]}",
	 "campaigns[0].cat: found \"IAB1\", expected a list of strings"},
	{"{\"campaigns\":[{\"id\":\"a\",\"seat\":\"s\",\"price\":1,\"banner\":[[1,2],[1]]}]}",
	 "campaigns[0].banner: found [[1,2],[1]], expected a list of"},
	{"{\"campaigns\":[{\"id\":\"a\",\"seat\":\"s\",\"price\":1,\"banner\":[[1,2.5]]}]}",
	 "campaigns[0].banner: found [[1,2.5]]"},
	{"{\"campaigns\":[{\"id\":\"a\",\"seat\":\"s\",\"price\":1,\"secure\":1}]}",
	 "campaigns[0].secure: found 1, expected true or false"},
	{"{\"campaigns\":[{\"id\":\"a\",\"seat\":\"s\",\"price\":1,\"video\":{\"mimes\":[\"a\"]}}]}",
	 "campaigns[0].video: found {"},
	{"{\"campaigns\":[{\"id\":\"a\",\"seat\":\"s\",\"price\":1,\"deal\":null}]}",
	 "campaigns[0].deal: found null"},
};

static void test_mistakes(void)
{
	size_t i;

	for (i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		json_t *options = json_loads(mistakes[i].options, 0, NULL);
		void *none = NULL;

		CU_ASSERT_PTR_NOT_NULL_FATAL(options);
		stub_log[0] = '\0';
		CU_ASSERT_EQUAL(bidder->init(&none, options, NULL), -1);
		CU_ASSERT_PTR_NULL(none);
		if (!strstr(stub_log, mistakes[i].message))
			fprintf(stderr, "%s: %s", mistakes[i].options, stub_log);
		CU_ASSERT_PTR_NOT_NULL(strstr(stub_log, mistakes[i].message));
		json_decref(options);
	}
}

static void test_counters(void)
{
	uint64_t bids = stub_counter("bids");
	uint64_t no_bids = stub_counter("no_bids");
	uint64_t bad_requests = stub_counter("bad_requests");

	start();
	check_status("{\"id\":\"a\",\"imp\":[{\"id\":\"1\"," BANNER "},{\"id\":\"2\"," BANNER "}]}", 200);
	check_status("{\"id\":\"a\",\"imp\":[{\"id\":\"1\"}]}", 204);
	check_status("{}", 400);
	stop();
	CU_ASSERT_EQUAL(stub_counter("bids"), bids + 2);
	CU_ASSERT_EQUAL(stub_counter("no_bids"), no_bids + 1);
	CU_ASSERT_EQUAL(stub_counter("bad_requests"), bad_requests + 1);
}

CU_TestInfo bidder_tests[] = {
	{"every sample gets its answer", test_samples},
	{"truncated samples", test_truncated_samples},
	{"damaged samples", test_damaged_samples},
	{"odd requests", test_cases},
	{"blocked categories", test_categories},
	{"order of campaigns, bids and seats", test_order_and_seats},
	{"texts with NUL, quotes, controls", test_texts},
	{"prices as configured", test_price_text},
	{"escaped markup", test_markup},
	{"large and deep requests", test_sizes},
	{"mistakes in campaigns", test_mistakes},
	{"counters", test_counters},
	CU_TEST_INFO_NULL,
};
