/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "stats_json.h"

#include <string.h>

#include "json_out.h"
#include "slot.h"

enum { TIME_TEXT_MAX = 32, RESPONSE_CLASSES = 6 };

static const char *const counter_paths[COUNTER_COUNT] = {
#define COUNTER(field, path, doc) [COUNTER_##field] = path,
#include "counters.def"
#undef COUNTER
};

/* Written for each process, and for all. */
struct figures {
	uint64_t counter[COUNTER_COUNT];
	uint64_t open, busy; /* connections; those inside a request */
	struct histogram_sum latency, lag;
};

/* "2026-01-31T12:00:00Z"; nothing where there was no such time. */
static const char *format_time(const struct timespec *at, char text[TIME_TEXT_MAX])
{
	struct tm tm;

	if (at->tv_sec == 0 || !gmtime_r(&at->tv_sec, &tm))
		return NULL;
	strftime(text, TIME_TEXT_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return text;
}

static double seconds_since(const struct stats *stats, uint64_t then_ns)
{
	return stats->now_ns > then_ns ? (double)(stats->now_ns - then_ns) / 1e9 : 0;
}

static void write_times(struct json_out *json, const char *key, const struct histogram_sum *sum)
{
	static const struct {
		const char *name;
		double share;
	} quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}};

	json_out_open(json, key, '{');
	for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++)
		json_out_real(json, quantiles[i].name,
			      histogram_quantile(sum, quantiles[i].share) / 1000, 2);
	json_out_real(json, "mean", histogram_mean(sum) / 1000, 2);
	json_out_close(json, '}');
}

/* Together as many as are open: a gauge that was read between two stores must not make more of
 * them. */
static void write_connections(struct json_out *json, const struct figures *figures)
{
	uint64_t busy = figures->busy < figures->open ? figures->busy : figures->open;

	json_out_open(json, "connections", '{');
	json_out_count(json, "active", busy);
	json_out_count(json, "idle", figures->open - busy);
	json_out_close(json, '}');
}

/* Length of the group's name in "group.name"; 0: no group. */
static size_t group_len(const char *path)
{
	const char *dot = strchr(path, '.');

	return dot ? (size_t)(dot - path) : 0;
}

static bool is_same_group(const char *path, const char *other)
{
	size_t len = group_len(path);

	return len == group_len(other) && memcmp(path, other, len) == 0;
}

static void open_group(struct json_out *json, const char *path)
{
	char name[32];

	snprintf(name, sizeof name, "%.*s", (int)group_len(path), path);
	json_out_open(json, name, '{');
}

/* Counters of one group stand side by side in the table. */
static void write_counters(struct json_out *json, const uint64_t counter[COUNTER_COUNT],
			   const struct figures *figures)
{
	const char *before = "";

	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		const char *path = counter_paths[i];
		size_t len = group_len(path);

		if (group_len(before) && !is_same_group(path, before))
			json_out_close(json, '}');
		if (len && !is_same_group(path, before))
			open_group(json, path);
		json_out_count(json, path + len + (len > 0), counter[i]);
		before = path;
		if (i == COUNTER_close && figures)
			write_connections(json, figures);
	}
	if (group_len(before))
		json_out_close(json, '}');
}

static void write_figures(struct json_out *json, const struct figures *figures)
{
	write_counters(json, figures->counter, figures);
	write_times(json, "latency_us", &figures->latency);
	write_times(json, "loop_lag_us", &figures->lag);
}

static void write_reload(struct json_out *json, const struct master_status *status)
{
	char text[TIME_TEXT_MAX];

	json_out_open(json, "reload", '{');
	json_out_count(json, "count", status->reload_count);
	json_out_count(json, "failed", status->reload_failed);
	json_out_text(json, "last", format_time(&status->reload_last, text));
	json_out_text(json, "error", *status->reload_error ? status->reload_error : NULL);
	json_out_close(json, '}');
}

static void write_reopen(struct json_out *json, const struct master_status *status)
{
	json_out_open(json, "reopen", '{');
	json_out_count(json, "count", status->reopen_count);
	json_out_count(json, "failed", status->reopen_failed);
	json_out_close(json, '}');
}

