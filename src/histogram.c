/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "histogram.h"

uint64_t histogram_bound(unsigned index)
{
	unsigned shift = index >> HISTOGRAM_SUB_BITS;
	uint64_t units = index;

	if (shift > 1) {
		shift--;
		units = (uint64_t)(index - (shift << HISTOGRAM_SUB_BITS)) << shift;
	}
	return units << HISTOGRAM_UNIT_BITS;
}

static double middle(unsigned index)
{
	return ((double)histogram_bound(index) + (double)histogram_bound(index + 1)) / 2;
}

void histogram_add(struct histogram_sum *sum, const struct histogram *histogram)
{
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t n = atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);

		sum->bucket[i] += n;
		sum->count += n;
	}
}

void histogram_subtract(struct histogram_sum *sum, const struct histogram_sum *earlier)
{
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		sum->bucket[i] -= earlier->bucket[i];
	sum->count -= earlier->count;
}

double histogram_quantile(const struct histogram_sum *sum, double share)
{
	uint64_t rank = (uint64_t)(share * (double)sum->count), seen = 0;

	/* The smallest value that at least this share does not exceed. */
	if ((double)rank < share * (double)sum->count || rank == 0)
		rank++;
	for (unsigned i = 0; sum->count > 0 && i < HISTOGRAM_BUCKETS; i++) {
		seen += sum->bucket[i];
		if (seen >= rank)
			return middle(i);
	}
	return 0;
}

double histogram_total(const struct histogram_sum *sum)
{
	double total = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		if (sum->bucket[i])
			total += (double)sum->bucket[i] * middle(i);
	return total;
}

double histogram_mean(const struct histogram_sum *sum)
{
	return sum->count ? histogram_total(sum) / (double)sum->count : 0;
}

uint64_t histogram_below(const struct histogram_sum *sum, uint64_t ns)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS && histogram_bound(i + 1) <= ns; i++)
		count += sum->bucket[i];
	return count;
}
