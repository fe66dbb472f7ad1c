/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acceptor.h"
#include "access_log.h"
#include "conn.h"
#include "engine.h"
#include "ipc.h"
#include "log.h"
#include "request.h"
#include "route.h"

struct worker {
	struct engine engine;
	struct acceptor *acceptor;
	ev_signal term, quit;
	ev_io ipc;
	ev_timer deadline;                 /* of the drain */
	struct timeout_list *handler_lists; /* one per length of a route's timeout */
	size_t handler_list_count;
};

static uint64_t now(void *data)
{
	struct engine *engine = data;

	return engine->now_ns;
}

/* Pending requests that their handlers answered in this turn of the loop. */
static void send_answers(struct engine *engine)
{
	struct request *request;

	while ((request = engine->answered)) {
		engine->answered = request->next;
		request->next = NULL;
		if (request->conn)
			conn_answered(request->conn);
		else
			request_put(engine->pool, request);
	}
}

/* What libev calls with the events of one wake-up: the clock is read once for all of them. */
static void on_turn(struct ev_loop *loop)
{
	struct engine *engine = ev_userdata(loop);

	engine->now_ns = engine_clock();
	ev_invoke_pending(loop);
	send_answers(engine);
	if (engine->draining && atomic_load_explicit(&engine->slot->active, memory_order_relaxed) == 0)
		ev_break(loop, EVBREAK_ALL);
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)timer, (void)events;
	log_warn("connections are still open at the end of timeouts.drain; they are closed");
	ev_break(loop, EVBREAK_ALL);
}

static void drain(struct worker *worker)
{
	struct engine *engine = &worker->engine;

	if (engine->draining)
		return;
	acceptor_stop(worker->acceptor);
	worker->acceptor = NULL;
	ev_timer_set(&worker->deadline, (double)engine->config->drain_ms / 1000, 0.);
	ev_timer_start(engine->loop, &worker->deadline);
	conn_drain_all(engine);
}

static void on_stop_signal(struct ev_loop *loop, ev_signal *watcher, int events)
{
	(void)loop, (void)events;
	drain(watcher->data);
}

static void begin(struct worker *worker)
{
	if (worker->acceptor || worker->engine.draining)
		return;
	worker->acceptor = acceptor_start(&worker->engine);
	if (!worker->acceptor) {
		log_error("out of memory for the listeners");
		exit(EXIT_FAILURE);
	}
}

static void reopen(struct worker *worker, const struct ipc_message *message)
{
	if (message->fd_count > 0)
		log_take(message->fds[0]);
	if (message->fd_count > 1 && worker->engine.access_log)
		access_log_reopen(worker->engine.access_log, message->fds[1]);
}

static void on_ipc(struct ev_loop *loop, ev_io *io, int events)
{
	static struct ipc_message message;
	struct worker *worker = io->data;
	int got;

	(void)events;
	while ((got = ipc_receive(io->fd, &message)) > 0) {
		if (message.type == IPC_GO)
			begin(worker);
		else if (message.type == IPC_REOPEN)
			reopen(worker, &message);
	}
	if (got == 0) { /* the master has died */
		ev_io_stop(loop, io);
		drain(worker);
	}
}

static void lists_init(struct engine *engine)
{
	struct {
		struct timeout_list *list;
		uint64_t length_ns;
		void (*on_expired)(struct timeout *timeout, void *data);
	} lists[] = {
		{&engine->keepalive, engine->config->keepalive_ms * 1000000, conn_on_keepalive_expired},
		{&engine->request, engine->config->request_ms * 1000000, conn_on_request_expired},
		{&engine->send, engine->config->send_ms * 1000000, conn_on_send_expired},
		{&engine->linger, ENGINE_LINGER_NS, conn_on_linger_expired},
		{&engine->drain_linger, ENGINE_DRAIN_LINGER_NS, conn_on_linger_expired},
	};

	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		timeout_list_init(lists[i].list, engine->loop, lists[i].length_ns, now,
				  lists[i].on_expired, engine);
}

static struct timeout_list *handler_list(struct worker *worker, uint64_t length_ns)
{
	struct timeout_list *list = worker->handler_lists;

	if (length_ns == 0)
		return NULL;
	for (size_t i = 0; i < worker->handler_list_count; i++, list++)
		if (list->length_ns == length_ns)
			return list;
	worker->handler_list_count++;
	timeout_list_init(list, worker->engine.loop, length_ns, now, conn_on_handler_expired,
			  &worker->engine);
	return list;
}

