/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "balancer.h"

#include <stdlib.h>

#include "balance.h"
#include "conn_move.h"
#include "engine.h"
#include "exchange.h"

#define LOOK_EVERY 0.1             /* seconds */
#define WINDOW_NS 1000000000u      /* requests are counted for so long at most */
#define IDLE_NS 450000000u         /* for idle connections, at least */
#define LONG_NS 10000000000u       /* and after so long by what they say, be it chance or not */
#define SAMPLE_NS 180000000u       /* and for each connection for so long at least */
#define GAVE_HOLD_OFF_NS 20000000u /* a giver leaves what it gave to others */
#define OVER_HOLD_OFF 0.002        /* seconds; then it takes what nobody else wanted */

struct window {
	uint64_t since_ns;
	uint64_t requests[SCOREBOARD_SLOTS]; /* when it began */
};

/*
 * Each looks at itself and at the others.  Requests are counted in a window of time, that of all
 * workers by what they count anyway.  When they turn out uneven, another window begins in which
 * they are counted for each connection too (a sample): then it is known what to give.
 *
 * What an idle connection will ask for is not known.  So these are given only while a longer
 * window, in which nothing was given or taken, shows that they are not what makes the requests even.
 */
struct balancer {
	struct engine *engine;
	ev_timer timer;
	uint64_t gave_ns; /* the last time */
	struct window window, longer;
	struct conn_sample sample;           /* of the window; number 0: not counted */
	uint16_t samples;                    /* so far */
	struct balance_load room;            /* what it may take, requests as those of a second */
	bool took;                           /* since the last look */
	uint64_t seen;                       /* own activity, as of the last look */
	bool held_off;
};

static uint64_t activity(const struct balancer *balancer)
{
	const struct scoreboard_slot *slot = balancer->engine->slot;

	return atomic_load_explicit(&slot->counter[COUNTER_requests], memory_order_relaxed) +
	       atomic_load_explicit(&slot->counter[COUNTER_accept], memory_order_relaxed) +
	       atomic_load_explicit(&slot->counter[COUNTER_moved_in], memory_order_relaxed);
}

static uint64_t requests_of(const struct balancer *balancer, unsigned slot)
{
	const struct scoreboard *board = balancer->engine->args->scoreboard;

	return atomic_load_explicit(&board->slot[slot].counter[COUNTER_requests],
				    memory_order_relaxed);
}

static struct balance_load load_of(const struct balancer *balancer, const struct window *window,
				   unsigned slot)
{
	return (struct balance_load){
		requests_of(balancer, slot) - window->requests[slot],
		atomic_load_explicit(&balancer->engine->args->scoreboard->slot[slot].active,
				     memory_order_relaxed)};
}

static bool accepts(const struct balancer *balancer, unsigned slot)
{
	return atomic_load_explicit(
		&balancer->engine->args->scoreboard->slot[slot].accepting, memory_order_relaxed);
}

static struct balance_view look(const struct balancer *balancer, const struct window *window)
{
	const struct scoreboard *board = balancer->engine->args->scoreboard;
	struct balance_view view = {.least_requests = UINT64_MAX};

	for (unsigned i = 1; i < scoreboard_end(board); i++) {
		struct balance_load load = load_of(balancer, window, i);

		view.total.connections +=
			load.connections; /* those to come from a leaving one too */
		if (!accepts(balancer, i))
			continue;
		if (&board->slot[i] == balancer->engine->slot)
			view.own = load;
		if (load.requests < view.least_requests)
			view.least_requests = load.requests;
		view.total.requests += load.requests;
		view.workers++;
	}
	return view;
}

static bool has_newcomer(const struct balancer *balancer, const struct balance_view *view)
{
	for (unsigned i = 1; i < scoreboard_end(balancer->engine->args->scoreboard); i++) {
		struct balance_load load = load_of(balancer, &balancer->window, i);

		if (accepts(balancer, i) && balance_is_newcomer(view, &load))
			return true;
	}
	return false;
}

static uint64_t age_of(const struct balancer *balancer, const struct window *window)
{
	return balancer->engine->now_ns - window->since_ns;
}

static void begin(const struct balancer *balancer, struct window *window)
{
	for (unsigned i = 1; i < scoreboard_end(balancer->engine->args->scoreboard); i++)
		window->requests[i] = requests_of(balancer, i);
	window->since_ns = balancer->engine->now_ns;
}

static void begin_window(struct balancer *balancer, bool sampled)
{
	uint64_t now = balancer->engine->now_ns;

	begin(balancer, &balancer->window);
	balancer->sample = (struct conn_sample){now, 0};
	if (!sampled)
		return;
	if (++balancer->samples == 0)
		balancer->samples = 1;
	balancer->sample.number = balancer->samples;
	conn_mark(balancer->engine, &balancer->sample, now - WINDOW_NS);
}

