/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "canary.h"

#include <inttypes.h>
#include <stdio.h>

#define SLACK_NS 1e6 /* that p99 may always be above: among fast answers a factor is little */

bool canary_is_known(const struct canary_limits *limits, const struct canary_count *canary)
{
	return canary->requests >= limits->requests;
}

static double error_share(const struct canary_count *count)
{
	return count->requests ? (double)count->errors / (double)count->requests : 0;
}

bool canary_fails(const struct canary_limits *limits, const struct canary_count *canary,
		  const struct canary_count *others, char why[CANARY_WHY_MAX])
{
	double share = error_share(canary), usual = error_share(others);

	if (!canary_is_known(limits, canary) || share <= usual + limits->errors)
		return false;
	snprintf(why, CANARY_WHY_MAX,
		 "%.3g %% of its %" PRIu64 " responses were 5xx, of the old workers' %.3g %%; "
		 "reload.canary_errors allows %.3g %% more",
		 share * 100, canary->requests, usual * 100, limits->errors * 100);
	return true;
}

bool canary_lags(const struct canary_limits *limits, const struct canary_count *canary,
		 const struct canary_count *others, char why[CANARY_WHY_MAX])
{
	double p99 = histogram_quantile(&canary->latency, 0.99);
	double usual = histogram_quantile(&others->latency, 0.99);

	if (!canary_is_known(limits, canary) || !canary_is_known(limits, others) ||
	    p99 <= usual * limits->latency + SLACK_NS)
		return false;
	snprintf(why, CANARY_WHY_MAX,
		 "its p99 was %.3g ms, that of the old workers %.3g ms; reload.canary_latency "
		 "allows "
		 "%.3g times as much, and 1 ms",
		 p99 / 1e6, usual / 1e6, limits->latency);
	return true;
}

void canary_subtract(struct canary_count *count, const struct canary_count *earlier)
{
	count->requests -= earlier->requests;
	count->errors -= earlier->errors;
	histogram_subtract(&count->latency, &earlier->latency);
}
