/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <string.h>
#include <sys/socket.h>

#include "peer.h"

extern CU_TestInfo peer_tests[];

static void test_texts(void)
{
	static const struct {
		const char *text, *shown; /* NULL: refused */
	} cases[] = {
		{"192.0.2.1", "192.0.2.1:0"},
		{"192.0.2.1:0", "192.0.2.1:0"},
		{"192.0.2.1:65535", "192.0.2.1:65535"},
		{"2001:db8::1", "[2001:db8::1]:0"},
		{"2001:DB8:0:0::1", "[2001:db8::1]:0"},
		{"[2001:db8::1]", "[2001:db8::1]:0"},
		{"[2001:db8::1]:443", "[2001:db8::1]:443"},
		{"::ffff:192.0.2.1", "[::ffff:192.0.2.1]:0"},
		{"::", "[::]:0"},
		{"", NULL},
		{" 192.0.2.1", NULL},
		{"192.0.2.1 ", NULL},
		{"192.0.2.1:", NULL},
		{"192.0.2.1:65536", NULL},
		{"192.0.2.1:080", NULL},
		{"192.0.2.1:-1", NULL},
		{"192.0.2.1:8o", NULL},
		{"192.0.2", NULL},
		{"192.0.2.256", NULL},
		{"0xc0.0.2.1", NULL},
		{"[192.0.2.1]", NULL},
		{"[192.0.2.1]:80", NULL},
		{"[", NULL},
		{"[]", NULL},
		{"[]:80", NULL},
		{"[2001:db8::1", NULL},
		{"[2001:db8::1]443", NULL},
		{"[2001:db8::1]:", NULL},
		{"[2001:db8::1]x443", NULL},
		{"2001:db8::1%eth0", NULL},
		{"unknown", NULL},
		{"_hidden", NULL},
		{"example.org:80", NULL},
		{"1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc", NULL},
	};
	char shown[PEER_TEXT];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct peer peer;
		bool taken = peer_parse(&peer, cases[i].text, strlen(cases[i].text));

		CU_ASSERT_EQUAL(taken, cases[i].shown != NULL);
		if (taken && cases[i].shown)
			CU_ASSERT_STRING_EQUAL(peer_text(&peer, shown), cases[i].shown);
	}
}

static void test_octets_that_end_no_text(void)
{
	struct peer peer;

	CU_ASSERT_FALSE(peer_parse(&peer, "192.0.2.1\0", 10));
	CU_ASSERT_TRUE(peer_parse(&peer, "192.0.2.123", 9));
	CU_ASSERT_STRING_EQUAL(peer_text(&(struct peer){.family = AF_UNIX}, (char[PEER_TEXT]){""}),
			       "unix:");
}

static void test_networks(void)
{
	static const struct {
		const char *network, *address;
		bool holds;
	} cases[] = {
		{"10.0.0.0/8", "10.255.0.1", true},
		{"10.0.0.0/8", "11.0.0.1", false},
		{"10.1.2.3", "10.1.2.3", true},
		{"10.1.2.3", "10.1.2.2", false},
		{"10.1.2.3/32", "10.1.2.3", true},
		{"0.0.0.0/0", "203.0.113.9", true},
		{"0.0.0.0/0", "2001:db8::1", false},
		{"192.168.128.0/17", "192.168.255.1", true},
		{"192.168.128.0/17", "192.168.127.1", false},
		{"10.0.0.0/8", "::ffff:10.1.1.1", true},
		{"10.0.0.0/8", "::ffff:11.1.1.1", false},
		{"::ffff:0:0/96", "::ffff:11.1.1.1", true},
		{"2001:db8::/32", "2001:db8:ffff::1", true},
		{"2001:db8::/32", "2001:db9::1", false},
		{"2001:db8::/33", "2001:db8:8000::1", false},
		{"::1", "::1", true},
		{"::/0", "2001:db8::1", true},
		{"::/0", "10.0.0.1", false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct network network;
		struct peer peer;

		CU_ASSERT_TRUE_FATAL(network_parse(&network, cases[i].network));
		CU_ASSERT_TRUE_FATAL(peer_parse(&peer, cases[i].address, strlen(cases[i].address)));
		CU_ASSERT_EQUAL(network_holds(&network, &peer), cases[i].holds);
	}
}

static void test_what_is_no_network(void)
{
	static const char *const texts[] = {"",
					    "/8",
					    "10.0.0.0/",
					    "10.0.0.0/33",
					    "::/129",
					    "10.0.0.0/x",
					    "10.0.0.0:80",
					    "[::1]",
					    "10.0.0.0/8/8",
					    "localhost",
					    "10.0.0.0/-1",
					    "unix:/path",
					    "unix"};
	struct network network = {.bits = 0};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		CU_ASSERT_FALSE(network_parse(&network, texts[i]));
	CU_ASSERT_TRUE(network_parse(&network, "::/0"));
	CU_ASSERT_FALSE(network_holds(&network, &(struct peer){.family = AF_UNIX}));
	CU_ASSERT_TRUE(network_parse(&network, "unix:"));
	CU_ASSERT_TRUE(network_holds(&network, &(struct peer){.family = AF_UNIX}));
	CU_ASSERT_FALSE(network_holds(&network, &(struct peer){.family = AF_INET}));
}

CU_TestInfo peer_tests[] = {
	{"addresses as text", test_texts},
	{"octets that end no text", test_octets_that_end_no_text},
	{"networks", test_networks},
	{"what is no network", test_what_is_no_network},
	CU_TEST_INFO_NULL,
};
