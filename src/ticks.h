/* SPDX-License-Identifier: MIT */
/*
 * A clock for short durations that costs some cycles: the processor's own counter, measured against
 * CLOCK_MONOTONIC while the process runs.  Elsewhere it is that clock itself.
 */
#ifndef TICKS_H
#define TICKS_H

#include <stdint.h>
#include <time.h>

struct ticks {
	uint64_t since_ticks, since_ns;
	uint64_t ns_q24; /* ns per tick, times 2^24; 0: not known yet */
};

enum { TICKS_SHORTEST_NS = 100000, TICKS_LONGEST_NS = 1000000000 };

static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

/* now_ns is CLOCK_MONOTONIC as of `ticks`. */
static inline void ticks_init(struct ticks *ticks, uint64_t now, uint64_t now_ns)
{
	*ticks = (struct ticks){.since_ticks = now, .since_ns = now_ns};
}

/* The longer it has run, the better it is known; within a second it is as good as it needs to be.
 */
static inline void ticks_adjust(struct ticks *ticks, uint64_t now, uint64_t now_ns)
{
	uint64_t ns = now_ns - ticks->since_ns;

	if (ns < TICKS_SHORTEST_NS || (ns > TICKS_LONGEST_NS && ticks->ns_q24) ||
	    now <= ticks->since_ticks)
		return;
	ticks->ns_q24 = (uint64_t)((double)ns * (1 << 24) / (double)(now - ticks->since_ticks));
}

/* Durations of up to some minutes; one that seems to run backwards is 0. */
static inline uint64_t ticks_to_ns(const struct ticks *ticks, uint64_t from, uint64_t to)
{
	return to > from ? (uint64_t)(((unsigned __int128)(to - from) * ticks->ns_q24) >> 24) : 0;
}

#endif
