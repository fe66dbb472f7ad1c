/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>

#include "restart.h"

/* The wait after an end at `now`. */
static uint64_t end(struct restart *restart, uint64_t now, uint64_t alive)
{
	restart_note_end(restart, now, alive, false);
	return restart_wait(restart, now, RESTART_MAX_MS);
}

static void test_never_ended(void)
{
	struct restart restart = {0};

	CU_ASSERT_EQUAL(restart_wait(&restart, 12345, RESTART_MAX_MS), 0);
}

static void test_doubles(void)
{
	static const uint64_t waits[] = {0,    100,  200,   400,   800,  1600,
					 3200, 6400, 10000, 10000, 10000};
	struct restart restart = {0};
	uint64_t now = 1000;

	for (size_t i = 0; i < sizeof waits / sizeof *waits; i++, now += 20000)
		CU_ASSERT_EQUAL(end(&restart, now, 5), waits[i]);
	for (int i = 0; i < 100; i++)
		CU_ASSERT_EQUAL(end(&restart, now, 5), RESTART_MAX_MS);
}

static void test_starts_anew_when_stable(void)
{
	struct restart restart = {0};

	end(&restart, 1000, 5);
	end(&restart, 2000, 5);
	CU_ASSERT_EQUAL(end(&restart, 100000, RESTART_STABLE_MS - 1), 200);
	CU_ASSERT_EQUAL(end(&restart, 200000, RESTART_STABLE_MS), 0);
	CU_ASSERT_EQUAL(end(&restart, 200010, 5), 100);
}

static void test_time_passes(void)
{
	struct restart restart = {.failures = 3};

	CU_ASSERT_EQUAL(end(&restart, 5000, 5), 400);
	CU_ASSERT_EQUAL(restart_wait(&restart, 5150, RESTART_MAX_MS), 250);
	CU_ASSERT_EQUAL(restart_wait(&restart, 5400, RESTART_MAX_MS), 0);
	CU_ASSERT_EQUAL(restart_wait(&restart, 9999, RESTART_MAX_MS), 0);
}

static void test_needed(void)
{
	struct restart restart = {.failures = 7};

	CU_ASSERT_EQUAL(end(&restart, 5000, 5), 6400);
	CU_ASSERT_EQUAL(restart_wait(&restart, 5000, RESTART_FIRST_MS), 100);
	CU_ASSERT_EQUAL(restart_wait(&restart, 5060, RESTART_FIRST_MS), 40);
	CU_ASSERT_EQUAL(restart_wait(&restart, 6000, RESTART_FIRST_MS), 0);
	CU_ASSERT_EQUAL(restart_wait(&restart, 5001, RESTART_SERVED_MS), RESTART_SERVED_MS - 1);
	restart.failures = 0;
	end(&restart, 7000, 5);
	CU_ASSERT_EQUAL(restart_wait(&restart, 7000, RESTART_FIRST_MS), 0);
}

static void test_clean_end(void)
{
	struct restart restart = {.failures = 4};

	restart_note_end(&restart, 5000, RESTART_CLEAN_MS, true);
	CU_ASSERT_EQUAL(restart_wait(&restart, 5000, RESTART_MAX_MS), 0);
	CU_ASSERT_EQUAL(restart.failures, 4);
	/* One that leaves as soon as it is started must not be started for ever at full speed. */
	restart_note_end(&restart, 5000, RESTART_CLEAN_MS - 1, true);
	CU_ASSERT_EQUAL(restart_wait(&restart, 5000, RESTART_MAX_MS), 800);
}

CU_TestInfo restart_tests[] = {
	{"never ended", test_never_ended},
	{"the pause doubles", test_doubles},
	{"the count starts anew when stable", test_starts_anew_when_stable},
	{"time passes", test_time_passes},
	{"needed", test_needed},
	{"a clean end", test_clean_end},
	CU_TEST_INFO_NULL,
};
