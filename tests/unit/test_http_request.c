/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "request_reader.h"

#include <CUnit/CUnit.h>
#include <string.h>

extern CU_TestInfo http_request_tests[];

enum { CLOSE = 1, CONTINUE = 2, IS_HEAD = 4, OLD = 8 };

/* A request that is taken.  What a case does not name is empty, false or 0. */
struct taken {
	struct octets text;
	const char *method, *target, *path; /* path NULL: the target; "": none */
	const char *query;                  /* NULL: none */
	struct octets body;
	size_t unread;
	unsigned flags;
};

static bool is_text(const struct outcome *outcome, struct http_span span, const char *text)
{
	return span.len == strlen(text) && memcmp(outcome->buf + span.at, text, span.len) == 0;
}

static bool is_query(const struct outcome *outcome, const char *query)
{
	struct http_span span = outcome->request->query;

	return query ? span.at > 0 && is_text(outcome, span, query) : span.at == 0;
}

static bool is_body(const struct outcome *outcome, struct octets body)
{
	const struct http_request *request = outcome->request;

	return request->body_len == body.len &&
	       (body.len == 0 ||
		memcmp(outcome->buf + request->head_len, body.ptr, body.len) == 0);
}

static unsigned flags_of(const struct http_request *request)
{
	return (request->keep_alive ? 0 : CLOSE) | (request->expect_continue ? CONTINUE : 0) |
	       (request->is_head ? IS_HEAD : 0) | (request->version == 10 ? OLD : 0);
}

static bool is_taken(const struct outcome *outcome, const void *expected)
{
	const struct taken *c = expected;
	const struct http_request *request = outcome->request;

	return outcome->progress == HTTP_DONE && outcome->unread == c->unread &&
	       is_text(outcome, request->method, c->method) &&
	       is_text(outcome, request->target, c->target) &&
	       is_text(outcome, request->path, c->path ? c->path : c->target) &&
	       is_query(outcome, c->query) && is_body(outcome, c->body) &&
	       flags_of(request) == c->flags;
}

static void check_taken(const struct taken *cases, size_t count)
{
	for (size_t i = 0; i < count; i++)
		read_every_way(cases[i].text, &cases[i], is_taken);
}

#define TAKEN(octets, its_method, its_target, ...) \
	{.text = T(octets), .method = its_method, .target = its_target, __VA_ARGS__}
#define GET(target, ...) \
	TAKEN("GET " target " HTTP/1.1\r\nHost: a\r\n\r\n", "GET", target, __VA_ARGS__)

static const struct taken taken_lines[] = {
	GET("/"),
	GET("/a/b"),
	GET("/a?", .path = "/a", .query = ""),
	GET("/a?b=c?d", .path = "/a", .query = "b=c?d"),
	GET("/%41%fF"),
	GET("/?/", .path = "/", .query = "/"),
	GET("//a"),
	GET("/-._~!$&'()*+,;=:@|[]"),
	GET("http://a", .path = ""),
	GET("http://a:80/b?c", .path = "/b", .query = "c"),
	GET("http://[::1]:80/b", .path = "/b"),
	GET("HTTPS://a?b", .path = "", .query = "b"),
	TAKEN("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS", "*"),
	TAKEN("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD", "/", .flags = IS_HEAD),
	TAKEN("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", "DELETE", "/"),
	TAKEN("M-SEARCH / HTTP/1.1\r\nHost: a\r\n\r\n", "M-SEARCH", "/"),
	TAKEN("GET / HTTP/1.2\r\nHost: a\r\n\r\n", "GET", "/"),
	TAKEN("GET / HTTP/1.0\r\n\r\n", "GET", "/", .flags = CLOSE | OLD),
	TAKEN("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET", "/"),
	TAKEN("\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n\r\n", "GET", "/", .unread = 2),
	TAKEN("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /", "GET", "/", .unread = 5),
};