static void write_total(struct json_out *json, const struct stats *stats)
{
	struct figures figures = {
		.open = stats_gauge(stats, offsetof(struct scoreboard_slot, active)),
		.busy = stats_gauge(stats, offsetof(struct scoreboard_slot, busy)),
	};

	for (size_t i = 0; i < COUNTER_COUNT; i++)
		figures.counter[i] = stats_counter(stats, (enum scoreboard_counter)i);
	stats_add_all(stats, &figures.latency);
	stats_add_lag(stats, &figures.lag);
	json_out_open(json, "total", '{');
	write_figures(json, &figures);
	json_out_close(json, '}');
}

/* A second of few requests, or of none, has few figures; a window that is not full yet says so. */
static void write_window(struct json_out *json, const struct stats_window *window)
{
	char name[16];

	snprintf(name, sizeof name, "%us", window->seconds);
	json_out_open(json, name, '{');
	json_out_real(json, "span_s", window->span_s, 3);
	json_out_real(
		json, "requests_per_s",
		window->span_s > 0 ? (double)window->counter[COUNTER_requests] / window->span_s : 0,
		1);
	write_counters(json, window->counter, NULL);
	write_times(json, "latency_us", &window->latency);
	json_out_close(json, '}');
}

static void write_windows(struct json_out *json, const struct stats *stats)
{
	if (!stats->windows)
		return;
	json_out_open(json, "rates", '{');
	for (size_t i = 0; i < STATS_WINDOWS; i++)
		write_window(json, &stats->windows[i]);
	json_out_close(json, '}');
}

/* What is common to workers and admin processes. */
static void write_process(struct json_out *json, const struct stats *stats, unsigned slot)
{
	const struct scoreboard_slot *own = &stats->board->slot[slot];
	const struct stats_usage *usage = &stats->usage[slot];
	int32_t pid = atomic_load_explicit(&own->pid, memory_order_relaxed);
	char last_exit[sizeof own->last_exit];

	memcpy(last_exit, own->last_exit, sizeof last_exit);
	last_exit[sizeof last_exit - 1] = '\0';
	json_out_count(json, "slot", slot);
	json_out_count(json, "pid", (uint64_t)pid);
	json_out_count(json, "generation", own->generation);
	json_out_text(json, "state", slot_state_name((enum slot_state)own->state));
	json_out_real(json, "uptime_s", pid ? seconds_since(stats, own->started_ns) : 0, 1);
	json_out_count(json, "restarts", own->restarts);
	json_out_text(json, "last_exit", *last_exit ? last_exit : NULL);
	if (usage->known) {
		json_out_real(json, "cpu_s", usage->cpu_s, 2);
		json_out_count(json, "memory", usage->memory);
	}
}

static void write_worker(struct json_out *json, const struct stats *stats, unsigned slot)
{
	const struct scoreboard_slot *own = &stats->board->slot[slot];
	struct figures figures = {.open = own->active, .busy = own->busy};

	for (size_t i = 0; i < COUNTER_COUNT; i++)
		figures.counter[i] = own->counter[i];
	stats_add_slot(stats, slot, &figures.latency);
	histogram_add(&figures.lag, &stats->board->latency[slot].lag);
	json_out_open(json, NULL, '{');
	json_out_count(json, "number", own->number);
	write_process(json, stats, slot);
	write_figures(json, &figures);
	json_out_close(json, '}');
}

static void write_workers(struct json_out *json, const struct stats *stats)
{
	json_out_open(json, "workers", '[');
	for (unsigned i = 1; i < scoreboard_end(stats->board); i++)
		if (stats_is_shown(&stats->board->slot[i]))
			write_worker(json, stats, i);
	json_out_close(json, ']');
}

static void write_admin(struct json_out *json, const struct stats *stats)
{
	json_out_open(json, "admin", '[');
	for (unsigned i = SCOREBOARD_ADMIN; i < SCOREBOARD_SLOTS; i++) {
		if (!stats_is_shown(&stats->board->slot[i]))
			continue;
		json_out_open(json, NULL, '{');
		write_process(json, stats, i);
		json_out_close(json, '}');
	}
	json_out_close(json, ']');
}

static void write_user_counter(void *json, const char *name, uint64_t value)
{
	json_out_count(json, name, value);
}

