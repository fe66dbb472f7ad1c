/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "request_reader.h"

#include <CUnit/CUnit.h>

extern CU_TestInfo http_refused_tests[];

/* A request that is refused, and with which status. */
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

CU_TestInfo http_refused_tests[] = {
	{"request lines", test_refused_lines},
	{"targets", test_refused_targets},
	{"fields", test_refused_fields},
	{"Host", test_refused_hosts},
	{"framing", test_refused_framings},
	{"methods", test_refused_methods},
	{"sizes", test_refused_sizes},
	{"chunks", test_refused_chunks},
	CU_TEST_INFO_NULL,
};
