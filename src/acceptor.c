/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "acceptor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "conn.h"
#include "engine.h"
#include "log.h"
#include "probes.h"
#include "stats.h"

enum {
	ACCEPTS_AT_ONCE = 4,
	ACCEPTS_AT_END = 65536, /* more than any backlog */
	DESCRIPTORS_KEPT = 64,
};

#define PAUSE_OVER_SHARE 0.002 /* seconds for the others to take what waits */
#define PAUSE_STORM 0.002      /* seconds until it may be this worker's turn */
#define PROOF_NS 5000000u      /* in which a newcomer shows that it crashes nobody */
#define PAUSE_EXHAUSTED 0.1    /* seconds until descriptors may be free again */

struct watcher {
	ev_io io;
	unsigned index;
	_Atomic uint64_t *accepted; /* connections, of this listener; NULL: no room to count them */
	struct acceptor *acceptor;
};

struct acceptor {
	struct engine *engine;
	ev_timer pause;
	bool has_paused;     /* just now, over its share: this time it takes what is there */
	uint64_t limit;      /* of connections in all workers; 0: none */
	uint64_t own_limit;  /* of this worker's, by its descriptors */
	size_t count;
	struct watcher watchers[];
};

static void watch_all(struct acceptor *acceptor, bool on)
{
	for (size_t i = 0; i < acceptor->count; i++) {
		if (on)
			ev_io_start(acceptor->engine->loop, &acceptor->watchers[i].io);
		else
			ev_io_stop(acceptor->engine->loop, &acceptor->watchers[i].io);
	}
}

static void on_resume(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct acceptor *acceptor = timer->data;

	(void)loop, (void)events;
	watch_all(acceptor, true);
	engine_look_again(acceptor->engine);
}

static void pause_for(struct acceptor *acceptor, double seconds)
{
	watch_all(acceptor, false);
	ev_timer_set(&acceptor->pause, seconds, 0.);
	ev_timer_start(acceptor->engine->loop, &acceptor->pause);
}

struct load {
	uint64_t total, workers;
};

/* Connections of all workers, and how many workers take new ones. */
static struct load measure(const struct engine *engine)
{
	const struct scoreboard *board = engine->args->scoreboard;
	struct load load = {0, 0};

	for (unsigned i = 0; i < scoreboard_end(board); i++) {
		const struct scoreboard_slot *slot = &board->slot[i];

		load.total += atomic_load_explicit(&slot->active, memory_order_relaxed);
		load.workers += atomic_load_explicit(&slot->accepting, memory_order_relaxed);
	}
	return load;
}

/*
 * While crash follows crash, newcomers come in one by one over all workers, and wait while half of
 * these are away: who is here already must have somebody to answer.
 */
static bool is_in_storm(const struct engine *engine)
{
	return engine->now_ns < atomic_load_explicit(&engine->args->scoreboard->storm_ns,
						     memory_order_relaxed);
}

static bool has_turn(const struct engine *engine)
{
	struct scoreboard *board = engine->args->scoreboard;
	_Atomic uint64_t *next_ns = &board->newcomer_ns;
	uint64_t next = atomic_load(next_ns);

	return next <= engine->now_ns && !scoreboard_is_thin(board, engine->args->generation) &&
	       atomic_compare_exchange_strong(next_ns, &next, engine->now_ns + PROOF_NS);
}

static bool is_over_share(const struct engine *engine, const struct load *load)
{
	uint64_t own = atomic_load_explicit(&engine->slot->active, memory_order_relaxed);
	uint64_t mean = load->workers ? load->total / load->workers : load->total;

	return load->workers > 1 && own > mean + mean / 8 + 1;
}

/* Closed unanswered: an answer here would hold up the others.  The peer sees the end at once. */
static void turn_away(struct acceptor *acceptor, int fd)
{
	close(fd);
	engine_count(acceptor->engine, COUNTER_max_connections, 1);
	PROBE(max_connections, fd);
}

static void pack_peer(struct peer *peer, const struct sockaddr_storage *address)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;

	*peer = (struct peer){.family = AF_UNIX};
	if (address->ss_family == AF_INET) {
		peer->family = AF_INET;
		peer->port = ntohs(in->sin_port);
		peer->address.in = in->sin_addr;
	} else if (address->ss_family == AF_INET6) {
		peer->family = AF_INET6;
		peer->port = ntohs(in6->sin6_port);
		peer->address.in6 = in6->sin6_addr;
	}
}

/* Errors of a connection that went away again are no errors of ours (accept(2)). */
static bool is_connections_own(int error)
{
	static const int errors[] = {ECONNABORTED, EINTR,      EPROTO,	      ENETDOWN,
				     ENOPROTOOPT,  EHOSTDOWN,  ENONET,	      EHOSTUNREACH,
				     EOPNOTSUPP,   ENETUNREACH, ETIMEDOUT,    EPERM};

	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (error == errors[i])
			return true;
	return false;
}

/* False: no more for now. */
static bool accept_failed(struct acceptor *acceptor, int error)
{
	if (error == EAGAIN || error == EWOULDBLOCK)
		return false;
	if (is_connections_own(error))
		return true;
	engine_count(acceptor->engine, COUNTER_accept_error, 1);
	PROBE(accept_error, error);
	log_warn("accept: %s; not accepting for %d ms", strerror(error),
		 (int)(PAUSE_EXHAUSTED * 1000));
	pause_for(acceptor, PAUSE_EXHAUSTED);
	return false;
}

