/* SPDX-License-Identifier: MIT */
/* The canary: one worker of a new generation that serves for a time beside the old ones. */
#include "autoconf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "canary.h"
#include "log.h"
#include "master_parts.h"
#include "stats.h"

#define LOOK_EVERY 0.1 /* seconds */

struct master_canary {
	struct ev_timer timer;
	uint64_t until_ns;
	unsigned slot;
	struct canary_count canary, others; /* when it began to serve */
};

static uint64_t counter_of(const struct scoreboard_slot *slot, enum scoreboard_counter counter)
{
	return atomic_load_explicit(&slot->counter[counter], memory_order_relaxed);
}

static void count(const struct master *master, unsigned slot, struct canary_count *canary,
		  struct canary_count *others)
{
	const struct scoreboard *board = master->rows.scoreboard;
	const struct stats stats = {.board = board};

	*canary = (struct canary_count){
		.requests = counter_of(&board->slot[slot], COUNTER_requests),
		.errors = counter_of(&board->slot[slot], COUNTER_responses_5xx),
	};
	*others = (struct canary_count){
		.requests = scoreboard_total(board, COUNTER_requests),
		.errors = scoreboard_total(board, COUNTER_responses_5xx),
	};
	stats_add_slot(&stats, slot, &canary->latency);
	stats_add_all(&stats, &others->latency);
	canary_subtract(others, canary);
}

/* The loop turns, and the master looks at the canary before it waits again. */
static void on_timer(struct ev_loop *loop, struct ev_timer *timer, int events)
{
	(void)loop, (void)timer, (void)events;
}

bool master_canary_is_wanted(const struct master *master)
{
	return master->active && !master->active->foreign && master->next->config->canary_ms > 0;
}

static struct row *canary_row(struct master *master)
{
	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++) {
		struct row *row = &master->rows.row[i];

		if (row->generation == master->next && row->state == SLOT_READY &&
		    row->number != ROW_PROVER)
			return row;
	}
	return NULL;
}

static void begin(struct master *master, const struct row *row)
{
	const struct config *config = master->next->config;
	struct master_canary *canary = calloc(1, sizeof *canary);

	if (!canary)
		return;
	canary->slot = row->slot;
	count(master, canary->slot, &canary->canary, &canary->others);
	ev_timer_init(&canary->timer, on_timer, LOOK_EVERY, LOOK_EVERY);
	ev_timer_start(master->loop, &canary->timer);
	canary->until_ns = master_now_ns() + config->canary_ms * 1000000;
	master->canary = canary;
	log_info("canary: one worker of generation %u serves beside the others for %g s",
		 master->next->number, (double)config->canary_ms / 1000);
}

void master_canary_end(struct master *master)
{
	if (!master->canary)
		return;
	ev_timer_stop(master->loop, &master->canary->timer);
	free(master->canary);
	master->canary = NULL;
}

static enum master_canary_state judge(const struct master *master,
				      const struct master_canary *begun, char *why)
{
	const struct config *config = master->next->config;
	struct canary_limits limits = {config->canary_requests, config->canary_errors,
				       config->canary_latency};
	struct canary_count canary, others;

	count(master, begun->slot, &canary, &others);
	canary_subtract(&canary, &begun->canary);
	canary_subtract(&others, &begun->others);
	if (canary_fails(&limits, &canary, &others, why))
		return MASTER_CANARY_WORSE;
	if (master_now_ns() < begun->until_ns)
		return MASTER_CANARY_SERVES;
	if (canary_lags(&limits, &canary, &others, why))
		return MASTER_CANARY_WORSE;
	if (canary_is_known(&limits, &canary))
		log_info("canary: as good as the others, after %" PRIu64 " requests",
			 canary.requests);
	else
		log_warn("canary: %" PRIu64 " requests are too few to judge by "
			 "(reload.canary_requests: %" PRIu64 "); it did not crash",
			 canary.requests, limits.requests);
	return MASTER_CANARY_GOOD;
}

enum master_canary_state master_canary_look(struct master *master, char why[MASTER_CANARY_WHY_MAX])
{
	struct generation *next = master->next;
	char worse[MASTER_CANARY_WHY_MAX - 16] = "out of memory";
	enum master_canary_state state = MASTER_CANARY_WORSE;
	const struct row *row = canary_row(master);

	if (next->failed_starts > 0)
		snprintf(worse, sizeof worse, "%s", next->reason ? next->reason : "it ended");
	else if (!master->canary && !row)
		return MASTER_CANARY_SERVES; /* soon */
	else if (!master->canary)
		begin(master, row);
	if (next->failed_starts == 0 && master->canary)
		state = judge(master, master->canary, worse);
	if (state == MASTER_CANARY_WORSE)
		snprintf(why, MASTER_CANARY_WHY_MAX, "canary: %s", worse);
	return state;
}
