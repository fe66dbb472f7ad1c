/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access_log.h"
#include "conn.h"
#include "conn_move.h"
#include "exchange.h"
#include "inflater.h"
#include "log.h"
#include "origin.h"
#include "request.h"
#include "stamped.h"

enum {
	EVENTS = 128,        /* at once, without libev's lists having to grow */
	LINES_MAX = 10,      /* of each kind that is limited, in a second */
	EPOLL_FD_MAX = 1024, /* the loop's is opened early, among the first descriptors */
};

uint64_t engine_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t engine_now(void *engine)
{
	return ((const struct engine *)engine)->now_ns;
}

bool engine_may_log(const struct engine *engine, struct log_limit *limit)
{
	uint64_t second = engine->now_ns / 1000000000;

	if (limit->second != second)
		*limit = (struct log_limit){.second = second};
	return ++limit->lines <= LINES_MAX;
}

const char *engine_date(struct engine *engine)
{
	/* The loop's wall clock, as of its last wake-up. */
	time_t now = (time_t)ev_now(engine->loop);

	if (now != engine->date_at) {
		engine->date_at = now;
		http_date_format(engine->date, now);
	}
	return engine->date;
}

static void on_nothing(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop, (void)timer, (void)events;
}

/* libev's lists of timers and events grow as they are needed: have them grow now, not under a
 * request. */
static void grow_lists(struct ev_loop *loop)
{
	ev_timer timers[EVENTS];

	for (size_t i = 0; i < EVENTS; i++) {
		ev_timer_init(&timers[i], on_nothing, -1., 0.);
		ev_timer_start(loop, &timers[i]);
	}
	ev_run(loop, EVRUN_NOWAIT);
	for (size_t i = 0; i < EVENTS; i++)
		ev_timer_stop(loop, &timers[i]);
}

/* The loop only has to come round: on_turn() does the rest. */
static void on_more(struct ev_loop *loop, ev_idle *idle, int events)
{
	(void)loop, (void)idle, (void)events;
}

static void on_again(struct ev_loop *loop, ev_idle *idle, int events)
{
	(void)events;
	ev_idle_stop(loop, idle);
}

static void lists_init(struct engine *engine)
{
	struct {
		struct timeout_list *list;
		uint64_t length_ns;
		void (*on_expired)(struct timeout *timeout, void *data);
	} lists[] = {
		{&engine->keepalive, engine->config->keepalive_ms * 1000000,
		 conn_on_keepalive_expired},
		{&engine->request, engine->config->request_ms * 1000000, conn_on_request_expired},
		{&engine->send, engine->config->send_ms * 1000000, conn_on_send_expired},
		{&engine->linger, ENGINE_LINGER_NS, conn_on_linger_expired},
		{&engine->drain_linger, ENGINE_DRAIN_LINGER_NS, conn_on_linger_expired},
		{&engine->unwatched, ENGINE_UNWATCHED_NS, conn_on_unwatched_expired},
		{&engine->waiting, 0, NULL},
	};

	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		timeout_list_init(lists[i].list, engine->loop, lists[i].length_ns, engine_now,
				  lists[i].on_expired, engine);
	turn_init(&engine->turns);
	ev_idle_init(&engine->more, on_more);
	ev_idle_init(&engine->again, on_again);
	ev_idle_start(engine->loop, &engine->more); /* libev's list of them grows now, not later */
	ev_idle_start(engine->loop, &engine->again);
	ev_idle_stop(engine->loop, &engine->more);
	ev_idle_stop(engine->loop, &engine->again);
}

/* The loop's epoll fd, which libev does not tell: the only one of this process. -1: none. */
static int find_epoll(void)
{
	char path[32], target[32];
	ssize_t len;

	for (int fd = 3; fd < EPOLL_FD_MAX; fd++) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		len = readlink(path, target, sizeof target - 1);
		target[len > 0 ? len : 0] = '\0';
		if (strcmp(target, "anon_inode:[eventpoll]") == 0)
			return fd;
	}
	return -1;
}

static int set_listener_ids(struct engine *engine)
{
	const struct config *config = engine->config;

	engine->listener_ids =
		calloc(config->listen_count + CONN_OTHER_LISTENERS, sizeof *engine->listener_ids);
	if (!engine->listener_ids)
		return -1;
	for (size_t i = 0; i < config->listen_count; i++)
		engine->listener_ids[i] = exchange_listener_id(config->listens[i].address);
	engine->listener_id_count = config->listen_count;
	engine->trial = engine->args->trial;
	return 0;
}

/* libev's own way is to print to stderr and abort: say it in the log, and go on as after a fault.
 */
static void on_libev_error(const char *message)
{
	log_error("libev: %s: %s", message, strerror(errno));
	abort();
}

/* libev aborts where this gives nothing, and so a worker hands over what it has. */
static void *get_memory(void *ptr, long size)
{
	if (size > 0)
		return realloc(ptr, (size_t)size);
	free(ptr);
	return NULL;
}

int engine_init(struct engine *engine, const struct worker_args *args)
{
	const struct config *config = args->config;

	*engine = (struct engine){
		.args = args,
		.config = config,
		.slot = &args->scoreboard->slot[args->slot],
		.limits = {.head_size = (uint32_t)config->header_size,
			   .max_fields = (uint32_t)config->max_headers,
			   .target_size = (uint32_t)config->target_size,
			   .body_size = config->body_size},
		.date_at = -1,
	};
	ev_set_allocator(get_memory);
	ev_set_syserr_cb(on_libev_error);
	engine->loop = ev_loop_new(EVFLAG_NOENV | EVBACKEND_EPOLL);
	engine->pool = request_pool_new(engine, &engine->limits);
	engine->epoll_fd = find_epoll();
	if (!engine->loop || engine->epoll_fd < 0 || !engine->pool ||
	    output_init(&engine->output) < 0)
		return -1;
	engine->current = request_get(engine->pool, REQUEST_READ_SIZE);
	if (!engine->current)
		return -1;
	engine->now_ns = engine_clock();
	latency_init(&engine->latency, &args->scoreboard->latency[args->slot], engine->now_ns);
	stamped_init(engine);
	http_request_setup(&engine->limits);
	grow_lists(engine->loop);
	lists_init(engine);
	if (args->access_log >= 0 &&
	    !(engine->access_log = access_log_open(engine, args->access_log)))
		return -1;
	return origin_read_networks(config, &engine->trusted) < 0 ? -1 : set_listener_ids(engine);
}

void engine_fini(struct engine *engine)
{
	access_log_close(engine->access_log);
	inflater_free(engine->inflater);
	free(engine->trusted.list);
	free(engine->listener_ids);
	output_fini(&engine->output);
	request_pool_free(engine->pool);
	ev_loop_destroy(engine->loop);
}
