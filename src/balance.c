/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "balance.h"

enum {
	REQUESTS_MIN = 20,   /* a rate below it says nothing */
	TOLERANCE = 20,      /* 1/20 above the mean is even enough for requests, */
	TOLERANCE_IDLE = 10, /* 1/10 for connections */
	PORTION = 32,        /* 1/32 of the mean is what one taker gets at once */
};

static uint64_t surplus(uint64_t own, uint64_t total, unsigned workers, uint64_t tolerance)
{
	uint64_t mean = total / workers;

	return own > mean + mean / tolerance ? own - mean : 0;
}

static uint64_t portion(uint64_t mean)
{
	return mean < PORTION ? 1 : mean / PORTION;
}

struct balance_plan balance_plan(struct balance_load own, struct balance_load total,
				 unsigned workers, uint64_t busy)
{
	struct balance_plan plan = {0, 0, 1, 1};
	uint64_t requests, connections, idle;

	if (workers < 2)
		return plan;
	requests = surplus(own.requests, total.requests, workers, TOLERANCE);
	connections = surplus(own.connections, total.connections, workers, TOLERANCE_IDLE);
	if (total.requests >= REQUESTS_MIN && own.requests > 0)
		plan.busy = busy * requests * 3 / 4 / own.requests;
	if (plan.busy > 0)
		plan.busy_at_once = portion(busy * (own.requests - requests) / own.requests);
	idle = own.connections > busy ? own.connections - busy : 0;
	if (connections > plan.busy + 1)
		plan.idle = (connections - plan.busy) * 3 / 4;
	if (plan.idle > idle)
		plan.idle = idle;
	plan.idle_at_once = portion(total.connections / workers);
	return plan;
}

bool balance_is_over(struct balance_load own, struct balance_load total, unsigned workers)
{
	if (workers < 2)
		return false;
	if (own.connections > total.connections / workers + total.connections / workers / 8 + 1)
		return true;
	return total.requests >= REQUESTS_MIN &&
	       surplus(own.requests, total.requests, workers, TOLERANCE) > 0;
}
