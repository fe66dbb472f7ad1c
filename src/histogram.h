/* SPDX-License-Identifier: MIT */
/*
 * Log-linear histograms of durations, in the layout of HdrHistogram: 32 buckets per power of two,
 * so that a value is known to within 3 %, from 1 us to 137 s.  Longer ones count as the longest.
 *
 * All zero is an empty one.  It has one writer; readers in other processes see each bucket whole,
 * and buckets only grow.  Sum, mean and maximum come from the buckets, so that recording is one
 * increment.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HISTOGRAM_UNIT_BITS = 5, /* the smallest bucket has 32 ns */
	HISTOGRAM_SUB_BITS = 5,
	HISTOGRAM_BUCKETS = 896,
};

struct histogram {
	_Atomic uint64_t bucket[HISTOGRAM_BUCKETS];
};

/* A sum of histograms, in one process's own memory. */
struct histogram_sum {
	uint64_t count;
	uint64_t bucket[HISTOGRAM_BUCKETS];
};

static inline unsigned histogram_index(uint64_t ns)
{
	uint64_t units = ns >> HISTOGRAM_UNIT_BITS;
	unsigned shift;

	if (units < 1 << HISTOGRAM_SUB_BITS)
		return (unsigned)units;
	if (units > UINT32_MAX)
		return HISTOGRAM_BUCKETS - 1;
	shift = 31 - HISTOGRAM_SUB_BITS - (unsigned)__builtin_clz((unsigned)units);
	return (shift << HISTOGRAM_SUB_BITS) + (unsigned)(units >> shift);
}

static inline void histogram_record(struct histogram *histogram, uint64_t ns)
{
	_Atomic uint64_t *bucket = &histogram->bucket[histogram_index(ns)];

	atomic_store_explicit(bucket, atomic_load_explicit(bucket, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* The first ns that a bucket holds; of HISTOGRAM_BUCKETS: the end of the last. */
uint64_t histogram_bound(unsigned index);

/* A sum starts as all zero. */
void histogram_add(struct histogram_sum *sum, const struct histogram *histogram);

/* What has come since an earlier state of the same histograms. */
void histogram_subtract(struct histogram_sum *sum, const struct histogram_sum *earlier);

/* In ns; 0 for an empty sum.  `share` is of 0 to 1: 0.99 for p99. */
double histogram_quantile(const struct histogram_sum *sum, double share);
double histogram_mean(const struct histogram_sum *sum);
double histogram_total(const struct histogram_sum *sum);

/* How many were shorter than `ns`, exact where that is the bound of a bucket. */
uint64_t histogram_below(const struct histogram_sum *sum, uint64_t ns);

#endif
