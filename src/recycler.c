/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "recycler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine.h"
#include "ipc.h"

#define LOOK_AT_MEMORY_EVERY 1.0 /* seconds */

struct recycler {
	struct engine *engine;
	ev_timer timer;
	uint64_t first;           /* requests of those that had the slot before */
	uint64_t requests, bytes; /* at which it is due; 0: never */
	uint64_t used;            /* memory, as of the last look */
	bool has_asked;
};

/* Give or take a tenth: workers that were started together do not leave together. */
static uint64_t spread(uint64_t limit)
{
	uint32_t random = 0;

	if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
		random = (uint32_t)getpid() * 2654435761u;
	return limit - limit / 10 + (uint64_t)((double)limit / 5 * random / UINT32_MAX);
}

static uint64_t requests(const struct recycler *recycler)
{
	return atomic_load_explicit(&recycler->engine->slot->counter[COUNTER_requests],
				    memory_order_relaxed) - recycler->first;
}

/* Memory of its own: resident, without what comes of files or is shared.  0: not known. */
static uint64_t memory(void)
{
	unsigned long long resident, shared;
	FILE *file = fopen("/proc/self/statm", "re");
	int got = file ? fscanf(file, "%*u %llu %llu", &resident, &shared) : 0;

	if (file)
		fclose(file);
	return got == 2 && resident > shared ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE)
					     : 0;
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct recycler *recycler = timer->data;

	(void)loop, (void)events;
	recycler->used = memory();
}

struct recycler *recycler_new(struct engine *engine)
{
	struct recycler *recycler = calloc(1, sizeof *recycler);

	if (!recycler)
		return NULL;
	recycler->engine = engine;
	recycler->first = requests(recycler);
	recycler->requests = spread(engine->config->worker_requests);
	recycler->bytes = spread(engine->config->worker_memory);
	ev_timer_init(&recycler->timer, on_timer, LOOK_AT_MEMORY_EVERY, LOOK_AT_MEMORY_EVERY);
	recycler->timer.data = recycler;
	if (recycler->bytes > 0)
		ev_timer_start(engine->loop, &recycler->timer);
	return recycler;
}

void recycler_free(struct recycler *recycler)
{
	if (!recycler)
		return;
	ev_timer_stop(recycler->engine->loop, &recycler->timer);
	free(recycler);
}

void recycler_look(struct recycler *recycler)
{
	char why[128];
	uint64_t served;

	if (recycler->has_asked)
		return;
	served = requests(recycler);
	if (recycler->requests > 0 && served >= recycler->requests)
		snprintf(why, sizeof why, "to be replaced after %" PRIu64 " requests", served);
	else if (recycler->bytes > 0 && recycler->used >= recycler->bytes)
		snprintf(why, sizeof why, "to be replaced at %" PRIu64 " KiB of memory",
			 recycler->used / 1024);
	else
		return;
	/* A master that is too busy to be told is told after the next turn. */
	recycler->has_asked = ipc_send(recycler->engine->args->ipc, IPC_RECYCLE, why, NULL, 0) == 0;
}
