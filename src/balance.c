/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "balance.h"

enum {
	TOLERANCE = 20,      /* 1/20 above the mean is even enough for requests, */
	TOLERANCE_IDLE = 10, /* 1/10 for connections */
	PORTION = 32,        /* 1/32 of the mean is what one taker gets at once */
	CHANCE = 6,          /* standard deviations of a count that may be chance, squared */
	CHANCE_AGAIN = 1,    /* the same, when it was seen before */
	TOLD = CHANCE * TOLERANCE * TOLERANCE,
};

#define STAY_NS 500000000ull

enum { STAY_DOUBLINGS = 12, LONG_STAY = 64 };

static uint64_t mean_requests(const struct balance_view *view)
{
	return view->total.requests / view->workers;
}

static uint64_t mean_connections(const struct balance_view *view)
{
	return view->total.connections / view->workers;
}

static uint64_t portion(uint64_t mean)
{
	return mean < PORTION ? 1 : mean / PORTION;
}

static uint64_t above(uint64_t own, uint64_t mean)
{
	return own > mean ? own - mean : 0;
}

static bool matters(uint64_t difference, uint64_t mean, uint64_t chance)
{
	return difference > mean / TOLERANCE && difference * difference > chance * mean;
}

static uint64_t surplus_requests(const struct balance_view *view, uint64_t chance)
{
	uint64_t mean = mean_requests(view), surplus = above(view->own.requests, mean);

	return matters(surplus, mean, chance) ||
			       matters(above(mean, view->least_requests), mean, chance)
		       ? surplus
		       : 0;
}

struct balance_plan balance_plan(const struct balance_view *view, bool seen_before)
{
	if (view->workers < 2)
		return (struct balance_plan){.requests_at_once = 1, .idle_at_once = 1};
	return (struct balance_plan){
		.requests = surplus_requests(view, seen_before ? CHANCE_AGAIN : CHANCE) * 3 / 4,
		.requests_at_once = portion(mean_requests(view)),
		.idle_at_once = portion(mean_connections(view)),
	};
}

/* Requests beyond its share. */
static uint64_t not_needed(const struct balance_view *view, bool long_time)
{
	uint64_t usual = mean_requests(view), own = view->own.requests;
	uint64_t surplus = above(own, usual);

	if (usual == 0)
		return UINT64_MAX;
	if (!long_time && surplus * surplus <= CHANCE * usual)
		return 0;
	return above(own, usual - usual / (2 * TOLERANCE));
}

/* Many connections that ask for little even out few that ask for much. */
struct balance_load balance_idle(const struct balance_view *view, bool long_time)
{
	uint64_t mean, surplus, requests;

	if (view->workers < 2)
		return (struct balance_load){0, 0};
	mean = mean_connections(view);
	surplus = above(view->own.connections, mean);
	requests = not_needed(view, long_time);
	if (surplus <= mean / TOLERANCE_IDLE || surplus < 2 || requests == 0)
		return (struct balance_load){0, 0};
	return (struct balance_load){requests, surplus * 3 / 4};
}

bool balance_is_newcomer(const struct balance_view *view, const struct balance_load *load)
{
	uint64_t requests = mean_requests(view);

	return (requests == 0 || load->requests < requests / 2) &&
	       load->connections < mean_connections(view) / 2;
}

bool balance_is_told(const struct balance_view *view)
{
	return view->total.requests >= (uint64_t)TOLD * view->workers;
}

uint64_t balance_stay_ns(uint8_t moves)
{
	unsigned doublings = moves > 1 ? moves - 1u : 0;

	return STAY_NS << (doublings < STAY_DOUBLINGS ? doublings : STAY_DOUBLINGS);
}

uint8_t balance_count_move(uint8_t moves, uint64_t stayed_ns)
{
	if (stayed_ns > LONG_STAY * balance_stay_ns(moves))
		return 1;
	return moves < UINT8_MAX ? moves + 1 : moves;
}

struct balance_load balance_room(const struct balance_view *view)
{
	if (view->workers < 2)
		return (struct balance_load){UINT64_MAX, UINT64_MAX};
	return (struct balance_load){
		mean_requests(view) > 0 ? above(mean_requests(view), view->own.requests)
					: UINT64_MAX,
		above(mean_connections(view) + 1, view->own.connections),
	};
}