#define FIELDS(fields, ...) TAKEN(HEAD(fields), "POST", "/bid", __VA_ARGS__)
#define HOST(host) TAKEN("GET / HTTP/1.1\r\nHost:" host "\r\n\r\n", "GET", "/")
#define OLDER(fields, ...) TAKEN("GET / HTTP/1.0\r\n" fields "\r\n", "GET", "/", __VA_ARGS__)

static const struct taken taken_fields[] = {
	FIELDS("A:b\r\nC:\r\nD: \t \r\n"),
	FIELDS("!#$%&'*+-.^_`|~09aZ: b\tc \xc3\xa4\r\n"),
	FIELDS("Connection: close\r\n", .flags = CLOSE),
	FIELDS("Connection: keep-alive\r\n"),
	FIELDS("Connection: keep-alive, CLOSE\r\n", .flags = CLOSE),
	FIELDS("Connection: close\t\r\n", .flags = CLOSE),
	FIELDS("Connection: a,\tclose\r\n", .flags = CLOSE),
	FIELDS("Connection: ,close\r\n", .flags = CLOSE),
	FIELDS("Connection: a,,close\r\n", .flags = CLOSE),
	FIELDS("Connection: a\r\nConnection: close\r\n", .flags = CLOSE),
	FIELDS("Connection: closed\r\n"),
	FIELDS("Connection: upgrade\r\nUpgrade: h2c\r\n"),
	FIELDS("Proxy-Connection: close\r\n"),
	FIELDS("expect: 100-Continue\r\n", .flags = CONTINUE),
	OLDER("Connection: keep-alive\r\n", .flags = OLD),
	OLDER("Connection: keep-alive, close\r\n", .flags = OLD | CLOSE),
	OLDER("Proxy-Connection: keep-alive\r\n", .flags = OLD | CLOSE),
	OLDER("Expect: 100-continue\r\n", .flags = OLD | CLOSE),
	OLDER("Host: a\r\n", .flags = OLD | CLOSE),
	HOST(""),
	HOST(" a:"),
	HOST(" a.b-c_d:8080"),
	HOST("\t192.0.2.1:80 \t"),
	HOST(" [2001:db8::1]"),
	HOST(" [::ffff:192.0.2.1]:80"),
	HOST(" a%20b,c"),
};

#define LENGTH(length, octets, ...) \
	TAKEN(HEAD("Content-Length:" length "\r\n") octets, "POST", "/bid", __VA_ARGS__)
#define CHUNKS(octets, ...) TAKEN(CHUNKED(octets), "POST", "/bid", __VA_ARGS__)

static const struct taken taken_bodies[] = {
	LENGTH(" 0", ""),
	LENGTH(" 5", "hello", .body = T("hello")),
	LENGTH("5", "hello\r\nGET", .body = T("hello"), .unread = 5),
	LENGTH(" 0005", "he\0lo", .body = T("he\0lo")),
	LENGTH(" 5 ", "hello", .body = T("hello")),
	LENGTH(" 5\t", "hello", .body = T("hello")),
	LENGTH("\t5 \t\t \t", "hello", .body = T("hello")),
	LENGTH(" 20", "01234567890123456789", .body = T("01234567890123456789")),
	CHUNKS("0\r\n\r\n"),
	CHUNKS("5\r\nhello\r\n0\r\n\r\nGET", .body = T("hello"), .unread = 3),
	CHUNKS("2\r\nhe\r\n1\r\nl\r\n2\r\nlo\r\n0\r\n\r\n", .body = T("hello")),
	CHUNKS("2\r\n\r\n\r\n3\r\n\n\r0\r\n000\r\n\r\n\r\n", .body = T("\r\n\n\r0"), .unread = 2),
	CHUNKS("0000000000000005\r\nhello\r\n0000000000000000\r\n\r\n", .body = T("hello")),
	CHUNKS("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n",
	       .body = T("01234567890123456789")),
	CHUNKS("5;a\r\nhello\r\n0;b=\"c;d\"\r\n\r\n", .body = T("hello")),
	CHUNKS("5 \t;\ta\r\nhello\r\n0\r\n\r\n", .body = T("hello")),
	CHUNKS("5\r\nhello\r\n0\r\nA: b\r\nContent-Length: x\r\nConnection: close\r\n\r\n",
	       .body = T("hello")),
	CHUNKS("0\r\nA:\r\n\r\nG", .unread = 1),
	TAKEN(HEAD("Transfer-Encoding: \tCHUNKED \t\r\n") "1\r\na\r\n0\r\n\r\n", "POST", "/bid",
	 .body = T("a")),
	TAKEN(HEAD("Expect: 100-continue\r\nContent-Length: 1\r\n") "a", "POST", "/bid",
	 .body = T("a"), .flags = CONTINUE),
	TAKEN(HEAD("Connection: upgrade\r\nUpgrade: a\r\nContent-Length: 1\r\n") "ab", "POST",
	 "/bid", .body = T("a"), .unread = 1),
};

