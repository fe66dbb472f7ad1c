/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "route.h"

#include <stdio.h>
#include <stdlib.h>

#include "admission.h"
#include "log.h"
#include "stats.h"

/* The path of a route for whatever no other one holds. */
#define CATCH_ALL "/*"

struct routes {
	size_t count;
	struct route **by_length; /* longest path first */
	struct route route[];     /* in the configuration's order */
};

static int compare_length(const void *a, const void *b)
{
	const struct route *left = *(struct route *const *)a, *right = *(struct route *const *)b;

	if (left->path_len != right->path_len)
		return left->path_len < right->path_len ? 1 : -1;
	return left < right ? -1 : left > right;
}

static void find_counts(struct route *route, const struct worker_args *args,
			const struct config_route *config)
{
	struct scoreboard *board = args->scoreboard;
	int place = stats_find(board->route, SCOREBOARD_ROUTES, stats_route_key(config));

	if (place >= 0)
		route->counts = &board->slot[args->slot].route[place];
	route->times = &board->latency[args->slot].route[place >= 0 ? place : SCOREBOARD_ROUTES];
}

/* The proving child leaves a note of where it is, for the master to tell when it does not come
 * back. */
static void note_proving(const struct route *route, size_t index, enum proving_step step)
{
	const struct worker_args *args = route->worker.args;
	struct scoreboard_slot *slot = &args->scoreboard->slot[args->slot];

	if (route->worker.engine)
		return;
	atomic_store(&slot->proving_step, step);
	atomic_store(&slot->proving, (uint32_t)index + 1);
}

static int route_open(struct route *route, const struct worker_args *args, size_t index,
		      struct err *err)
{
	const struct config_route *config = &args->config->routes[index];
	char where[48];

	snprintf(where, sizeof where, "routes[%zu].handler", index);
	route->path = config->path;
	route->path_len = strcmp(config->path, CATCH_ALL) == 0 ? 0 : strlen(config->path);
	route->methods = config->methods;
	route->timeout_ns =
		(config->timeout_ms ? config->timeout_ms : args->config->handler_ms) * 1000000;
	route->config = config;
	route->screened = admission_is_needed(config);
	find_counts(route, args, config);
	note_proving(route, index, PROVING_LOAD);
	route->handler =
		args->builtin ? args->builtin : handler_load(&args->images[index], where, err);
	if (!route->handler)
		return -1;
	api_forget_error();
	note_proving(route, index, PROVING_INIT);
	if (route->handler->init &&
	    route->handler->init(&route->state, config->options, &route->worker) != 0) {
		err_add(err, "%s: init of \"%s\" failed: %s", where, route->handler->name,
			*api_last_error() ? api_last_error() : "it logged no reason");
		return -1;
	}
	route->initialised = true;
	return 0;
}

struct routes *routes_open(const struct worker_args *args, struct ev_loop *loop,
			   struct engine *engine, struct err *err)
{
	size_t count = args->config->route_count;
	struct routes *routes = calloc(1, sizeof *routes + count * sizeof(struct route));
	bool failed = false;

	if (!routes || !(routes->by_length = calloc(count, sizeof(struct route *)))) {
		free(routes);
		err_add(err, "routes: out of memory");
		return NULL;
	}
	routes->count = count;
	for (size_t i = 0; i < count; i++) {
		struct route *route = routes->by_length[i] = &routes->route[i];

		route->worker = (struct wc_worker){engine, args, loop, route};
		failed |= route_open(route, args, i, err) < 0;
	}
	qsort(routes->by_length, count, sizeof(struct route *), compare_length);
	if (failed) {
		routes_close(routes);
		return NULL;
	}
	return routes;
}

void routes_close(struct routes *routes)
{
	if (!routes)
		return;
	for (size_t i = routes->count; i-- > 0;) {
		struct route *route = &routes->route[i];

		note_proving(route, i, PROVING_FINI);
		if (route->initialised && route->handler->fini)
			route->handler->fini(route->state);
	}
	free(routes->by_length);
	free(routes);
}

/*
 * Segment by segment: "/bid" holds "/bid" and "/bid/x", not "/bidder"; "/" is one empty segment and
 * holds "/" alone.  CATCH_ALL has a length of 0 and holds every path.
 */
static bool holds(const struct route *route, struct wc_span path)
{
	size_t len = route->path_len;

	if (path.len < len || memcmp(path.ptr, route->path, len) != 0)
		return false;
	return path.len == len || (path.ptr[len] == '/' && (len == 0 || path.ptr[len - 1] != '/'));
}

/* A route that takes GET takes HEAD. */
static bool takes(const struct route *route, struct wc_span method)
{
	if (!route->methods)
		return true;
	for (char *const *name = route->methods; *name; name++)
		if (span_is(method, *name) ||
		    (span_is(method, "HEAD") && strcmp(*name, "GET") == 0))
			return true;
	return false;
}

static void allow_add(char *allow, size_t size, const struct route *route)
{
	for (char *const *name = route->methods; *name; name++) {
		size_t len = strlen(allow);

		snprintf(allow + len, size - len, "%s%s", len ? ", " : "", *name);
	}
}

enum route_match routes_find(const struct routes *routes, struct wc_span path,
			     struct wc_span method, const struct route **found, char *allow,
			     size_t size)
{
	const struct route *refused = NULL;

	allow[0] = '\0';
	for (size_t i = 0; i < routes->count; i++) {
		const struct route *route = routes->by_length[i];

		if ((refused && route->path_len != refused->path_len) || !holds(route, path))
			continue;
		if (takes(route, method)) {
			*found = route;
			return ROUTE_FOUND;
		}
		/* Only another route of the same path can still take it. */
		refused = route;
		allow_add(allow, size, route);
	}
	return refused ? ROUTE_METHOD_NOT_ALLOWED : ROUTE_NOT_FOUND;
}

size_t routes_count(const struct routes *routes)
{
	return routes->count;
}

struct route *routes_at(struct routes *routes, size_t index)
{
	return &routes->route[index];
}
