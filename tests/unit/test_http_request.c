/* SPDX-License-Identifier: MIT */
/*
 * Every case is read whole, cut in two at every octet, and octet by octet, each time from a buffer
 * that ends where its octets end and moves between calls: the outcome must be the same.
 */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_request.h"

extern CU_TestInfo http_request_tests[];

/* A text that may hold NUL, with its length. */
struct octets {
	const char *ptr;
	size_t len;
};

#define T(text) {text, sizeof(text) - 1}
#define HEAD(fields) "POST /bid HTTP/1.1\r\nHost: a\r\n" fields "\r\n"
#define CHUNKED(body) HEAD("Transfer-Encoding: chunked\r\n") body
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The fields in all heads are fewer, the texts shorter, unless a case is about that. */
static const struct http_limits limits = {
	.head_size = 256, .max_fields = 4, .target_size = 32, .body_size = 20};

struct outcome {
	enum http_progress progress;
	struct http_request *request;
	char *buf;     /* the request's octets, chunks decoded */
	size_t unread; /* octets behind the request */
};

static void outcome_free(struct outcome *outcome)
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

/* Reads `text`: the first `cut` octets at once, then pieces of `step`. */
static struct outcome read_pieces(struct octets text, size_t cut, size_t step)
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

/* Checks what comes of the text, in whatever way it is read. */
static void read_every_way(struct octets text, const void *expected,
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

/* Requests that are refused, and with which status. */

struct refused {
	struct octets text;
	unsigned status;
};

static bool is_refused(const struct outcome *outcome, const void *expected)
{
	return outcome->progress == HTTP_BAD &&
	       outcome->request->status == ((const struct refused *)expected)->status;
}

static void check_refused(const struct refused *cases, size_t count)
{
	for (size_t i = 0; i < count; i++)
		read_every_way(cases[i].text, &cases[i], is_refused);
}

static const struct refused refused_lines[] = {
	{T("GET / HTTP/1.1\nHost: a\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\rXHost: a\r\n\r\n"), 400},
	{T("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /  HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"), 400},
	{T("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /\r\n\r\n"), 400},
	{T("GET / HXXX/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET / http/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("SOURCE / ICE/1.0\r\n\r\n"), 400},
	{T("GET / HTTP/1\r\nHost: a\r\n\r\n"), 400},
	{T("GET / HTTP/11\r\nHost: a\r\n\r\n"), 400},
	{T("GET / HTTP/1.10\r\nHost: a\r\n\r\n"), 400},
	{T("GET / HTTP/01.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505},
	{T("GET / HTTP/0.9\r\nHost: a\r\n\r\n"), 505},
	{T("GET / HTTP/3.1\r\n\r\n"), 505},
	{T("G\0T / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("\x01GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400},
	{T("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
};

static const struct refused refused_targets[] = {
	{T("GET /\ta HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /\fa HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /a\x7f HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /a\"b HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /<a> HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /a\\b HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /a^b HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /{a} HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /%4 HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET /% HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET * HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("OPTIONS *a HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET a HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
	{T("GET http://a:b/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
};

static const struct refused refused_fields[] = {
	{T(HEAD("A : b\r\n")), 400},
	{T(HEAD("Content-Length : 5\r\n")), 400},
	{T(HEAD("A b: c\r\n")), 400},
	{T(HEAD("A\t: b\r\n")), 400},
	{T(HEAD(": b\r\n")), 400},
	{T(HEAD("A\r\n")), 400},
	{T(HEAD("A(: b\r\n")), 400},
	{T(HEAD("\xc3\xa4: b\r\n")), 400},
	{T(HEAD("A:\rXB: c\r\n")), 400},
	{T(HEAD("A: b\n")), 400},
	{T(HEAD("A: b\rc\r\n")), 400},
	{T(HEAD("A: b\r\n c\r\n")), 400},
	{T(HEAD("A:\r\n b\r\n")), 400},
	{T(HEAD("Connection: a,\r\n close\r\n")), 400},
	{T(HEAD("Content-Length:\r\n 5\r\n")), 400},
	{T(HEAD("Transfer-Encoding:\r\n chunked\r\n")), 400},
	{T(HEAD("A: \0b\r\n")), 400},
	{T(HEAD("A: b\0\r\n")), 400},
	{T(HEAD("A: \x01\r\n")), 400},
	{T(HEAD("A: \x7f\r\n")), 400},
	{T(HEAD("A: b\x7f\r\n")), 400},
	{T("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: a\r\n\rX"), 400},
	{T("GET / HTTP/1.1\r\nHost: a\r\n\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: a\n\n"), 400},
};

static const struct refused refused_hosts[] = {
	{T("GET / HTTP/1.1\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400},
	{T("GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: a:8:8\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: :80\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: []\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: [::g]\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: a%4\r\n\r\n"), 400},
	{T("GET / HTTP/1.1\r\nHost: \xc3\xa4\r\n\r\n"), 400},
};

static const struct refused refused_framings[] = {
	{T(HEAD("Content-Length: \r\n")), 400},
	{T(HEAD("Content-Length: +5\r\n") "hello"), 400},
	{T(HEAD("Content-Length: -5\r\n")), 400},
	{T(HEAD("Content-Length: 0x5\r\n")), 400},
	{T(HEAD("Content-Length: 5 5\r\n")), 400},
	{T(HEAD("Content-Length: 5\t5\r\n")), 400},
	{T(HEAD("Content-Length: 5, 6\r\n")), 400},
	{T(HEAD("Content-Length: 5\r\nContent-Length: 6\r\n")), 400},
	{T(HEAD("Content-Length: 18446744073709551616\r\n")), 400},
	{T(HEAD("Content-Length: 18446744073709551621\r\n")), 400},
	{T(HEAD("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") "0\r\n\r\n"), 400},
	{T(HEAD("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n") "0\r\n\r\n"), 400},
	{T(HEAD("Transfer-Encoding: chunked\t\r\nContent-Length: 5\r\n") "0\r\n\r\n"), 400},
	{T(HEAD("Content-Length: 5\r\nTransfer-Encoding: \tchunked\r\n") "0\r\n\r\n"), 400},
	{T(HEAD("Content-Length: 5\r\nTransfer-Encoding: x\r\n") "0\r\n\r\n"), 400},
	{T(HEAD("Transfer-Encoding: gzip\r\n")), 501},
	{T(HEAD("Transfer-Encoding: gzip, chunked\r\n")), 501},
	{T(HEAD("Transfer-Encoding: identity\r\n")), 501},
	{T(HEAD("Transfer-Encoding: x;q=\"a,chunked\r\n")), 400},
	{T(HEAD("Transfer-Encoding: chunked, chunked\r\n")), 400},
	{T(HEAD("Transfer-Encoding: chunked;a\r\n")), 400},
	{T(HEAD("Transfer-Encoding: \r\n")), 400},
	{T(HEAD("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")), 400},
	{T(HEAD("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n")), 501},
	{T("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400},
	{T(HEAD("Expect: 200-maybe\r\n")), 417},
	{T(HEAD("Expect: 100-continue, x\r\n")), 417},
};

static const struct refused refused_methods[] = {
	{T("QUERY / HTTP/1.1\r\n"), 501},
	{T("get / HTTP/1.1\r\n"), 501},
	{T("GETS / HTTP/1.1\r\n"), 501},
	{T("GE / HTTP/1.1\r\n"), 501},
	{T("G / HTTP/1.1\r\n"), 501},
	{T("POSTPONE / HTTP/1.1\r\n"), 501},
	{T("!#$%&'*+-.^_`|~09aZ / HTTP/1.1\r\n"), 501},
	{T("\r\n\r\nQUERY / HTTP/1.1\r\n"), 501},
	{T("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 501},
	{T("0123456789012345678901234567890123456789012345678901234567890123 "), 501},
	{T("01234567890123456789012345678901234567890123456789012345678901234"), 501},
	{T("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
	{T("CONNECT a:80 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"), 501},
	{T("QUERY(/ HTTP/1.1\r\n"), 400},
	{T("QUERY\r\n"), 400},
	{T("(QUERY / HTTP/1.1\r\n"), 400},
	{T("QU\x7fRY / HTTP/1.1\r\n"), 400},
};

/* Of the limits, by one octet or field too much. */
#define X16 "xxxxxxxxxxxxxxxx"
#define X64 X16 X16 X16 X16
#define FIELD_OF_64 "A: " X16 X16 X16 "xxxxxxxxxxx\r\n"
#define HEAD_OF_256(more) \
	"GET / HTTP/1.1\r\nHost: a" X16 X16 "xxxxx" more "\r\n" \
	FIELD_OF_64 FIELD_OF_64 FIELD_OF_64 "\r\n"

static const struct refused refused_sizes[] = {
	{T("GET /" X16 X16 " HTTP/1.1\r\nHost: a\r\n\r\n"), 414},
	{T("GET /" X64 X64 X64 X64), 414},
	{T("GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\nC:\r\nD:\r\n\r\n"), 431},
	{T(HEAD_OF_256("x")), 431},
	{T("GET / HTTP/1.1\r\nHost: a\r\nA: " X64 X64 X64 X64), 431},
	{T("GET / HTTP/1.1\r\n" X64 X64 X64 X64), 431},
	{T("GET / HTTP/1.1\r\nHost: a\r\n" X64 X64 X64 X64), 431},
	{T(HEAD("Content-Length: 21\r\n")), 413},
	{T(HEAD("Content-Length: 1000000000000000000\r\n")), 413},
	{T(CHUNKED("15\r\n")), 413},
	{T(CHUNKED("ffffffffffffffff\r\n")), 413},
	{T(CHUNKED("14\r\n01234567890123456789\r\n1\r\n")), 413},
	{T(CHUNKED("1;" X64 X64 X64 X64 "x\r\n")), 431},
	{T(CHUNKED("0\r\nA:" X64 X64 X64 X64 "\r\n\r\n")), 431},
	{T(CHUNKED("1;" X64 X64 "\r\na\r\n0\r\nA:" X64 X64 "\r\n\r\n")), 431},
};

static const struct refused refused_chunks[] = {
	{T(CHUNKED("\r\n")), 400},
	{T(CHUNKED("x\r\n")), 400},
	{T(CHUNKED(" 5\r\n")), 400},
	{T(CHUNKED("5 \r\nhello")), 400},
	{T(CHUNKED("5 5\r\n")), 400},
	{T(CHUNKED("-5\r\n")), 400},
	{T(CHUNKED("+5\r\n")), 400},
	{T(CHUNKED("0x5\r\n")), 400},
	{T(CHUNKED("5\nhello")), 400},
	{T(CHUNKED("5\rXhello")), 400},
	{T(CHUNKED(";a\r\n")), 400},
	{T(CHUNKED("00000000000000005\r\n")), 400},
	{T(CHUNKED("5;a\nhello")), 400},
	{T(CHUNKED("5;a\0b\r\nhello")), 400},
	{T(CHUNKED("5;a\x7f\r\nhello")), 400},
	{T(CHUNKED("5;a\rX")), 400},
	{T(CHUNKED("5\r\nhelloXX")), 400},
	{T(CHUNKED("5\r\nhello\n")), 400},
	{T(CHUNKED("5\r\nhello\rX")), 400},
	{T(CHUNKED("5\r\nhello!\r\n")), 400},
	{T(CHUNKED("5\r\nhell\r\n0\r\n\r\n")), 400},
	{T(CHUNKED("0\r\n\n")), 400},
	{T(CHUNKED("0\n\n")), 400},
	{T(CHUNKED("0\r\n A: b\r\n\r\n")), 400},
	{T(CHUNKED("0\r\nA b: c\r\n\r\n")), 400},
	{T(CHUNKED("0\r\nA\r\n\r\n")), 400},
	{T(CHUNKED("0\r\n: b\r\n\r\n")), 400},
	{T(CHUNKED("0\r\nA: b\n\r\n")), 400},
	{T(CHUNKED("0\r\nA: b\rX\r\n")), 400},
	{T(CHUNKED("0\r\nA: b\0\r\n\r\n")), 400},
	{T(CHUNKED("0\r\nA: b\r\n c\r\n\r\n")), 400},
};

static void test_refused_lines(void)
{
	check_refused(refused_lines, COUNT(refused_lines));
}

static void test_refused_targets(void)
{
	check_refused(refused_targets, COUNT(refused_targets));
}

static void test_refused_fields(void)
{
	check_refused(refused_fields, COUNT(refused_fields));
}

static void test_refused_hosts(void)
{
	check_refused(refused_hosts, COUNT(refused_hosts));
}

static void test_refused_framings(void)
{
	check_refused(refused_framings, COUNT(refused_framings));
}

static void test_refused_methods(void)
{
	check_refused(refused_methods, COUNT(refused_methods));
}

static void test_refused_sizes(void)
{
	check_refused(refused_sizes, COUNT(refused_sizes));
}

static void test_refused_chunks(void)
{
	check_refused(refused_chunks, COUNT(refused_chunks));
}

/* Requests that are taken.  What a case does not name is empty, false or 0. */

enum { CLOSE = 1, CONTINUE = 2, IS_HEAD = 4, OLD = 8 };

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
	{"refused: request lines", test_refused_lines},
	{"refused: targets", test_refused_targets},
	{"refused: fields", test_refused_fields},
	{"refused: Host", test_refused_hosts},
	{"refused: framing", test_refused_framings},
	{"refused: methods", test_refused_methods},
	{"refused: sizes", test_refused_sizes},
	{"refused: chunks", test_refused_chunks},
	{"taken: request lines", test_taken_lines},
	{"taken: fields", test_taken_fields},
	{"taken: bodies", test_taken_bodies},
	{"taken: sizes", test_taken_sizes},
	{"unfinished", test_unfinished},
	{"spans of fields", test_field_spans},
	CU_TEST_INFO_NULL,
};
