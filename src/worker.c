/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "acceptor.h"
#include "access_log.h"
#include "admin.h"
#include "balance.h"
#include "balancer.h"
#include "conn.h"
#include "conn_move.h"
#include "conn_slab.h"
#include "engine.h"
#include "fault.h"
#include "ipc.h"
#include "log.h"
#include "loop.h"
#include "recycler.h"
#include "request.h"
#include "route.h"
#include "sandbox.h"

#define LOOK_AGAIN 0.001           /* seconds until a full exchange is tried again */
#define NO_ROOM 0.1                /* seconds until there may be free descriptors */
#define NO_ROOM_MAX_NS 2000000000u /* that connections wait for them in the exchange */
#define FIRST_SHARE 0.8            /* of timeouts.drain: then connections are closed */
#define LAST_SHARE 0.15            /* of timeouts.drain, after that: then the worker goes */

enum { TURN_MIN_MS = 1000 }; /* that callbacks of handlers may take */

struct worker {
	struct engine engine;
	struct acceptor *acceptor;
	struct balancer *balancer; /* NULL: off, or not accepting */
	struct recycler *recycler; /* NULL: off, or not accepting */
	uint64_t no_room_ns; /* since when there is none for what is in the exchange; 0: there is */
	ev_signal term, quit;
	ev_io ipc;
	ev_timer deadline; /* of the drain */
	ev_io exchange;
	ev_timer look_again;                /* for room in the exchange, or for descriptors */
	bool proven;                        /* its handlers may be loaded */
	struct timeout_list *handler_lists; /* one per length of a route's timeout */
	size_t handler_list_count;
};

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

static uint64_t open_connections(const struct engine *engine)
{
	return atomic_load_explicit(&engine->slot->active, memory_order_relaxed);
}

/* A worker that leaves gives away what is between two events; a full exchange is tried again soon.
 */
static void give(struct worker *worker)
{
	if (ev_is_active(&worker->look_again) || conn_give_all(&worker->engine))
		return;
	ev_timer_set(&worker->look_again, LOOK_AGAIN, 0.);
	ev_timer_start(worker->engine.loop, &worker->look_again);
}

/* What libev calls with the events of one wake-up: the clock is read once for all of them. */
static void on_turn(struct ev_loop *loop)
{
	struct worker *worker = ev_userdata(loop);
	struct engine *engine = &worker->engine;

	engine->now_ns = engine_clock();
	latency_begin_turn(&engine->latency, engine->now_ns);
	if (engine->turn_limit_ms)
		scoreboard_add(&engine->slot->turn, 1);
	ev_invoke_pending(loop);
	if (ev_is_active(&engine->more))
		conn_go_on(engine);
	send_answers(engine);
	latency_end_turn(&engine->latency);
	if (engine->turn_limit_ms)
		scoreboard_add(&engine->slot->turn, 1);
	if (engine->fault_due)
		fault_now();
	/* Now rather than with a request at hand: another thread may have died with the heap's
	 * lock. */
	if (!engine->spare)
		engine->spare = request_get(engine->pool, REQUEST_READ_SIZE);
	if (engine->mode == ENGINE_SERVING) {
		if (worker->balancer)
			balancer_wake(worker->balancer);
		if (worker->recycler && !engine->trial)
			recycler_look(worker->recycler);
		return;
	}
	if (engine->mode == ENGINE_GIVING)
		give(worker);
	if (open_connections(engine) == 0)
		ev_break(loop, EVBREAK_ALL);
}

static void set_deadline(struct worker *worker, double share)
{
	ev_timer_set(&worker->deadline, (double)worker->engine.config->drain_ms / 1000 * share, 0.);
	ev_timer_start(worker->engine.loop, &worker->deadline);
}

/* First the rest is closed as politely as can be, then the worker goes, before the master kills it.
 */