/*
 * Whether one more fits.  Every worker first counts its own connection, then looks at the sum: so
 * limits.connections is never passed, and nothing is left behind by a worker that dies in between.
 */
static bool reserve(struct acceptor *acceptor)
{
	struct scoreboard_slot *slot = acceptor->engine->slot;

	scoreboard_add(&slot->active, 1);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&slot->active, memory_order_relaxed) <= acceptor->own_limit &&
	    (!acceptor->limit || measure(acceptor->engine).total <= acceptor->limit))
		return true;
	scoreboard_add(&slot->active, (uint64_t)-1);
	return false;
}

/* One connection.  False: no more for now. */
static bool accept_one(struct watcher *watcher)
{
	struct acceptor *acceptor = watcher->acceptor;
	struct engine *engine = acceptor->engine;
	struct sockaddr_storage address = {0};
	socklen_t len = sizeof address;
	struct peer peer;
	bool fits = reserve(acceptor);
	int fd = accept4(watcher->io.fd, (struct sockaddr *)&address, &len,
			 SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0 && fits) {
		pack_peer(&peer, &address);
		if (conn_open(engine, fd, &peer, watcher->index) == 0) {
			if (watcher->accepted)
				scoreboard_add(watcher->accepted, 1);
			return true;
		}
		errno = ENOMEM;
		fd = -1;
	}
	if (fits)
		scoreboard_add(&engine->slot->active, (uint64_t)-1);
	if (fd < 0)
		return accept_failed(acceptor, errno);
	turn_away(acceptor, fd);
	return true;
}

/* libev has given the descriptor up, since epoll has no room for it. */
static void watch_failed(struct acceptor *acceptor)
{
	engine_count(acceptor->engine, COUNTER_accept_error, 1);
	log_warn("the kernel has no room to watch a listener; not accepting for %d ms",
		 (int)(PAUSE_EXHAUSTED * 1000));
	pause_for(acceptor, PAUSE_EXHAUSTED);
}

static void on_listener(struct ev_loop *loop, ev_io *io, int events)
{
	struct watcher *watcher = (struct watcher *)io;
	struct acceptor *acceptor = watcher->acceptor;
	struct load load = measure(acceptor->engine);
	bool storm = is_in_storm(acceptor->engine);

	(void)loop;
	if (events & EV_ERROR) {
		watch_failed(acceptor);
		return;
	}
	if (storm && !has_turn(acceptor->engine)) {
		pause_for(acceptor, PAUSE_STORM);
		return;
	}
	if (!acceptor->has_paused && is_over_share(acceptor->engine, &load)) {
		acceptor->has_paused = true;
		pause_for(acceptor, PAUSE_OVER_SHARE);
		return;
	}
	acceptor->has_paused = false;
	for (int i = 0; i < (storm ? 1 : ACCEPTS_AT_ONCE); i++)
		if (!accept_one(watcher))
			break;
}

/* What RLIMIT_NOFILE allows, less some for handlers and logs. */
static uint64_t descriptors_for_connections(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur > 2 * DESCRIPTORS_KEPT ? limit.rlim_cur - DESCRIPTORS_KEPT
						      : limit.rlim_cur / 2;
}

static _Atomic uint64_t *find_counter(const struct engine *engine, size_t index)
{
	uint64_t key = stats_listener_key(engine->config->listens[index].address);
	int place = stats_find(engine->args->scoreboard->listener, SCOREBOARD_LISTENERS, key);

	return place < 0 ? NULL : &engine->slot->listener[place].accept;
}

struct acceptor *acceptor_start(struct engine *engine)
{
	size_t count = engine->config->listen_count;
	struct acceptor *acceptor =
		calloc(1, sizeof *acceptor + count * sizeof *acceptor->watchers);

	if (!acceptor)
		return NULL;
	acceptor->engine = engine;
	acceptor->limit = engine->config->max_connections;
	acceptor->own_limit = descriptors_for_connections();
	acceptor->count = count;
	ev_init(&acceptor->pause, on_resume);
	acceptor->pause.data = acceptor;
	for (unsigned i = 0; i < count; i++) {
		struct watcher *watcher = &acceptor->watchers[i];

		*watcher = (struct watcher){.index = i,
					    .accepted = find_counter(engine, i),
					    .acceptor = acceptor};
		ev_io_init(&watcher->io, on_listener, engine->args->listeners[i], EV_READ);
	}
	watch_all(acceptor, true);
	engine_look_again(engine);
	atomic_store(&engine->slot->accepting, 1);
	return acceptor;
}

uint64_t acceptor_room(const struct acceptor *acceptor)
{
	uint64_t own = atomic_load_explicit(&acceptor->engine->slot->active, memory_order_relaxed);

	return own < acceptor->own_limit ? acceptor->own_limit - own : 0;
}

void acceptor_take_waiting(struct acceptor *acceptor)
{
	for (unsigned i = 0; i < acceptor->count; i++)
		for (int n = 0; n < ACCEPTS_AT_END && accept_one(&acceptor->watchers[i]); n++)
			;
}

void acceptor_stop(struct acceptor *acceptor)
{
	if (!acceptor)
		return;
	watch_all(acceptor, false);
	ev_timer_stop(acceptor->engine->loop, &acceptor->pause);
	atomic_store(&acceptor->engine->slot->accepting, 0);
	free(acceptor);
}
