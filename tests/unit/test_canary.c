/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <string.h>

#include "canary.h"

extern CU_TestInfo canary_tests[];

static const struct canary_limits limits = {.requests = 1000, .errors = 0.01, .latency = 2};

static struct canary_count answered(uint64_t requests, uint64_t errors, uint64_t ns)
{
	static struct histogram histogram;
	struct canary_count count = {.requests = requests, .errors = errors};

	memset(&histogram, 0, sizeof histogram);
	for (uint64_t i = 0; i < requests; i++)
		histogram_record(&histogram, ns);
	histogram_add(&count.latency, &histogram);
	return count;
}

static const struct {
	uint64_t requests, errors, old_requests, old_errors;
	bool fails;
} errors[] = {
	{1000, 0, 4000, 0, false},
	{1000, 10, 4000, 0, false}, /* as many as are allowed */
	{1000, 11, 4000, 0, true},
	{999, 999, 4000, 0, false},     /* too few to judge by */
	{1000, 500, 4000, 2000, false}, /* the others are no better */
	{1000, 520, 4000, 2000, true},
	{1000, 11, 0, 0, true},         /* nobody to compare with */
};

static void test_errors(void)
{
	char why[CANARY_WHY_MAX];

	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
		struct canary_count canary = answered(errors[i].requests, errors[i].errors, 1000);
		struct canary_count others =
			answered(errors[i].old_requests, errors[i].old_errors, 1000);

		CU_ASSERT_EQUAL(canary_fails(&limits, &canary, &others, why), errors[i].fails);
	}
	CU_ASSERT_STRING_EQUAL(why, "1.1 % of its 1000 responses were 5xx, of the old workers' 0 %; "
				    "reload.canary_errors allows 1 % more");
}

static const struct {
	uint64_t requests, ns, old_requests, old_ns;
	bool lags;
} latencies[] = {
	{1000, 1000000, 4000, 1000000, false},
	{1000, 2900000, 4000, 1000000, false}, /* twice, and 1 ms */
	{1000, 3300000, 4000, 1000000, true},
	{999, 90000000, 4000, 1000000, false}, /* too few to judge by */
	{1000, 90000000, 999, 1000000, false}, /* too few to compare with */
	{1000, 1000, 4000, 1000000, false},    /* better */
	{1000, 900000, 4000, 1000, false},     /* a multiple of next to nothing */
};

static void test_latencies(void)
{
	char why[CANARY_WHY_MAX] = "";

	for (size_t i = 0; i < sizeof latencies / sizeof *latencies; i++) {
		struct canary_count canary = answered(latencies[i].requests, 0, latencies[i].ns);
		struct canary_count others =
			answered(latencies[i].old_requests, 0, latencies[i].old_ns);

		CU_ASSERT_EQUAL(canary_lags(&limits, &canary, &others, why), latencies[i].lags);
	}
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "reload.canary_latency allows 2 times as much"));
}

static void test_subtract(void)
{
	struct canary_count earlier = answered(100, 10, 1000), now = answered(300, 30, 1000);

	canary_subtract(&now, &earlier);
	CU_ASSERT_EQUAL(now.requests, 200);
	CU_ASSERT_EQUAL(now.errors, 20);
	CU_ASSERT_EQUAL(now.latency.count, 200);
}

CU_TestInfo canary_tests[] = {
	{"errors", test_errors},
	{"latencies", test_latencies},
	{"what came since", test_subtract},
	CU_TEST_INFO_NULL,
};