static void write_methods(struct json_out *json, char *const *methods)
{
	if (!methods) {
		json_out_null(json, "methods");
		return;
	}
	json_out_open(json, "methods", '[');
	for (; *methods; methods++)
		json_out_text(json, NULL, *methods);
	json_out_close(json, ']');
}

static void write_responses(struct json_out *json, const struct scoreboard_route *sum)
{
	char name[] = "0xx";

	json_out_open(json, "responses", '{');
	for (int class = 2; class < RESPONSE_CLASSES; class ++) {
		name[0] = (char)('0' + class);
		json_out_count(json, name, sum->responses[class]);
	}
	json_out_close(json, '}');
}

static void write_route(struct json_out *json, const struct stats *stats,
			const struct config_route *route)
{
	int place = stats_find(stats->board->route, SCOREBOARD_ROUTES, stats_route_key(route));
	struct histogram_sum latency = {0}, handler = {0};
	struct scoreboard_route sum;

	stats_route(stats, place, &sum);
	stats_add_route(stats, place, &latency, &handler);
	json_out_open(json, NULL, '{');
	json_out_text(json, "path", route->path);
	json_out_text(json, "handler", route->handler);
	write_methods(json, route->methods);
	json_out_count(json, "requests", sum.requests);
	write_responses(json, &sum);
	write_times(json, "latency_us", &latency);
	write_times(json, "handler_us", &handler);
	json_out_count(json, "shed", sum.shed);
	json_out_count(json, "late", sum.late);
	json_out_open(json, "counters", '{');
	stats_user_counters(stats, route->path, write_user_counter, json);
	json_out_close(json, '}');
	json_out_close(json, '}');
}

static void write_listener(struct json_out *json, const struct stats *stats, size_t index)
{
	const struct stats_listener *listener = &stats->listeners[index];
	uint64_t key = stats_listener_key(stats->config->listens[index].address);
	int place = stats_find(stats->board->listener, SCOREBOARD_LISTENERS, key);

	json_out_open(json, NULL, '{');
	json_out_text(json, "address", listener->address);
	json_out_count(json, "accept", stats_accepts(stats, place));
	if (listener->known)
		json_out_count(json, "queue", listener->queue);
	else
		json_out_null(json, "queue");
	json_out_count(json, "backlog", listener->backlog);
	json_out_close(json, '}');
}

static void write_lists(struct json_out *json, const struct stats *stats)
{
	write_workers(json, stats);
	write_admin(json, stats);
	json_out_open(json, "routes", '[');
	for (size_t i = 0; i < stats->config->route_count; i++)
		write_route(json, stats, &stats->config->routes[i]);
	json_out_close(json, ']');
	json_out_open(json, "listeners", '[');
	for (size_t i = 0; i < stats->config->listen_count; i++)
		write_listener(json, stats, i);
	json_out_close(json, ']');
}

static void write_last_move(struct json_out *json, const struct stats *stats)
{
	struct stats_move move;

	stats_last_move(stats, &move);
	if (move.count == 0) {
		json_out_null(json, "last_move");
		return;
	}
	json_out_open(json, "last_move", '{');
	json_out_count(json, "count", move.count);
	json_out_real(json, "ms", (double)(move.ended_ns - move.began_ns) / 1e6, 3);
	json_out_real(json, "ago_s", seconds_since(stats, move.ended_ns), 1);
	json_out_close(json, '}');
}

void stats_json_write(FILE *out, const struct stats *stats)
{
	const struct master_status *status = &stats->status;
	struct json_out json = {.out = out};
	char text[TIME_TEXT_MAX];

	json_out_open(&json, NULL, '{');
	json_out_text(&json, "whitecap", PACKAGE_VERSION);
	json_out_count(&json, "pid", (uint64_t)status->pid);
	json_out_text(&json, "started", format_time(&status->started, text));
	json_out_real(&json, "uptime_s", seconds_since(stats, status->started_ns), 1);
	json_out_text(&json, "state", stats_state_name(status->state));
	json_out_count(&json, "generation", status->generation);
	write_reload(&json, status);
	write_reopen(&json, status);
	write_last_move(&json, stats);
	write_total(&json, stats);
	write_windows(&json, stats);
	write_lists(&json, stats);
	json_out_close(&json, '}');
	putc('\n', out);
}