static void give(struct balancer *balancer, const struct balance_plan *plan)
{
	if (conn_give_some(balancer->engine, plan, &balancer->sample) > 0) {
		balancer->gave_ns = balancer->engine->now_ns;
		begin(balancer, &balancer->longer);
	}
	begin_window(balancer, plan->requests > 0);
}

static void plan_idle(struct balancer *balancer, struct balance_plan *plan)
{
	struct balance_view view = look(balancer, &balancer->longer);
	uint64_t age = age_of(balancer, &balancer->longer);
	struct balance_load idle;

	if (view.total.requests > 0 && age < IDLE_NS)
		return;
	idle = balance_idle(&view, age >= LONG_NS || balance_is_told(&view));
	if (idle.connections == 0 && age >= LONG_NS)
		begin(balancer, &balancer->longer);
	plan->idle = idle.connections;
	plan->idle_millihertz = idle.requests < UINT64_MAX / WINDOW_NS
					? idle.requests * WINDOW_NS / (age / 1000 + 1)
					: UINT64_MAX;
}

static void decide(struct balancer *balancer, const struct balance_view *view)
{
	bool sampled = balancer->sample.number > 0;
	struct balance_plan plan = balance_plan(view, sampled);
	uint64_t age = age_of(balancer, &balancer->window);

	if (plan.requests > 0 && !sampled) {
		begin_window(balancer, true);
		return;
	}
	if (sampled && age < SAMPLE_NS)
		return;
	plan_idle(balancer, &plan);
	plan.for_newcomer = has_newcomer(balancer, view);
	if (plan.requests + plan.idle > 0)
		give(balancer, &plan);
	else if (age >= WINDOW_NS || balance_is_told(view))
		begin_window(balancer, false);
}

/* Connections are always as counted; requests only while it has what it had when the window began.
 */
static void set_room(struct balancer *balancer, const struct balance_view *view)
{
	struct balance_load room = balance_room(view);
	uint64_t age = age_of(balancer, &balancer->window);

	balancer->room.connections = room.connections;
	if (balancer->took)
		return;
	balancer->room.requests = room.requests;
	if (room.requests < UINT64_MAX / WINDOW_NS && age > 0)
		balancer->room.requests = room.requests * WINDOW_NS / age;
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct balancer *balancer = timer->data;
	struct balance_view view = look(balancer, &balancer->window);

	(void)loop, (void)events;
	balancer->seen = activity(balancer);
	if (balancer->took) { /* what it counted is no longer what it has */
		balancer->took = false;
		begin(balancer, &balancer->longer);
		begin_window(balancer, balancer->sample.number > 0);
		return;
	}
	set_room(balancer, &view);
	/* Workers of the old generation may not have the listeners of a canary's connections. */
	if (balancer->engine->mode == ENGINE_SERVING && !balancer->engine->trial)
		decide(balancer, &view);
}

struct balancer *balancer_new(struct engine *engine)
{
	struct balancer *balancer = calloc(1, sizeof *balancer);

	if (!balancer)
		return NULL;
	balancer->engine = engine;
	ev_timer_init(&balancer->timer, on_timer, LOOK_EVERY, 0.);
	balancer->timer.data = balancer;
	begin(balancer, &balancer->longer);
	begin_window(balancer, false);
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

/* Whether it has room for the next message.  Connections that come with a rate were given for their
 * requests. */
static bool wants_next(struct balancer *balancer)
{
	struct balance_view view;
	uint64_t rate;

	if (balancer->room.requests > 0 && balancer->room.connections > 0)
		return true;
	view = look(balancer, &balancer->window);
	set_room(balancer, &view);
	exchange_peek(balancer->engine->args->exchange.take, &rate);
	return rate > 0 ? balancer->room.requests > rate / 2 : balancer->room.connections > 0;
}

double balancer_hold_off(struct balancer *balancer)
{
	uint64_t since = balancer->engine->now_ns - balancer->gave_ns;

	if (since < GAVE_HOLD_OFF_NS)
		return (double)(GAVE_HOLD_OFF_NS - since) / 1e9;
	balancer->held_off = !balancer->held_off && !wants_next(balancer);
	return balancer->held_off ? OVER_HOLD_OFF : 0;
}

static uint64_t less(uint64_t room, uint64_t taken)
{
	return room > taken ? room - taken : 0;
}

void balancer_took(struct balancer *balancer, const struct balance_load *taken)
{
	balancer->room.requests = less(balancer->room.requests, taken->requests);
	balancer->room.connections = less(balancer->room.connections, taken->connections);
	if (taken->connections > 0)
		balancer->took = true;
}
