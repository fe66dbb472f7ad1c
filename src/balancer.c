/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "balancer.h"

#include <stdlib.h>

#include "balance.h"
#include "conn_move.h"
#include "engine.h"

#define LOOK_EVERY 0.1               /* seconds */
#define SETTLE_NS 250000000u         /* after giving, until rates tell something again */
#define GAVE_HOLD_OFF_NS 20000000u   /* a giver leaves what it gave to others */
#define OVER_HOLD_OFF 0.002          /* seconds; then it takes what nobody else wanted */

struct balancer {
	struct engine *engine;
	ev_timer timer;
	uint64_t looked_ns, gave_ns;
	bool is_over, held_off;
	uint64_t seen; /* own activity, as of the last look */
	uint64_t requests[SCOREBOARD_SLOTS]; /* as of the last look */
};

struct view {
	struct balance_load own, total;
	unsigned workers;
};

static uint64_t activity(const struct balancer *balancer)
{
	const struct scoreboard_slot *slot = balancer->engine->slot;

	return atomic_load_explicit(&slot->counter[COUNTER_requests], memory_order_relaxed) +
	       atomic_load_explicit(&slot->counter[COUNTER_accept], memory_order_relaxed) +
	       atomic_load_explicit(&slot->counter[COUNTER_moved_in], memory_order_relaxed);
}

static struct view look(struct balancer *balancer)
{
	const struct engine *engine = balancer->engine;
	const struct scoreboard *board = engine->args->scoreboard;
	struct view view = {{0, 0}, {0, 0}, 0};

	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++) {
		const struct scoreboard_slot *slot = &board->slot[i];
		uint64_t requests = atomic_load_explicit(&slot->counter[COUNTER_requests],
							 memory_order_relaxed);
		struct balance_load load = {requests - balancer->requests[i],
					    atomic_load_explicit(&slot->active,
								 memory_order_relaxed)};

		balancer->requests[i] = requests;
		if (!atomic_load_explicit(&slot->accepting, memory_order_relaxed))
			continue;
		if (slot == engine->slot)
			view.own = load;
		view.total.requests += load.requests;
		view.total.connections += load.connections;
		view.workers++;
	}
	return view;
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct balancer *balancer = timer->data;
	struct engine *engine = balancer->engine;
	uint64_t now = engine->now_ns, since = balancer->looked_ns;
	struct view view = look(balancer);
	struct balance_plan plan;

	(void)loop, (void)events;
	balancer->looked_ns = now;
	balancer->seen = activity(balancer);
	balancer->is_over = balance_is_over(view.own, view.total, view.workers);
	if (engine->mode != ENGINE_SERVING || now - balancer->gave_ns < SETTLE_NS)
		return;
	plan = balance_plan(view.own, view.total, view.workers, conn_count_used(engine, since));
	if (plan.busy + plan.idle == 0)
		return;
	balancer->gave_ns = now;
	conn_give_some(engine, &plan);
}

struct balancer *balancer_new(struct engine *engine)
{
	struct balancer *balancer = calloc(1, sizeof *balancer);

	if (!balancer)
		return NULL;
	balancer->engine = engine;
	balancer->looked_ns = engine->now_ns;
	ev_timer_init(&balancer->timer, on_timer, LOOK_EVERY, 0.);
	balancer->timer.data = balancer;
	look(balancer);
	return balancer;
}

void balancer_free(struct balancer *balancer)
{
	if (!balancer)
		return;
	ev_timer_stop(balancer->engine->loop, &balancer->timer);
	free(balancer);
}

void balancer_wake(struct balancer *balancer)
{
	if (ev_is_active(&balancer->timer) || activity(balancer) == balancer->seen)
		return;
	ev_timer_set(&balancer->timer, LOOK_EVERY, 0.);
	ev_timer_start(balancer->engine->loop, &balancer->timer);
}

double balancer_hold_off(struct balancer *balancer)
{
	uint64_t since = balancer->engine->now_ns - balancer->gave_ns;

	if (since < GAVE_HOLD_OFF_NS)
		return (double)(GAVE_HOLD_OFF_NS - since) / 1e9;
	balancer->held_off = balancer->is_over && !balancer->held_off;
	return balancer->held_off ? OVER_HOLD_OFF : 0;
}
