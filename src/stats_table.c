/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "stats_table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

struct table {
	FILE *out;
	unsigned lines, limit; /* printed; 0: no limit */
};

enum { CELL_MAX = 400 /* the end of a process has the longest */ };

/* A member by its path: "responses.2xx". */
static const json_t *at(const json_t *json, const char *path)
{
	char name[32];

	while (json && *path) {
		size_t len = strcspn(path, ".");

		snprintf(name, sizeof name, "%.*s", (int)len, path);
		json = json_object_get(json, name);
		path += len + (path[len] == '.');
	}
	return json;
}

static double number(const json_t *json, const char *path)
{
	return json_number_value(at(json, path));
}

/* What a terminal would act on is shown as '?'. */
static const char *text(const json_t *json, const char *path, char cell[CELL_MAX])
{
	const char *value = json_string_value(at(json, path));

	snprintf(cell, CELL_MAX, "%s", value ? value : "-");
	for (char *c = cell; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f || (unsigned char)*c == 0xc2)
			*c = '?';
	return cell;
}

static void line(struct table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void line(struct table *table, const char *format, ...)
{
	va_list args;

	if (table->limit && table->lines >= table->limit)
		return;
	if (table->lines++ > 0)
		putc('\n', table->out);
	va_start(args, format);
	vfprintf(table->out, format, args);
	va_end(args);
}

/* "1.2k", "34M": at most 5 characters. */
static const char *short_number(double value, char cell[CELL_MAX])
{
	static const char units[] = " kMGTPE";
	size_t unit = 0;

	while (value >= 9999.5 && unit + 2 < sizeof units) {
		value /= 1000;
		unit++;
	}
	snprintf(cell, CELL_MAX, unit && value < 99.95 ? "%.1f%.1s" : "%.0f%.1s", value,
		 unit ? &units[unit] : "");
	return cell;
}

static const char *duration(double seconds, char cell[CELL_MAX])
{
	unsigned long s = (unsigned long)seconds;

	if (s >= 86400)
		snprintf(cell, CELL_MAX, "%lud%02luh", s / 86400, s / 3600 % 24);
	else
		snprintf(cell, CELL_MAX, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
	return cell;
}

static const char *micros(const json_t *json, const char *path, char cell[CELL_MAX])
{
	double us = number(json, path);

	if (us < 9999.5)
		snprintf(cell, CELL_MAX, "%.0fus", us);
	else if (us < 9999500)
		snprintf(cell, CELL_MAX, "%.0fms", us / 1000);
	else
		snprintf(cell, CELL_MAX, "%.1fs", us / 1e6);
	return cell;
}

static void print_server(struct table *table, const json_t *stats)
{
	char a[CELL_MAX], b[CELL_MAX], c[CELL_MAX];

	line(table, "whitecap %s  pid %.0f  %s  generation %.0f  up %s  reloads %.0f, failed %.0f",
	     text(stats, "whitecap", a), number(stats, "pid"), text(stats, "state", b),
	     number(stats, "generation"), duration(number(stats, "uptime_s"), c),
	     number(stats, "reload.count"), number(stats, "reload.failed"));
	if (json_is_string(at(stats, "reload.error")))
		line(table, "last reload failed: %s", text(stats, "reload.error", a));
}

static void print_rates(struct table *table, const json_t *stats)
{
	char a[CELL_MAX], b[CELL_MAX], c[CELL_MAX];

	if (!at(stats, "rates"))
		return;
	line(table, "requests/s  %s (1 s)  %s (10 s)  %s (60 s)",
	     short_number(number(stats, "rates.1s.requests_per_s"), a),
	     short_number(number(stats, "rates.10s.requests_per_s"), b),
	     short_number(number(stats, "rates.60s.requests_per_s"), c));
}

static void print_total(struct table *table, const json_t *stats)
{
	const json_t *total = at(stats, "total");
	const json_t *recent = at(stats, "rates.10s");
	const json_t *times = recent ? recent : total;
	char a[CELL_MAX], b[CELL_MAX], c[CELL_MAX], d[CELL_MAX], e[CELL_MAX], f[CELL_MAX];

	line(table, "requests %s  2xx %s  3xx %s  4xx %s  5xx %s  connections %.0f active, %s idle",
	     short_number(number(total, "requests"), a),
	     short_number(number(total, "responses.2xx"), b),
	     short_number(number(total, "responses.3xx"), c),
	     short_number(number(total, "responses.4xx"), d),
	     short_number(number(total, "responses.5xx"), e), number(total, "connections.active"),
	     short_number(number(total, "connections.idle"), f));
	line(table, "latency%s  p50 %s  p90 %s  p99 %s  p99.9 %s  max %s", recent ? " (10 s)" : "",
	     micros(times, "latency_us.p50", a), micros(times, "latency_us.p90", b),
	     micros(times, "latency_us.p99", c), micros(times, "latency_us.p999", d),
	     micros(times, "latency_us.max", e));
	line(table,
	     "moved %.0f in, %.0f out  lost %.0f  crash %.0f  hang %.0f  quarantined %.0f  "
	     "shed %.0f  timeouts %.0f  send_error %.0f",
	     number(total, "moved.in"), number(total, "moved.out"), number(total, "lost"),
	     number(total, "crash"), number(total, "hang"), number(total, "quarantined"),
	     number(total, "shed"),
	     number(total, "timeout.keepalive") + number(total, "timeout.request") +
		     number(total, "timeout.handler") + number(total, "timeout.send"),
	     number(total, "send_error"));
}

static void print_workers(struct table *table, const json_t *stats)
{
	char a[CELL_MAX], b[CELL_MAX], c[CELL_MAX], d[CELL_MAX], e[CELL_MAX], f[CELL_MAX];
	const json_t *worker;
	size_t i;

	line(table, "%s", "");
	line(table, "%6s %7s %-8s %4s %10s %6s %8s %7s %7s %6s %8s  %s", "worker", "pid", "state",
	     "gen", "up", "conns", "requests", "p50", "p99", "cpu s", "restarts", "last exit");
	json_array_foreach(at(stats, "workers"), i, worker)
	{
		line(table, "%6.0f %7.0f %-8s %4.0f %10s %6s %8s %7s %7s %6.0f %8.0f  %s",
		     number(worker, "number"), number(worker, "pid"), text(worker, "state", a),
		     number(worker, "generation"), duration(number(worker, "uptime_s"), b),
		     short_number(number(worker, "connections.active") +
					  number(worker, "connections.idle"),
				  c),
		     short_number(number(worker, "requests"), d),
		     micros(worker, "latency_us.p50", e), micros(worker, "latency_us.p99", f),
		     number(worker, "cpu_s"), number(worker, "restarts"),
		     text(worker, "last_exit", (char[CELL_MAX]){0}));
	}
}

static void print_routes(struct table *table, const json_t *stats)
{
	char a[CELL_MAX], b[CELL_MAX], c[CELL_MAX], d[CELL_MAX], e[CELL_MAX], f[CELL_MAX];
	const json_t *route;
	size_t i;

	line(table, "%s", "");
	line(table, "%8s %8s %8s %7s %7s %9s %9s  %s", "requests", "4xx", "5xx", "p50", "p99",
	     "handler50", "handler99", "route");
	json_array_foreach(at(stats, "routes"), i, route)
	{
		line(table, "%8s %8.0f %8.0f %7s %7s %9s %9s  %s (%s)",
		     short_number(number(route, "requests"), a), number(route, "responses.4xx"),
		     number(route, "responses.5xx"), micros(route, "latency_us.p50", b),
		     micros(route, "latency_us.p99", c), micros(route, "handler_us.p50", d),
		     micros(route, "handler_us.p99", e), text(route, "path", f),
		     text(route, "handler", (char[CELL_MAX]){0}));
	}
}

static void print_listeners(struct table *table, const json_t *stats)
{
	char a[CELL_MAX], b[CELL_MAX];
	const json_t *listener;
	size_t i;

	line(table, "%s", "");
	line(table, "%8s %8s %8s  %s", "accept", "queue", "backlog", "listener");
	json_array_foreach(at(stats, "listeners"), i, listener)
	{
		line(table, "%8s %8.0f %8.0f  %s", short_number(number(listener, "accept"), a),
		     number(listener, "queue"), number(listener, "backlog"),
		     text(listener, "address", b));
	}
}

void stats_table_print(FILE *out, const json_t *stats, unsigned lines)
{
	struct table table = {.out = out, .limit = lines};

	print_server(&table, stats);
	print_rates(&table, stats);
	print_total(&table, stats);
	print_workers(&table, stats);
	print_routes(&table, stats);
	print_listeners(&table, stats);
}
