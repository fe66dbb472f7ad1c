/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "proxy_header.h"

extern CU_TestInfo proxy_header_tests[];

#define V2 "\r\n\r\n\0\r\nQUIT\n"
#define V4_BLOCK "\xc0\0\2\1\xc0\0\2\2\x12\x67\0\x50"
#define V6_BLOCK "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1" "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\2" "\x12\x67\0\x50"

struct header_case {
	const char *octets;
	size_t len;
	const char *peer; /* NULL: the connection's own */
};

#define CASE(octets, peer) {octets, sizeof octets - 1, peer}

static const struct header_case good[] = {
	CASE("PROXY TCP4 192.0.2.1 192.0.2.2 4711 80\r\n", "192.0.2.1:4711"),
	CASE("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535"),
	CASE("PROXY TCP6 2001:db8::1 2001:db8::2 4711 0\r\n", "[2001:db8::1]:4711"),
	CASE("PROXY UNKNOWN\r\n", NULL),
	CASE("PROXY UNKNOWN \r\n", NULL),
	CASE("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", NULL),
	CASE(V2 "\x21\x11\0\xc" V4_BLOCK, "192.0.2.1:4711"),
	CASE(V2 "\x21\x11\0\x10" V4_BLOCK "\4\0\1x", "192.0.2.1:4711"), /* a TLV */
	CASE(V2 "\x21\x21\0\x24" V6_BLOCK, "[2001:db8::1]:4711"),
	CASE(V2 "\x21\0\0\0", NULL),
	CASE(V2 "\x21\0\0\3abc", NULL),
	CASE(V2 "\x20\0\0\0", NULL),
	CASE(V2 "\x20\x11\0\xc" V4_BLOCK, NULL),
	CASE(V2 "\x20\xff\0\1x", NULL), /* of LOCAL all else is ignored */
};

/* Each is refused at its last octet or before. */
static const struct header_case bad[] = {
	CASE("G", NULL),
	CASE("PROXX", NULL),
	CASE("proxy ", NULL),
	CASE("PROXY\t", NULL),
	CASE("PROXY\r\n", NULL),
	CASE("PROXY \r", NULL),
	CASE("PROXY  TCP4 192.0.2.1 192.0.2.2 4711 80\r", NULL),
	CASE("PROXY TCP4  192.0.2.1 192.0.2.2 4711 80\r", NULL),
	CASE("PROXY TCP4 192.0.2.1 192.0.2.2 4711 80 \r", NULL),
	CASE("PROXY TCP4 192.0.2.1 192.0.2.2 4711 80 x\r", NULL),
	CASE("PROXY TCP4 192.0.2.1 192.0.2.2 4711 80\rX", NULL),
	CASE("PROXY TCP4 192.0.2.1 192.0.2.2 4711 80\n\r", NULL),
	CASE("PROXY TCP4 192.0.2.1 192.0.2.2 4711\r", NULL),
	CASE("PROXY TCP4 192.0.2.1 192.0.2.2\r", NULL),
	CASE("PROXY TCP4 192.0.2.1\r", NULL),
	CASE("PROXY TCP4\r", NULL),
	CASE("PROXY TCP4 192.0.2.1 192.0.2.2 04711 80\r", NULL),
	CASE("PROXY TCP4 192.0.2.1 192.0.2.2 65536 80\r", NULL),
	CASE("PROXY TCP4 192.0.2.1 192.0.2.2 1 -1\r", NULL),
	CASE("PROXY TCP4 2001:db8::1 2001:db8::2 4711 80\r", NULL),
	CASE("PROXY TCP6 192.0.2.1 192.0.2.2 4711 80\r", NULL),
	CASE("PROXY TCP4 192.0.2.1 2001:db8::2 4711 80\r", NULL),
	CASE("PROXY TCP4 192.0.2.1\0 192.0.2.2 4711 80\r", NULL),
	CASE("PROXY UDP4 192.0.2.1 192.0.2.2 4711 80\r", NULL),
	CASE("PROXY UNKNOWNX\r", NULL),
	CASE("\r\nG", NULL),
	CASE("\r\n\r\n\1", NULL),
	CASE(V2 "\x11", NULL), /* version 1 in version 2's form */
	CASE(V2 "\x22", NULL), /* an unknown command */
	CASE(V2 "\x21\x12\0\xc" V4_BLOCK, NULL), /* datagrams */
	CASE(V2 "\x21\x10\0\xc" V4_BLOCK, NULL),
	CASE(V2 "\x21\x41\0\xc" V4_BLOCK, NULL),
	CASE(V2 "\x21\x11\0\0", NULL), /* too short for its addresses */
	CASE(V2 "\x21\x11\0\xb" "\xc0\0\2\1\xc0\0\2\2\x12\x67\0", NULL),
	CASE(V2 "\x21\x21\0\xc" V4_BLOCK, NULL),
	CASE(V2 "\x21\x11\x10\1", NULL), /* too long */
	CASE(V2 "\x20\0\xff\xff", NULL),
};

