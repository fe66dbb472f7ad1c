/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "histogram.h"

#include <CUnit/CUnit.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static struct histogram histogram;
static struct histogram_sum sum;

static void begin(void)
{
	memset(&histogram, 0, sizeof histogram);
	memset(&sum, 0, sizeof sum);
}

/* Every bucket begins where the one before ends, and holds its own bounds. */
static void test_buckets(void)
{
	CU_ASSERT_EQUAL(histogram_bound(0), 0);
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		CU_ASSERT_EQUAL(histogram_index(histogram_bound(i)), i);
		CU_ASSERT_EQUAL(histogram_index(histogram_bound(i + 1) - 1), i);
		CU_ASSERT(histogram_bound(i) < histogram_bound(i + 1));
	}
	CU_ASSERT(histogram_bound(HISTOGRAM_BUCKETS) > 100000000000u);
	CU_ASSERT_EQUAL(histogram_index(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
	CU_ASSERT_EQUAL(histogram_index(histogram_bound(HISTOGRAM_BUCKETS)), HISTOGRAM_BUCKETS - 1);
}

/* 1 us to 100 s, in steps that hit all places in a bucket. */
static void test_error(void)
{
	for (double ns = 1000; ns < 1e11; ns *= 1.0037) {
		begin();
		histogram_record(&histogram, (uint64_t)ns);
		histogram_add(&sum, &histogram);
		CU_ASSERT(fabs(histogram_quantile(&sum, 0.5) - ns) <= 0.03 * ns);
		CU_ASSERT(fabs(histogram_quantile(&sum, 1) - ns) <= 0.03 * ns);
		CU_ASSERT(fabs(histogram_mean(&sum) - ns) <= 0.03 * ns);
	}
}

static bool is_near(double value, double expected)
{
	return fabs(value - expected) <= 0.03 * expected;
}

static void test_quantiles(void)
{
	begin();
	for (uint64_t i = 1; i <= 1000; i++)
		histogram_record(&histogram, i * 10000);
	histogram_add(&sum, &histogram);
	CU_ASSERT_EQUAL(sum.count, 1000);
	CU_ASSERT(is_near(histogram_quantile(&sum, 0.5), 5000000));
	CU_ASSERT(is_near(histogram_quantile(&sum, 0.9), 9000000));
	CU_ASSERT(is_near(histogram_quantile(&sum, 0.99), 9900000));
	CU_ASSERT(is_near(histogram_quantile(&sum, 0.999), 9990000));
	CU_ASSERT(is_near(histogram_quantile(&sum, 1), 10000000));
	CU_ASSERT(is_near(histogram_mean(&sum), 5005000));
	CU_ASSERT(is_near(histogram_total(&sum), 5005000000));
}

static void test_empty(void)
{
	begin();
	CU_ASSERT_EQUAL(histogram_quantile(&sum, 0.5), 0);
	CU_ASSERT_EQUAL(histogram_mean(&sum), 0);
	CU_ASSERT_EQUAL(histogram_total(&sum), 0);
	CU_ASSERT_EQUAL(histogram_below(&sum, UINT64_MAX), 0);
}

static void test_below(void)
{
	begin();
	histogram_record(&histogram, 1000);
	histogram_record(&histogram, 1100000);
	histogram_record(&histogram, 2000000000);
	histogram_add(&sum, &histogram);
	CU_ASSERT_EQUAL(histogram_below(&sum, 0), 0);
	CU_ASSERT_EQUAL(histogram_below(&sum, 1u << 20), 1);
	CU_ASSERT_EQUAL(histogram_below(&sum, 1u << 21), 2);
	CU_ASSERT_EQUAL(histogram_below(&sum, UINT64_MAX), 3);
}

static void test_window(void)
{
	static struct histogram_sum earlier;

	begin();
	memset(&earlier, 0, sizeof earlier);
	histogram_record(&histogram, 5000);
	histogram_add(&earlier, &histogram);
	histogram_record(&histogram, 9000000);
	histogram_add(&sum, &histogram);
	histogram_subtract(&sum, &earlier);
	CU_ASSERT_EQUAL(sum.count, 1);
	CU_ASSERT(is_near(histogram_quantile(&sum, 0.5), 9000000));
}

CU_TestInfo histogram_tests[] = {
	{"buckets without gaps", test_buckets},
	{"error of at most 3 %", test_error},
	{"quantiles", test_quantiles},
	{"empty", test_empty},
	{"shorter than", test_below},
	{"what came since", test_window},
	CU_TEST_INFO_NULL,
};
