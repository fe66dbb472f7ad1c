/* SPDX-License-Identifier: MIT */
/* Whether one worker of a new generation does worse than the old ones beside it.  Pure. */
#ifndef CANARY_H
#define CANARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "histogram.h"

/* What was answered in some time. */
struct canary_count {
	uint64_t requests, errors; /* errors: with status 5xx */
	struct histogram_sum latency;
};

struct canary_limits {
	uint64_t requests; /* with fewer there is no judgement */
	double errors;     /* share above that of the others */
	double latency;    /* p99 as a multiple of that of the others */
};

enum { CANARY_WHY_MAX = 256 };

/* Whether it has answered enough to be judged. */
bool canary_is_known(const struct canary_limits *limits, const struct canary_count *canary);

/* Whether it answers with more errors; then `why` says so. */
bool canary_fails(const struct canary_limits *limits, const struct canary_count *canary,
		  const struct canary_count *others, char why[CANARY_WHY_MAX]);

/* Whether it is slower. */
bool canary_lags(const struct canary_limits *limits, const struct canary_count *canary,
		 const struct canary_count *others, char why[CANARY_WHY_MAX]);

/* What came since an earlier count. */
void canary_subtract(struct canary_count *count, const struct canary_count *earlier);

#endif
