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
	uint64_t idle_millihertz; /* requests that the idle ones may be expected to bring, in all */
	uint64_t requests_at_once, idle_at_once;
	bool for_newcomer; /* the caller's to set: such moves do not count, nor wait for others */
};

/*
 * Three quarters of a surplus are given, so that two that look at the same time do not swap places.
 * As long as the largest surplus or want of requests is below a twentieth of the mean, or may be
 * chance, they are left alone; chance has less of a say where the same was seen just before.
 * Nothing idle: see below.
 */
struct balance_plan balance_plan(const struct balance_view *view, bool seen_before);

/*
 * Idle connections to give for their number, and the requests that they may bring along in the time
 * of the view: they must not come back for these, so no more than half a twentieth below the mean
 * is left behind.  What may be chance counts only in a view of a long time.
 */
struct balance_load balance_idle(const struct balance_view *view, bool long_time);

/* Whether a worker has less than half of its share of both: it has begun just now. */
bool balance_is_newcomer(const struct balance_view *view, const struct balance_load *load);

/* Whether requests enough were counted for the smallest surplus that matters not to be chance. */
bool balance_is_told(const struct balance_view *view);

/*
 * A connection that was moved for evenness stays for a while, twice as long each time, until it has
 * stayed for long: so it moves a few times an hour at most, whatever the loads do.  `moves`: so far,
 * without a long stay in between.
 */
uint64_t balance_stay_ns(uint8_t moves);

/* Moves, after one more that followed a stay of that length. */
uint8_t balance_count_move(uint8_t moves, uint64_t stayed_ns);

/* What a worker may take until it has the mean. */
struct balance_load balance_room(const struct balance_view *view);

#endif