static void on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct worker *worker = timer->data;
	struct engine *engine = &worker->engine;

	(void)events;
	log_warn("%llu connections are still here near the end of timeouts.drain",
		 (unsigned long long)open_connections(engine));
	if (engine->mode == ENGINE_GIVING) {
		engine_count(engine, COUNTER_lost, open_connections(engine));
		conn_drain_all(engine);
		set_deadline(worker, LAST_SHARE);
	} else {
		ev_break(loop, EVBREAK_ALL);
	}
}

/* The whole server stops: who waits at a listener, and what a dying worker gave just before, is
 * nobody else's to answer. */
static void take_leftovers(struct worker *worker)
{
	struct balance_load taken = {0, 0};

	if (!worker->acceptor)
		return;
	if (!worker->engine.args->passed)
		acceptor_take_waiting(worker->acceptor);
	if (worker->engine.args->exchange.take >= 0)
		while (conn_take(&worker->engine, acceptor_room(worker->acceptor), &taken) > 0)
			continue;
}

/*
 * To leave: by the exchange when others will go on, else by closing what is open.  It takes no
 * more from now on, so that it does not take back what it gives.
 */
static void drain(struct worker *worker, bool others_go_on)
{
	struct engine *engine = &worker->engine;

	if (engine->mode != ENGINE_SERVING)
		return;
	if (atomic_load(&engine->args->scoreboard->stopping))
		take_leftovers(worker);
	acceptor_stop(worker->acceptor);
	worker->acceptor = NULL;
	balancer_free(worker->balancer);
	worker->balancer = NULL;
	recycler_free(worker->recycler);
	worker->recycler = NULL;
	ev_io_stop(engine->loop, &worker->exchange);
	ev_timer_stop(engine->loop, &worker->look_again);
	set_deadline(worker, FIRST_SHARE);
	if (others_go_on)
		engine->mode = ENGINE_GIVING;
	else
		conn_drain_all(engine);
}

static void on_stop_signal(struct ev_loop *loop, ev_signal *watcher, int events)
{
	struct worker *worker = watcher->data;
	const struct worker_args *args = worker->engine.args;
	bool stopping = atomic_load(&args->scoreboard->stopping);

	(void)loop, (void)events;
	if (worker->engine.mode == ENGINE_GIVING && stopping)
		conn_drain_all(&worker->engine);
	drain(worker, !stopping && args->exchange.give >= 0);
}

static void on_look_again(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct worker *worker = timer->data;

	(void)events;
	if (worker->engine.mode != ENGINE_SERVING)
		return;
	ev_io_start(loop, &worker->exchange);
	engine_look_again(&worker->engine);
}

/* Descriptors that come when there is no room for them are closed by the kernel: so look first. */
static bool has_room(struct worker *worker)
{
	const struct engine *engine = &worker->engine;
	uint64_t room = acceptor_room(worker->acceptor), rate;
	bool enough =
		room >= FDPASS_MAX || room >= exchange_peek(engine->args->exchange.take, &rate);

	if (enough)
		worker->no_room_ns = 0;
	else if (worker->no_room_ns == 0)
		worker->no_room_ns = engine->now_ns;
	return enough || engine->now_ns - worker->no_room_ns >= NO_ROOM_MAX_NS;
}

static void on_exchange(struct ev_loop *loop, ev_io *io, int events)
{
	struct worker *worker = io->data;
	double pause = events & EV_ERROR || !has_room(worker) ? NO_ROOM : 0;
	struct balance_load taken = {0, 0};

	if (pause == 0 && worker->balancer)
		pause = balancer_hold_off(worker->balancer);
	if (pause == 0) {
		if (conn_take(&worker->engine, acceptor_room(worker->acceptor), &taken) < 0)
			ev_io_stop(loop, io);
		if (worker->balancer)
			balancer_took(worker->balancer, &taken);
		return;
	}
	ev_io_stop(loop, io);
	ev_timer_set(&worker->look_again, pause, 0.);
	ev_timer_start(loop, &worker->look_again);
}

