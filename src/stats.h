/* SPDX-License-Identifier: MIT */
/*
 * What the statistics say, from the scoreboard's counters and what the master knows of itself.
 * Pure: whoever makes a struct stats has looked at clocks and sockets.  stats_json and prometheus
 * write it out.
 */
#ifndef STATS_H
#define STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "histogram.h"
#include "master_status.h"
#include "scoreboard.h"

/* Of one process, as the kernel counts. */
struct stats_usage {
	bool known;
	double cpu_s;
	uint64_t memory; /* resident octets */
};

struct stats_listener {
	const char *address; /* where it is bound */
	bool known;          /* the kernel told the two below */
	uint32_t queue, backlog;
};

enum { STATS_WINDOWS = 3 };

/* What came within the last seconds. */
struct stats_window {
	unsigned seconds; /* its name: 1, 10, 60 */
	double span_s;    /* its true length; 0: nothing is known yet */
	uint64_t counter[COUNTER_COUNT];
	struct histogram_sum latency;
};

struct stats {
	const struct scoreboard *board;
	const struct config *config; /* whose routes and listeners are shown */
	struct master_status status;
	uint64_t now_ns;                  /* CLOCK_MONOTONIC */
	struct stats_listener *listeners; /* one per config->listens */
	struct stats_usage *usage;        /* one per slot */
	struct stats_window *windows;     /* STATS_WINDOWS; NULL: nobody keeps them */
};

/* The keys of places in the scoreboard. */
uint64_t stats_route_key(const struct config_route *route);
uint64_t stats_listener_key(const char *address);

/* Where a key is counted; -1: nowhere. */
int stats_find(const struct scoreboard_place *places, size_t count, uint64_t key);

/* Whether somebody is there, or is to be. */
bool stats_is_shown(const struct scoreboard_slot *slot);

/* Sums over all slots but those of admin processes; of a route, by its place. */
uint64_t stats_counter(const struct stats *stats, enum scoreboard_counter counter);
uint64_t stats_gauge(const struct stats *stats, size_t offset); /* offset of it in the slot */
void stats_route(const struct stats *stats, int place, struct scoreboard_route *sum);
uint64_t stats_accepts(const struct stats *stats, int place);

/* Adds to *sum: durations of one slot (all its routes), of one route (all slots), or of all. */
void stats_add_slot(const struct stats *stats, unsigned slot, struct histogram_sum *latency);
void stats_add_route(const struct stats *stats, int place, struct histogram_sum *latency,
		     struct histogram_sum *handler);
void stats_add_all(const struct stats *stats, struct histogram_sum *latency);
void stats_add_lag(const struct stats *stats, struct histogram_sum *lag);

/* The last time that connections moved, by all processes that had a part in it. */
struct stats_move {
	uint64_t count;              /* 0: never */
	uint64_t began_ns, ended_ns; /* CLOCK_MONOTONIC */
};
void stats_last_move(const struct stats *stats, struct stats_move *move);

/*
 * The handler's own counters of a route: calls show for each name, with the sum over all slots.
 * At most SCOREBOARD_USER_COUNTERS of a slot.
 */
void stats_user_counters(const struct stats *stats, const char *path,
			 void (*show)(void *data, const char *name, uint64_t value), void *data);

const char *stats_state_name(enum master_state state);

#endif
