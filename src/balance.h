/* SPDX-License-Identifier: MIT */
/*
 * What a worker gives away for evenness.  Pure.  Connections live for hours, so that workers do not
 * even out by themselves: the one that is above the mean gives, those below it take.
 */
#ifndef BALANCE_H
#define BALANCE_H

#include <stdbool.h>
#include <stdint.h>

struct balance_load {
	uint64_t requests;    /* in the time that is looked at, the same for all workers */
	uint64_t connections; /* open */
};

struct balance_view {
	struct balance_load own, total;
	uint64_t least_requests; /* of any worker */
	unsigned workers;
};

/*
 * To give: connections that asked for so many requests in that time, and connections that asked for
 * none; and how much of either at once, that is to one taker.
 */
struct balance_plan {
	uint64_t requests, idle;
	uint64_t requests_at_once, idle_at_once;
};

/*
 * Three quarters of a surplus are given, so that two that look at the same time do not swap places.
 * As long as the largest surplus or want is below a twentieth of the mean, or may be chance, all is
 * left alone; chance has less of a say where the same was seen just before.
 */
struct balance_plan balance_plan(const struct balance_view *view, bool seen_before);

/* Whether requests enough were counted for the smallest surplus that matters not to be chance. */
bool balance_is_told(const struct balance_view *view);

/* What a worker may take until it has the mean. */
struct balance_load balance_room(const struct balance_view *view);

#endif
