/* SPDX-License-Identifier: MIT */
/*
 * How many connections a worker gives away for evenness.  Pure.  Connections live for hours, so
 * that workers do not even out by themselves: the one that is above the mean gives, those below it
 * take.
 */
#ifndef BALANCE_H
#define BALANCE_H

#include <stdbool.h>
#include <stdint.h>

struct balance_load {
	uint64_t requests;    /* since it was looked at last */
	uint64_t connections; /* open */
};

/* Connections to give, of those used lately and of the others, and how many at once: to one taker,
 * that is. */
struct balance_plan {
	uint64_t busy, idle;
	uint64_t busy_at_once, idle_at_once;
};

/*
 * `busy` of the worker's own connections were used since it looked last.  Three quarters of a
 * surplus are given, so that two that look at the same time do not swap places; a surplus below a
 * connection's worth, or below a twentieth of the mean, is left alone.
 */
struct balance_plan balance_plan(struct balance_load own, struct balance_load total,
				 unsigned workers, uint64_t busy);

/* Whether a worker with this load should leave what is in the exchange to others. */
bool balance_is_over(struct balance_load own, struct balance_load total, unsigned workers);

#endif