static void start_recycler(struct worker *worker)
{
	const struct config *config = worker->engine.config;

	if ((config->worker_requests > 0 || config->worker_memory > 0) &&
	    !(worker->recycler = recycler_new(&worker->engine)))
		log_warn("out of memory: the worker is not recycled");
}

static void begin(struct worker *worker)
{
	if (worker->acceptor) /* told a second time: all are of this generation now */
		worker->engine.trial = false;
	if (worker->acceptor || worker->engine.mode != ENGINE_SERVING)
		return;
	worker->acceptor = acceptor_start(&worker->engine);
	if (!worker->acceptor) {
		log_error("out of memory for the listeners");
		fault_allow_exit();
		exit(EXIT_FAILURE);
	}
	loop_hear_signals(worker->engine.loop);
	start_recycler(worker);
	if (worker->engine.args->exchange.take < 0)
		return;
	ev_io_start(worker->engine.loop, &worker->exchange);
	if (worker->engine.config->rebalance && !(worker->balancer = balancer_new(&worker->engine)))
		log_warn("out of memory: connections are not rebalanced");
}

static void reopen(struct worker *worker, const struct ipc_message *message)
{
	if (message->fd_count > 0)
		log_take(message->fds[0]);
	if (message->fd_count > 1 && worker->engine.access_log)
		access_log_reopen(worker->engine.access_log, message->fds[1]);
}

/* What the master says would never be heard. */
static void on_unheard(struct worker *worker)
{
	log_error("the kernel has no room to watch the master");
	if (!worker->acceptor && worker->engine.mode == ENGINE_SERVING) {
		fault_allow_exit();
		exit(EXIT_FAILURE);
	}
	drain(worker, worker->engine.args->exchange.give >= 0);
}

static void on_ipc(struct ev_loop *loop, ev_io *io, int events)
{
	static struct ipc_message message;
	struct worker *worker = io->data;
	int got;

	if (events & EV_ERROR) {
		on_unheard(worker);
		return;
	}
	while ((got = ipc_receive(io->fd, &message)) > 0) {
		if (message.type == IPC_GO)
			begin(worker);
		else if (message.type == IPC_REOPEN)
			reopen(worker, &message);
		else if (message.type == IPC_FAREWELL)
			worker->engine.farewell = true;
		else if (message.type == IPC_PROVEN)
			worker->proven = true;
		else if (message.type == IPC_PING)
			ipc_send(io->fd, IPC_PONG, NULL, NULL, 0);
	}
	if (got == 0) { /* the master has died */
		ev_io_stop(loop, io);
		drain(worker,
		      worker->engine.args->stored && worker->engine.args->exchange.give >= 0);
	}
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
	timeout_list_init(list, worker->engine.loop, length_ns, engine_now, conn_on_handler_expired,
			  &worker->engine);
	return list;
}

/* Timers and other callbacks of handlers may take as long as the slowest route, and a second at
 * least. */
static void watch_for_hangs(struct engine *engine, uint64_t timeout_ms)
{
	if (timeout_ms > 0 && engine->turn_limit_ms < TURN_MIN_MS)
		engine->turn_limit_ms = TURN_MIN_MS;
	if (timeout_ms > engine->turn_limit_ms)
		engine->turn_limit_ms = timeout_ms;
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
		watch_for_hangs(engine, route->timeout_ns / 1000000);
	}
	/* The process that had the slot before may have died inside a turn. */
	scoreboard_add(&engine->slot->turn, atomic_load(&engine->slot->turn) & 1);
	engine_begin_turn(engine, engine->turn_limit_ms);
	return 0;
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
	ev_io_init(&worker->exchange, on_exchange, worker->engine.args->exchange.take, EV_READ);
	ev_init(&worker->deadline, on_deadline);
	ev_init(&worker->look_again, on_look_again);
	worker->term.data = worker->quit.data = worker->ipc.data = worker;
	worker->exchange.data = worker->deadline.data = worker->look_again.data = worker;
	ev_signal_start(loop, &worker->term);
	ev_signal_start(loop, &worker->quit);
	ev_io_start(loop, &worker->ipc);
	unblock_signals();
}