/* The engine without its routes.  -1: no memory. */
static int engine_init(struct engine *engine, const struct worker_args *args)
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
	engine->loop = ev_loop_new(EVFLAG_NOENV);
	engine->pool = request_pool_new(engine, &engine->limits);
	if (!engine->loop || !engine->pool || output_init(&engine->output) < 0)
		return -1;
	engine->current = request_get(engine->pool, REQUEST_READ_SIZE);
	if (!engine->current)
		return -1;
	engine->now_ns = engine_clock();
	http_request_setup(&engine->limits);
	lists_init(engine);
	if (args->access_log >= 0 && !(engine->access_log = access_log_open(engine, args->access_log)))
		return -1;
	ev_set_userdata(engine->loop, engine);
	ev_set_invoke_pending_cb(engine->loop, on_turn);
	return 0;
}

static int open_routes(struct worker *worker, struct err *err)
{
	struct engine *engine = &worker->engine;
	size_t count = engine->config->route_count;

	engine->routes = routes_open(engine->args, engine->loop, engine, err);
	if (!engine->routes)
		return -1;
	worker->handler_lists = calloc(count, sizeof *worker->handler_lists);
	if (!worker->handler_lists) {
		err_add(err, "out of memory");
		return -1;
	}
	for (size_t i = 0; i < count; i++) {
		struct route *route = routes_at(engine->routes, i);

		route->timeout_list = handler_list(worker, route->timeout_ns);
	}
	return 0;
}

static void on_pipe(int number)
{
	(void)number;
}

/*
 * Caught rather than ignored: a command that a handler starts inherits what is ignored, and would
 * not end when its reader does.
 */
static void survive_pipe(void)
{
	struct sigaction action = {.sa_handler = on_pipe, .sa_flags = SA_RESTART};

	sigaction(SIGPIPE, &action, NULL);
}

static void unblock_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* From here on TERM and QUIT drain, and handlers run with no signal blocked. */
static void watch_all(struct worker *worker)
{
	struct ev_loop *loop = worker->engine.loop;

	ev_signal_init(&worker->term, on_stop_signal, SIGTERM);
	ev_signal_init(&worker->quit, on_stop_signal, SIGQUIT);
	ev_io_init(&worker->ipc, on_ipc, worker->engine.args->ipc, EV_READ);
	ev_init(&worker->deadline, on_deadline);
	worker->term.data = worker->quit.data = worker->ipc.data = worker;
	ev_signal_start(loop, &worker->term);
	ev_signal_start(loop, &worker->quit);
	ev_io_start(loop, &worker->ipc);
	survive_pipe();
	unblock_signals();
}

static int report_failure(const struct worker_args *args, const struct err *err)
{
	log_error("%s", err->text);
	ipc_send(args->ipc, IPC_FAILED, err->text, NULL, 0);
	return EXIT_FAILURE;
}

/* Closes what is still open, so that nothing is left for a leak checker to report. */
static void worker_fini(struct worker *worker)
{
	struct engine *engine = &worker->engine;

	acceptor_stop(worker->acceptor);
	conn_close_all();
	send_answers(engine);
	routes_close(engine->routes);
	access_log_close(engine->access_log);
	free(worker->handler_lists);
	output_fini(&engine->output);
	request_pool_free(engine->pool);
	conn_slab_free();
	ev_loop_destroy(engine->loop);
}

int worker_main(const struct worker_args *args)
{
	static struct worker worker;
	static struct err err;

	err_init(&err);
	if (engine_init(&worker.engine, args) < 0) {
		err_add(&err, "out of memory");
		return report_failure(args, &err);
	}
	watch_all(&worker);
	if (open_routes(&worker, &err) < 0)
		return report_failure(args, &err);
	ipc_send(args->ipc, IPC_READY, "", NULL, 0);
	ev_run(worker.engine.loop, 0);
	worker_fini(&worker);
	return EXIT_SUCCESS;
}

int worker_prove(const struct worker_args *args)
{
	static struct err err;
	struct ev_loop *loop = ev_loop_new(EVFLAG_NOENV);
	struct routes *routes;

	err_init(&err);
	if (!loop)
		err_add(&err, "out of memory");
	survive_pipe();
	unblock_signals();
	routes = loop ? routes_open(args, loop, NULL, &err) : NULL;
	if (!routes)
		return report_failure(args, &err);
	routes_close(routes);
	ev_loop_destroy(loop);
	ipc_send(args->ipc, IPC_READY, "", NULL, 0);
	return EXIT_SUCCESS;
}
