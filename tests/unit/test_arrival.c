/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>

#include "arrival.h"

extern CU_TestInfo arrival_tests[];

#define MS 1000000ll
#define SECOND 1000000000ll
#define REAL (1700000000 * SECOND) /* CLOCK_REALTIME when CLOCK_MONOTONIC was 0 */
#define NOW (1000 * SECOND)

/* Age in ms of what was stamped `age_ms` before NOW, by a clock that is `ahead` of REAL. */
static int64_t age(const struct arrival *arrival, int64_t age_ms, int64_t ahead, uint64_t since_ns)
{
	uint64_t stamp = (uint64_t)(REAL + NOW - age_ms * MS + ahead);

	return (NOW - (int64_t)arrival_of(arrival, stamp, since_ns, (uint64_t)NOW)) / MS;
}

static void test_steady_clock(void)
{
	struct arrival arrival = {.offset_ns = REAL};

	CU_ASSERT_EQUAL(age(&arrival, 0, 0, 0), 0);
	CU_ASSERT_EQUAL(age(&arrival, 80, 0, 0), 80);
	CU_ASSERT_EQUAL(age(&arrival, -5, 0, 0), 0);
	CU_ASSERT_EQUAL(age(&arrival, 80, 0, NOW - 50 * MS), 50);
	CU_ASSERT_EQUAL(age(&arrival, 80, 0, NOW - 90 * MS), 80);
	CU_ASSERT_EQUAL(arrival_of(&arrival, 1, 0, NOW), 0);
	CU_ASSERT_EQUAL(arrival_of(&arrival, UINT64_MAX / 2, 0, NOW), NOW);
}

static void test_agreement(void)
{
	struct arrival arrival = {.offset_ns = REAL};

	CU_ASSERT(arrival_agrees(&arrival, REAL));
	CU_ASSERT(arrival_agrees(&arrival, REAL + MS - 1));
	CU_ASSERT(arrival_agrees(&arrival, REAL - MS + 1));
	CU_ASSERT(!arrival_agrees(&arrival, REAL + MS));
	CU_ASSERT(!arrival_agrees(&arrival, REAL - MS));
}

/* Stamped before or after the step, each seen after it. */
static void test_steps(void)
{
	static const int64_t steps[] = {3600 * SECOND, -3600 * SECOND, SECOND, -SECOND, 200 * MS, -200 * MS};

	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		struct arrival arrival = {.offset_ns = REAL};

		arrival_step(&arrival, REAL + steps[i], NOW - 100 * MS);
		CU_ASSERT_EQUAL(age(&arrival, 150, 0, 0), 150);
		CU_ASSERT_EQUAL(age(&arrival, 50, steps[i], 0), 50);
		CU_ASSERT_EQUAL(age(&arrival, 0, steps[i], 0), 0);
	}
}

/* What can't be told apart is rather young than old, and never in the future. */
static void test_doubt(void)
{
	struct arrival arrival = {.offset_ns = REAL};

	arrival_step(&arrival, REAL + 40 * MS, NOW - 10 * MS);
	CU_ASSERT_EQUAL(age(&arrival, 90, 0, 0), 90);
	CU_ASSERT_EQUAL(age(&arrival, 90, 40 * MS, 0), 50);
	arrival_step(&arrival, REAL, NOW - 5 * MS);
	CU_ASSERT_EQUAL(age(&arrival, 90, 0, 0), 90);
	CU_ASSERT_EQUAL(age(&arrival, 90, 40 * MS, 0), 50);
	CU_ASSERT_EQUAL(age(&arrival, 30, 40 * MS, 0), 30);
}

static void test_steps_are_forgotten(void)
{
	struct arrival arrival = {.offset_ns = REAL};

	arrival_step(&arrival, REAL + 40 * MS, NOW - 11 * SECOND);
	CU_ASSERT_EQUAL(age(&arrival, 90, 40 * MS, 0), 90);
}

CU_TestInfo arrival_tests[] = {
	{"steady clock", test_steady_clock},
	{"agreement", test_agreement},
	{"steps", test_steps},
	{"doubt", test_doubt},
	{"steps are forgotten", test_steps_are_forgotten},
	CU_TEST_INFO_NULL,
};
