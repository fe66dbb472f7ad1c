/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <string.h>

#include "quarantine.h"

#define SECOND 1000000000u

extern CU_TestInfo quarantine_tests[];

static struct quarantine quarantine;

static void begin(void)
{
	memset(&quarantine, 0, sizeof quarantine);
}

static bool holds(uint64_t print, uint64_t second)
{
	return quarantine_is_used(&quarantine, second * SECOND) &&
	       quarantine_holds(&quarantine, print, second * SECOND);
}

/* Called in that second. */
static void crash_of(uint64_t print, uint64_t began, uint64_t second)
{
	quarantine_note_crash(&quarantine, print, 100 + print, began * SECOND, second * SECOND,
			      10ull * SECOND);
}

static void crash(uint64_t print, uint64_t second)
{
	crash_of(print, second, second);
}

static struct quarantine_request request(unsigned generation, const char *head, const char *body)
{
	return (struct quarantine_request){span_of(head), span_of(body), generation};
}

static uint64_t print(unsigned generation, const char *head, const char *body)
{
	struct quarantine_request octets = request(generation, head, body);

	return quarantine_print(&octets);
}

static bool has_size(size_t size, uint64_t second)
{
	static char octets[4096];
	struct quarantine_request sized = {{octets, size / 2}, {octets, size - size / 2}, 1};

	return quarantine_has_size(&quarantine, &sized, second * SECOND);
}

static void test_prints(void)
{
	const char *head = "POST /bid HTTP/1.1\r\nHost: a\r\n\r\n", *body = "{\"id\":\"12345678\"}";
	uint64_t one = print(1, head, body);

	CU_ASSERT_EQUAL(one, print(1, head, body));
	CU_ASSERT_NOT_EQUAL(one, print(2, head, body));
	CU_ASSERT_NOT_EQUAL(one, print(1, "POST /bid HTTP/1.1\r\nHost: b\r\n\r\n", body));
	CU_ASSERT_NOT_EQUAL(one, print(1, head, "{\"id\":\"12345679\"}"));
	CU_ASSERT_NOT_EQUAL(one, print(1, head, "{\"id\":\"12345678\"} "));
	CU_ASSERT_NOT_EQUAL(print(1, "ab", "c"), print(1, "a", "bc"));
	CU_ASSERT_NOT_EQUAL(print(1, "GET / HTTP/1.1\r\n\r\n", ""), 0);
}

/* Else nobody has to look at the octets. */
static void test_sizes(void)
{
	begin();
	CU_ASSERT_FALSE(has_size(107, 100));
	crash(7, 100);
	CU_ASSERT_TRUE(has_size(107, 105));
	CU_ASSERT_FALSE(has_size(106, 105));
	CU_ASSERT_FALSE(has_size(107, 110));
	quarantine_clear(&quarantine, 7);
	CU_ASSERT_FALSE(has_size(107, 105));
}

/* Whoever was at work when a crash was noted could not know of it. */
static void test_at_the_same_time(void)
{
	begin();
	for (int i = 0; i < 20; i++)
		crash_of(7, 100, 101);
	CU_ASSERT_FALSE(holds(7, 101));
	for (int i = 0; i < 20; i++)
		crash_of(7, 102, 103);
	CU_ASSERT_TRUE(holds(7, 112));
	CU_ASSERT_FALSE(holds(7, 113));
}

/* By a handler that writes anywhere. */
static void test_scribbled(void)
{
	for (int octet = 1; octet < 256; octet += 127) {
		memset(&quarantine, octet, sizeof quarantine);
		CU_ASSERT_FALSE(quarantine_is_used(&quarantine, 100 * (uint64_t)SECOND));
		for (uint64_t print = 1; print <= QUARANTINE_ENTRIES; print++) {
			crash(print, 100);
			crash(print, 101);
		}
		for (uint64_t print = 1; print <= QUARANTINE_ENTRIES; print++)
			CU_ASSERT_TRUE(holds(print, 105));
		CU_ASSERT_FALSE(quarantine_is_used(&quarantine, 121 * (uint64_t)SECOND));
	}
}