static int report_failure(const struct worker_args *args, const struct err *err)
{
	fault_allow_exit();
	log_error("%s", err->text);
	ipc_send(args->ipc, IPC_FAILED, err->text, NULL, 0);
	return EXIT_FAILURE;
}

/* For good.  The proving child, too, so that what can't be done shows there. */
static int shut(const struct worker_args *args, struct err *err)
{
	return args->config->seccomp ? sandbox_enter(err) : 0;
}

/* Closes what is still open, so that nothing is left for a leak checker to report. */
static void worker_fini(struct worker *worker)
{
	struct engine *engine = &worker->engine;

	acceptor_stop(worker->acceptor);
	balancer_free(worker->balancer);
	recycler_free(worker->recycler);
	engine_count(engine, COUNTER_lost,
		     engine->mode == ENGINE_GIVING ? open_connections(engine) : 0);
	conn_close_all();
	send_answers(engine);
	routes_close(engine->routes);
	free(worker->handler_lists);
	engine_fini(engine);
	conn_slab_free();
}

/* For the proof, or for the end: false. */
static bool wait_until_proven(struct worker *worker)
{
	struct engine *engine = &worker->engine;

	while (!worker->proven && engine->mode == ENGINE_SERVING)
		ev_run(engine->loop, EVRUN_ONCE);
	return worker->proven;
}

static int serve(struct worker *worker)
{
	static struct err err;
	const struct worker_args *args = worker->engine.args;

	err_init(&err);
	/* While a handler's init has the thread, the end of the ipc pair is not seen. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (open_routes(worker, &err) < 0 || shut(args, &err) < 0)
		return report_failure(args, &err);
	prctl(PR_SET_PDEATHSIG, 0);
	ipc_send(args->ipc, IPC_READY, "", NULL, 0);
	if (args->go) {
		ev_now_update(worker->engine.loop);
		worker->engine.now_ns = engine_clock();
		begin(worker);
	}
	ev_run(worker->engine.loop, 0);
	return EXIT_SUCCESS;
}

int worker_main(const struct worker_args *args)
{
	static struct worker worker;

	if (engine_init(&worker.engine, args) < 0) {
		struct err err;

		err_init(&err);
		err_add(&err, "out of memory");
		return report_failure(args, &err);
	}
	ev_set_userdata(worker.engine.loop, &worker);
	ev_set_invoke_pending_cb(worker.engine.loop, on_turn);
	watch_all(&worker);
	worker.proven = !args->wait;
	ev_run(worker.engine.loop, EVRUN_NOWAIT); /* who can't be watched is told now */
	if (fault_install(&worker.engine) < 0)
		log_warn("no fault handler: %s", strerror(errno));
	if (wait_until_proven(&worker) && serve(&worker) != EXIT_SUCCESS)
		return EXIT_FAILURE;
	fault_allow_exit();
	worker_fini(&worker);
	return EXIT_SUCCESS;
}

int worker_admin(const struct worker_args *args)
{
	struct worker_args own;

	admin_setup(&own, args);
	return worker_main(&own);
}

int worker_prove(const struct worker_args *args)
{
	static struct err err;
	struct ev_loop *loop = ev_loop_new(EVFLAG_NOENV);
	struct routes *routes;

	err_init(&err);
	if (!loop)
		err_add(&err, "out of memory");
	unblock_signals();
	routes = loop ? routes_open(args, loop, NULL, &err) : NULL;
	if (!routes || shut(args, &err) < 0) { /* the master logs it, and shows it */
		ipc_send(args->ipc, IPC_FAILED, err.text, NULL, 0);
		return EXIT_FAILURE;
	}
	routes_close(routes);
	ev_loop_destroy(loop);
	ipc_send(args->ipc, IPC_READY, "", NULL, 0);
	return EXIT_SUCCESS;
}