/* To the octet or field what the limits allow. */
static const struct taken taken_sizes[] = {
	TAKEN("GET /" X16 "xxxxxxxxxxxxxxx HTTP/1.1\r\nHost: a\r\n\r\n", "GET",
	 "/" X16 "xxxxxxxxxxxxxxx"),
	TAKEN("GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\nC:\r\n\r\n", "GET", "/"),
	TAKEN(HEAD_OF_256(""), "GET", "/"),
};

static void test_taken_lines(void)
{
	check_taken(taken_lines, COUNT(taken_lines));
}

static void test_taken_fields(void)
{
	check_taken(taken_fields, COUNT(taken_fields));
}

static void test_taken_bodies(void)
{
	check_taken(taken_bodies, COUNT(taken_bodies));
}

static void test_taken_sizes(void)
{
	check_taken(taken_sizes, COUNT(taken_sizes));
}

static bool is_more(const struct outcome *outcome, const void *expected)
{
	(void)expected;
	return outcome->progress == HTTP_MORE;
}

/* Short of its last octet, no request is whole. */
static void check_unfinished(const struct taken *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct octets text = cases[i].text;

		for (text.len -= cases[i].unread + 1; text.len > 0; text.len--) {
			struct outcome outcome = read_pieces(text, text.len, 1);

			CU_ASSERT(is_more(&outcome, NULL));
			outcome_free(&outcome);
		}
	}
}

static void test_unfinished(void)
{
	check_unfinished(taken_lines, COUNT(taken_lines));
	check_unfinished(taken_fields, COUNT(taken_fields));
	check_unfinished(taken_bodies, COUNT(taken_bodies));
}

/* Fields in the order sent, values without the blanks around them. */
static void test_field_spans(void)
{
	static const struct octets text =
		T("GET / HTTP/1.1\r\nHost: a\r\nB:c\r\nD: \t e f \t\r\nG:\t\r\n\r\n");
	static const char *const expected[][2] = {
		{"Host", "a"}, {"B", "c"}, {"D", "e f"}, {"G", ""}};

	for (size_t cut = 1; cut <= text.len; cut++) {
		struct outcome outcome = read_pieces(text, cut, text.len);

		CU_ASSERT_EQUAL_FATAL(outcome.progress, HTTP_DONE);
		CU_ASSERT_EQUAL_FATAL(outcome.request->field_count, COUNT(expected));
		for (size_t i = 0; i < COUNT(expected); i++) {
			const struct http_field *field = &outcome.request->fields[i];

			CU_ASSERT(is_text(&outcome, field->name, expected[i][0]));
			CU_ASSERT(is_text(&outcome, field->value, expected[i][1]));
		}
		outcome_free(&outcome);
	}
}

CU_TestInfo http_request_tests[] = {
	{"taken: request lines", test_taken_lines},
	{"taken: fields", test_taken_fields},
	{"taken: bodies", test_taken_bodies},
	{"taken: sizes", test_taken_sizes},
	{"unfinished", test_unfinished},
	{"spans of fields", test_field_spans},
	CU_TEST_INFO_NULL,
};