static void test_reset(void)
{
	begin();
	crash(7, 100);
	crash(7, 100);
	quarantine_reset(&quarantine);
	CU_ASSERT_FALSE(holds(7, 100));
	crash(7, 101);
	CU_ASSERT_FALSE(holds(7, 101));
}

static void test_twice_in_a_row(void)
{
	begin();
	CU_ASSERT_FALSE(quarantine_is_used(&quarantine, 100 * (uint64_t)SECOND));
	crash(7, 100);
	CU_ASSERT_TRUE(quarantine_is_used(&quarantine, 100 * (uint64_t)SECOND));
	CU_ASSERT_FALSE(holds(7, 100));
	crash(7, 101);
	CU_ASSERT_TRUE(holds(7, 101));
	CU_ASSERT_TRUE(holds(7, 110));
	CU_ASSERT_FALSE(holds(8, 105));
}

/* Crashes that lie far apart, and one that was followed by an answer. */
static void test_not_in_a_row(void)
{
	begin();
	crash(7, 100);
	crash(7, 111);
	CU_ASSERT_FALSE(holds(7, 111));
	quarantine_clear(&quarantine, 7);
	crash(7, 112);
	CU_ASSERT_FALSE(holds(7, 112));
	quarantine_clear(&quarantine, 8);
	crash(7, 113);
	CU_ASSERT_TRUE(holds(7, 113));
	quarantine_clear(&quarantine, 7);
	CU_ASSERT_FALSE(holds(7, 114));
}

static void test_one_is_let_through_to_see(void)
{
	begin();
	crash(7, 100);
	crash(7, 100);
	CU_ASSERT_FALSE(holds(7, 110));
	CU_ASSERT_TRUE(holds(7, 110));
	CU_ASSERT_TRUE(holds(7, 119));
	crash(7, 119); /* that one */
	CU_ASSERT_TRUE(holds(7, 138));
	CU_ASSERT_FALSE(holds(7, 139));
	CU_ASSERT_TRUE(holds(7, 139));
}

static void test_it_lasts_longer_up_to_a_limit(void)
{
	uint64_t now = 100;

	begin();
	crash(7, now);
	for (uint64_t length = 10; length <= 160; length *= 2) {
		crash(7, now);
		CU_ASSERT_TRUE(holds(7, now + length - 1));
		now += length;
	}
	CU_ASSERT_FALSE(holds(7, now));
	crash(7, now);
	CU_ASSERT_TRUE(holds(7, now + 159));
	CU_ASSERT_FALSE(holds(7, now + 160));
	CU_ASSERT_FALSE(quarantine_is_used(&quarantine, (now + 170) * SECOND));
}

static void test_only_the_last_ones_are_remembered(void)
{
	begin();
	for (uint64_t i = 1; i <= QUARANTINE_ENTRIES + 1; i++) {
		crash(i, 100 + i);
		crash(i, 100 + i);
	}
	CU_ASSERT_FALSE(holds(1, 100 + QUARANTINE_ENTRIES + 1));
	for (uint64_t i = QUARANTINE_ENTRIES; i <= QUARANTINE_ENTRIES + 1; i++)
		CU_ASSERT_TRUE(holds(i, 100 + QUARANTINE_ENTRIES + 1));
	CU_ASSERT_TRUE(holds(8, 100 + QUARANTINE_ENTRIES + 1));
}

CU_TestInfo quarantine_tests[] = {
	{"prints", test_prints},
	{"sizes", test_sizes},
	{"at the same time", test_at_the_same_time},
	{"scribbled", test_scribbled},
	{"reset", test_reset},
	{"twice in a row", test_twice_in_a_row},
	{"not in a row", test_not_in_a_row},
	{"one is let through to see", test_one_is_let_through_to_see},
	{"it lasts longer, up to a limit", test_it_lasts_longer_up_to_a_limit},
	{"only the last ones are remembered", test_only_the_last_ones_are_remembered},
	CU_TEST_INFO_NULL,
};
