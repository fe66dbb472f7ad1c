/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <sys/socket.h>

#include "forwarded.h"

extern CU_TestInfo forwarded_tests[];

static struct network list[3];
static const struct networks trusted = {3, list};

static void begin(struct peer *peer)
{
	network_parse(&list[0], "10.0.0.0/8");
	network_parse(&list[1], "2001:db8::/32");
	network_parse(&list[2], "127.0.0.1");
	CU_ASSERT_TRUE_FATAL(peer_parse(peer, "127.0.0.1:5555", 14));
}

static void check_peer(const struct peer *peer, const char *expected)
{
	char text[PEER_TEXT];

	CU_ASSERT_STRING_EQUAL(peer_text(peer, text), expected);
}

static void test_lines(void)
{
	static const struct {
		const char *line, *peer;
		bool goes_on;
	} cases[] = {
		{"", "127.0.0.1:5555", true},
		{" , ,\t,", "127.0.0.1:5555", true},
		{"203.0.113.9", "203.0.113.9:0", false},
		{"203.0.113.9:1234", "203.0.113.9:1234", false},
		{"203.0.113.9 , 10.1.1.1,10.2.2.2 ", "203.0.113.9:0", false},
		{"198.51.100.1, 203.0.113.9, 10.1.1.1", "203.0.113.9:0", false},
		{"6.6.6.6,203.0.113.9", "203.0.113.9:0", false},
		{"10.3.3.3, 10.1.1.1", "10.3.3.3:0", true},
		{",,203.0.113.9,,", "203.0.113.9:0", false},
		{"2600::1", "[2600::1]:0", false},
		{"[2600::1]:443, 2001:db8::5", "[2600::1]:443", false},
		{"[2600::1], [2001:db8::5]:80", "[2600::1]:0", false},
		{"203.0.113.9, ::ffff:10.1.1.1", "203.0.113.9:0", false},
		/* What is no address hides what is left of it. */
		{"unknown", "127.0.0.1:5555", false},
		{"203.0.113.9, unknown, 10.1.1.1", "10.1.1.1:0", false},
		{"203.0.113.9 10.1.1.1", "127.0.0.1:5555", false},
		{"203.0.113.9;10.1.1.1", "127.0.0.1:5555", false},
		{"\"203.0.113.9\"", "127.0.0.1:5555", false},
		{"203.0.113.9, 10.1.1.1:99999", "127.0.0.1:5555", false},
		{"for=203.0.113.9", "127.0.0.1:5555", false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct peer peer;

		begin(&peer);
		CU_ASSERT_EQUAL(forwarded_walk(&peer, &trusted, span_of(cases[i].line)),
				cases[i].goes_on);
		check_peer(&peer, cases[i].peer);
	}
}

/* From the last line to the first, as if they were one. */
static void test_several_lines(void)
{
	struct peer peer;

	begin(&peer);
	CU_ASSERT_TRUE(forwarded_walk(&peer, &trusted, span_of("10.1.1.1, 10.2.2.2")));
	CU_ASSERT_FALSE(forwarded_walk(&peer, &trusted, span_of("198.51.100.1, 203.0.113.9")));
	check_peer(&peer, "203.0.113.9:0");
}

static void test_trust(void)
{
	static const struct networks nobody = {0, NULL};
	struct peer peer;

	begin(&peer);
	CU_ASSERT_TRUE(forwarded_is_trusted(&trusted, &peer));
	CU_ASSERT_FALSE(forwarded_is_trusted(&nobody, &peer));
	peer.family = AF_UNIX;
	CU_ASSERT_FALSE(forwarded_is_trusted(&trusted, &peer));
}

CU_TestInfo forwarded_tests[] = {
	{"one line", test_lines},
	{"several lines", test_several_lines},
	{"whom to trust", test_trust},
	CU_TEST_INFO_NULL,
};
