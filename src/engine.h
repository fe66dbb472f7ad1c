/* SPDX-License-Identifier: MIT */
/*
 * What the connections of one worker share: the loop, the configuration, the routes, the timeouts,
 * the buffers that stay hot.  One per process, owned by worker.c.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include <ev.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "arrival.h"
#include "child.h"
#include "forwarded.h"
#include "http_date.h"
#include "http_request.h"
#include "latency.h"
#include "output.h"
#include "timeouts.h"
#include "turn.h"

struct access_log;
struct inflater;
struct request;
struct request_pool;
struct routes;

/* Time that a connection which is to be closed may go on sending before it is cut off. */
#define ENGINE_LINGER_NS 10000000000ull
#define ENGINE_UNWATCHED_NS 100000000u
#define ENGINE_DRAIN_LINGER_NS 1000000000ull

enum engine_mode {
	ENGINE_SERVING,
	ENGINE_GIVING,  /* to leave: connections go to other workers */
	ENGINE_CLOSING, /* to leave: connections are closed after their answers */
};

struct engine {
	struct ev_loop *loop;
	int epoll_fd;    /* of the loop */
	pid_t thread;    /* the one that runs the loop */
	uint64_t now_ns; /* CLOCK_MONOTONIC when the loop woke up */
	const struct worker_args *args;
	const struct config *config;
	struct scoreboard_slot *slot;
	struct http_limits limits;
	struct routes *routes;
	struct networks trusted;       /* proxies */
	uint64_t *listener_ids; /* exchange_listener_id() of the configuration's listeners, then of
				   others that connections came from */
	size_t listener_id_count;
	bool trial; /* a generation that has other listeners may get its connections back */
	struct access_log *access_log; /* NULL: off */

	struct inflater *inflater; /* NULL until a compressed body comes */

	struct request_pool *pool;
	struct request *current;  /* what connections without a request of their own read into */
	struct request *spare;    /* to become the current one; there when a handler is called */
	struct request *answered; /* pending requests that were answered since the loop woke up */
	struct request *running;  /* whose handler is running; NULL: none */
	struct conn *processing;  /* whose event is being handled; NULL: none */
	struct request *
		starting; /* whole, and waits for memory before its handler is called; NULL: none */
	bool allocating;  /* memory for a request, so that what is at hand is whole in itself */
	struct output output;
	struct latency latency;
	struct arrival arrival;
	uint64_t arrival_looked_ns; /* the turn in which the clocks were compared */

	struct timeout_list keepalive, request, send, linger, drain_linger;
	struct timeout_list unwatched; /* connections that epoll had no room for: tried again */
	struct timeout_list waiting; /* connections that wait for a turn with what was read of them */
	struct turn turns; /* all that wait for one */
	ev_idle more;      /* active while there are some: the loop does not sleep */
	ev_idle again;     /* active until it has come round once more */
	enum engine_mode mode;
	bool farewell; /* a connection ends when all that was read of it is answered */
	volatile sig_atomic_t fault_due; /* 1: the process dies at the end of this turn (fault.h) */
	uint64_t turn_limit_ms; /* of callbacks outside of handle; 0: hangs are not watched for */

	time_t date_at;
	char date[HTTP_DATE_LEN + 1];
};

/* The engine without its routes.  -1: no memory. */
int engine_init(struct engine *engine, const struct worker_args *args);
void engine_fini(struct engine *engine);

/* CLOCK_MONOTONIC: now; and when the loop woke up, for timeout lists. */
uint64_t engine_clock(void);
uint64_t engine_now(void *engine);

/* Lines about what clients may provoke at will: at most ten a second of each kind. */
struct log_limit {
	uint64_t second;
	unsigned lines;
};

bool engine_may_log(const struct engine *engine, struct log_limit *limit);

/* The Date line's value, as of now. */
const char *engine_date(struct engine *engine);

static inline void engine_count(struct engine *engine, enum scoreboard_counter counter, uint64_t n)
{
	scoreboard_add(&engine->slot->counter[counter], n);
}

/* The loop comes round once more before it sleeps.  Where the kernel has no room for a descriptor that
 * is to be watched, libev tells so only after it has waited for the others. */
static inline void engine_look_again(struct engine *engine)
{
	ev_idle_start(engine->loop, &engine->again);
}

/* The master watches how long one of these lasts: what follows is another one. */
static inline void engine_begin_turn(struct engine *engine, uint64_t limit_ms)
{
	atomic_store_explicit(&engine->slot->turn_limit_ms, limit_ms, memory_order_relaxed);
	scoreboard_add(&engine->slot->turn, 2);
}

#endif
