/* SPDX-License-Identifier: MIT */
/*
 * The routes of a worker: loaded handlers with their state, found by the longest prefix of the path
 * on segment borders, then by method.
 */
#ifndef ROUTE_H
#define ROUTE_H

#include "child.h"
#include "err.h"
#include "span.h"

struct engine;
struct timeout_list;

/* What handlers see as their worker: one per route, so that logs and counters know whose they are.
 */
struct wc_worker {
	struct engine
		*engine; /* NULL in the proving child's init: there is no loop that will run */
	const struct worker_args *args;
	struct ev_loop *loop;
	const struct route *route;
};

struct route {
	const char *path;
	size_t path_len;
	char *const *methods; /* NULL: all */
	const struct wc_handler *handler;
	void *state;
	uint64_t timeout_ns; /* 0: none */
	bool screened;       /* admission.h decides before the handler is called */
	const struct config_route *config;
	struct timeout_list *timeout_list; /* of that length; NULL: none */
	struct scoreboard_route *counts;   /* NULL: no room for them */
	struct scoreboard_times *times;
	struct wc_worker worker;
	bool initialised;
};

struct routes;

/*
 * Loads and initialises the handlers of all routes.  NULL with messages in *err; then those
 * that were initialised have been finished again.
 */
struct routes *routes_open(const struct worker_args *args, struct ev_loop *loop,
			   struct engine *engine, struct err *err);
void routes_close(struct routes *routes);

enum route_match { ROUTE_FOUND, ROUTE_NOT_FOUND, ROUTE_METHOD_NOT_ALLOWED };

/*
 * *route is the one found.  When only the method does not fit, `allow` (of `size` octets) is given
 * the value of the Allow field (RFC 9110, 10.2.1).
 */
enum route_match routes_find(const struct routes *routes, struct wc_span path,
			     struct wc_span method, const struct route **route, char *allow,
			     size_t size);

size_t routes_count(const struct routes *routes);
struct route *routes_at(struct routes *routes, size_t index);

/* What a handler logged last as an error, since it was asked to be forgotten (api.c); else "". */
const char *api_last_error(void);
void api_forget_error(void);

#endif
