/* SPDX-License-Identifier: MIT */
/*
 * Takes a worker's times: from a request's arrival to its response handed to the kernel, inside the
 * handler, and of each turn of the loop.  Each is one increment in the scoreboard, without a system
 * call.
 */
#ifndef LATENCY_H
#define LATENCY_H

#include "scoreboard.h"
#include "ticks.h"

enum { LATENCY_DUE_MAX = 256 };

struct latency {
	struct scoreboard_latency *own; /* of this process */
	struct ticks ticks;
	uint64_t turn_ticks, turn_ns; /* when the loop woke up */
	unsigned due_count;           /* responses in the output, not sent yet */
	struct {
		uint64_t received_ns;
		struct histogram *histogram;
	} due[LATENCY_DUE_MAX];
};

static inline void latency_init(struct latency *latency, struct scoreboard_latency *own,
				uint64_t now_ns)
{
	latency->own = own;
	latency->due_count = 0;
	latency->turn_ns = now_ns;
	latency->turn_ticks = ticks_now();
	ticks_init(&latency->ticks, latency->turn_ticks, now_ns);
}

static inline void latency_begin_turn(struct latency *latency, uint64_t now_ns)
{
	latency->turn_ns = now_ns;
	latency->turn_ticks = ticks_now();
	ticks_adjust(&latency->ticks, latency->turn_ticks, now_ns);
}

static inline void latency_end_turn(struct latency *latency)
{
	histogram_record(&latency->own->lag,
			 ticks_to_ns(&latency->ticks, latency->turn_ticks, ticks_now()));
}

/* CLOCK_MONOTONIC, without asking the kernel. */
static inline uint64_t latency_now(const struct latency *latency)
{
	return latency->turn_ns + ticks_to_ns(&latency->ticks, latency->turn_ticks, ticks_now());
}

/* What is due has been handed to the kernel. */
static inline void latency_sent(struct latency *latency)
{
	uint64_t now_ns = latency_now(latency);

	for (unsigned i = 0; i < latency->due_count; i++)
		histogram_record(latency->due[i].histogram, now_ns - latency->due[i].received_ns);
	latency->due_count = 0;
}

/* What is due will never be sent. */
static inline void latency_drop(struct latency *latency)
{
	latency->due_count = 0;
}

/* A response is in the output; times of its route, NULL: it has none. */
static inline void latency_put(struct latency *latency, struct scoreboard_times *times,
			       uint64_t received_ns)
{
	if (received_ns == 0) /* nothing was ever received */
		return;
	if (latency->due_count == LATENCY_DUE_MAX)
		latency_sent(latency); /* so many small ones at once: some ns too early */
	times = times ? times : &latency->own->route[SCOREBOARD_ROUTES];
	latency->due[latency->due_count].received_ns = received_ns;
	latency->due[latency->due_count++].histogram = &times->latency;
}

/* A handler that was called at `ticks` has answered.  How long it took, in ns. */
static inline uint64_t latency_handled(struct latency *latency, struct scoreboard_times *times,
				       uint64_t ticks)
{
	uint64_t ns = ticks_to_ns(&latency->ticks, ticks, ticks_now());

	histogram_record(&times->handler, ns);
	return ns;
}

#endif