/* In memory of exactly that size, so that a sanitizer sees what is read behind it. */
static enum proxy_progress parse(const char *octets, size_t len, struct proxy_header *header)
{
	char *copy = malloc(len + !len);
	enum proxy_progress progress;

	memcpy(copy, octets, len);
	progress = proxy_header_parse(copy, len, header);
	free(copy);
	return progress;
}

static void check_good(const struct header_case *test)
{
	struct proxy_header header;
	char text[PEER_TEXT], more[512];

	for (size_t cut = 0; cut < test->len; cut++)
		CU_ASSERT_EQUAL(parse(test->octets, cut, &header), PROXY_MORE);
	memcpy(more, test->octets, test->len);
	memcpy(more + test->len, "GET / H", 7);
	for (size_t behind = 0; behind <= 7; behind++) {
		CU_ASSERT_EQUAL_FATAL(parse(more, test->len + behind, &header), PROXY_DONE);
		CU_ASSERT_EQUAL(header.len, test->len);
		CU_ASSERT_EQUAL(header.has_peer, test->peer != NULL);
		if (test->peer)
			CU_ASSERT_STRING_EQUAL(peer_text(&header.peer, text), test->peer);
	}
}

static void test_good(void)
{
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		check_good(&good[i]);
}

/* Once refused, it stays refused. */
static void check_bad(const struct header_case *test)
{
	struct proxy_header header = {.len = 42};
	enum proxy_progress before = PROXY_MORE, now;

	for (size_t cut = 0; cut <= test->len; cut++, before = now) {
		now = parse(test->octets, cut, &header);
		CU_ASSERT_NOT_EQUAL(now, PROXY_DONE);
		CU_ASSERT(now >= before);
	}
	CU_ASSERT_EQUAL(before, PROXY_BAD);
	CU_ASSERT_EQUAL(header.len, 42);
}

static void test_bad(void)
{
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		check_bad(&bad[i]);
}

/* A text of version 1 has 107 octets at most. */
static void test_length_of_v1(void)
{
	char octets[128];
	struct proxy_header header;

	memset(octets, 'x', sizeof octets);
	memcpy(octets, "PROXY UNKNOWN ", 14);
	for (size_t len = 14; len < sizeof octets; len++)
		CU_ASSERT_EQUAL(parse(octets, len, &header), len < 107 ? PROXY_MORE : PROXY_BAD);
	memcpy(octets + 105, "\r\n", 2);
	CU_ASSERT_EQUAL(parse(octets, 106, &header), PROXY_MORE);
	CU_ASSERT_EQUAL(parse(octets, 107, &header), PROXY_DONE);
	memcpy(octets + 105, "x\r\n", 3);
	CU_ASSERT_EQUAL(parse(octets, 107, &header), PROXY_BAD);
	CU_ASSERT_EQUAL(parse(octets, 108, &header), PROXY_BAD);
}

static void test_length_of_v2(void)
{
	char octets[PROXY_HEADER_V2_MAX + 1] = V2 "\x21\x11\x10\0" V4_BLOCK;
	struct proxy_header header;

	CU_ASSERT_EQUAL(parse(octets, PROXY_HEADER_V2_MAX - 1, &header), PROXY_MORE);
	CU_ASSERT_EQUAL(parse(octets, PROXY_HEADER_V2_MAX, &header), PROXY_DONE);
	CU_ASSERT_EQUAL(header.len, PROXY_HEADER_V2_MAX);
}

static void test_unix(void)
{
	char octets[16 + 216] = V2 "\x21\x31\0\xd8/run/client";
	struct proxy_header header;

	CU_ASSERT_EQUAL(parse(octets, sizeof octets - 1, &header), PROXY_MORE);
	CU_ASSERT_EQUAL(parse(octets, sizeof octets, &header), PROXY_DONE);
	CU_ASSERT_STRING_EQUAL(peer_text(&header.peer, (char[PEER_TEXT]){""}), "unix:");
}

CU_TestInfo proxy_header_tests[] = {
	{"headers, cut anywhere", test_good},
	{"what is refused, and when", test_bad},
	{"length of version 1", test_length_of_v1},
	{"length of version 2", test_length_of_v2},
	{"a client on a Unix socket", test_unix},
	CU_TEST_INFO_NULL,
};
