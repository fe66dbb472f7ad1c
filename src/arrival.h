/* SPDX-License-Identifier: MIT */
/*
 * When octets came, from the kernel's stamps.  A stamp is CLOCK_REALTIME, which may be set at any
 * time; everything here reckons in CLOCK_MONOTONIC.  How far apart the two are is looked up again
 * and again, and what it was before the clock was last set is remembered for a while, since octets
 * may have been stamped by then.  Pure.
 */
#ifndef ARRIVAL_H
#define ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

struct arrival {
	int64_t offset_ns;   /* CLOCK_REALTIME less CLOCK_MONOTONIC */
	int64_t before_ns;   /* the same before the clock was set */
	uint64_t stepped_ns; /* when that was noticed; 0: never */
};

/* Whether the offset is what is known of it, but for the time that reading two clocks takes. */
bool arrival_agrees(const struct arrival *arrival, int64_t offset_ns);

/* The clock was set. */
void arrival_step(struct arrival *arrival, int64_t offset_ns, uint64_t now_ns);

/*
 * CLOCK_MONOTONIC of a stamp.  Not after now_ns, not before since_ns (0: nothing is known).  Where
 * it can't be told whether it was stamped before the clock was set or after, the younger counts: a request
 * is rather taken for fresh than for too old.
 */
uint64_t arrival_of(const struct arrival *arrival, uint64_t stamp_ns, uint64_t since_ns,
		    uint64_t now_ns);

#endif
