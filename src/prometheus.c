/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "prometheus.h"

#include <inttypes.h>
#include <string.h>

#include "slot.h"
#include "utf8.h"

/* One family has all of its samples together, under one HELP and TYPE. */
static void family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP whitecap_%s %s\n# TYPE whitecap_%s %s\n", name, help, name, type);
}

static void put_label(FILE *out, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t len;

	while (*s) {
		if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s++);
		else if (*s == '\n')
			fputs("\\n", out), s++;
		else if (*s < 0x80)
			putc(*s++, out);
		else if ((len = utf8_len(s)))
			fwrite(s, 1, len, out), s += len;
		else
			fputs("\xef\xbf\xbd", out), s++; /* U+FFFD */
	}
}

static bool is_used(const struct stats *stats, unsigned slot)
{
	return slot == 0 || stats->board->slot[slot].used;
}

/* Counters. */

struct counter {
	const char *path, *doc;
};

static const struct counter counters[COUNTER_COUNT] = {
#define COUNTER(field, path, doc) [COUNTER_##field] = {path, doc},
#include "counters.def"
#undef COUNTER
};

/* Those whose path has two parts are one family, the second part its label. */
static const struct group {
	const char *name, *label, *help;
} groups[] = {
	{"responses", "class", "Responses, by the class of their status."},
	{"bytes", "direction", "Octets read from clients and handed to the kernel for them."},
	{"timeout", "kind", "Requests and connections ended by a timeout."},
	{"moved", "direction", "Connections taken over from and handed to other processes."},
};

static const struct group *group_of(const char *path)
{
	const char *dot = strchr(path, '.');

	for (size_t i = 0; dot && i < sizeof groups / sizeof *groups; i++)
		if (strncmp(groups[i].name, path, (size_t)(dot - path)) == 0)
			return &groups[i];
	return NULL;
}

static void write_counter(FILE *out, const struct stats *stats, size_t index)
{
	const char *path = counters[index].path;
	const struct group *group = group_of(path);

	for (unsigned i = 0; i < scoreboard_end(stats->board); i++) {
		if (!is_used(stats, i))
			continue;
		if (group)
			fprintf(out, "whitecap_%s_total{worker=\"%u\",%s=\"%s\"} %" PRIu64 "\n",
				group->name, i, group->label, strchr(path, '.') + 1,
				stats->board->slot[i].counter[index]);
		else
			fprintf(out, "whitecap_%s_total{worker=\"%u\"} %" PRIu64 "\n", path, i,
				stats->board->slot[i].counter[index]);
	}
}

static void write_counters(FILE *out, const struct stats *stats)
{
	const struct group *before = NULL;
	char name[64];

	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		const struct group *group = group_of(counters[i].path);

		snprintf(name, sizeof name, "%s_total", group ? group->name : counters[i].path);
		if (!group || group != before)
			family(out, name, "counter", group ? group->help : counters[i].doc);
		write_counter(out, stats, i);
		before = group;
	}
}

/* Histograms. */

static const struct bound {
	uint64_t ns;
	const char *seconds;
} bounds[] = {
	{10000, "1e-05"},    {25000, "2.5e-05"},  {50000, "5e-05"},    {100000, "0.0001"},
	{250000, "0.00025"}, {500000, "0.0005"},  {1000000, "0.001"},  {2500000, "0.0025"},
	{5000000, "0.005"},  {10000000, "0.01"},  {25000000, "0.025"}, {50000000, "0.05"},
	{100000000, "0.1"},  {250000000, "0.25"}, {1000000000, "1"},   {10000000000, "10"},
};

enum { LABELS_MAX = 4096 };

/* labels: "route=\"/\"", without a comma at the end. */
static void write_histogram(FILE *out, const char *name, const char *labels,
			    const struct histogram_sum *sum)
{
	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
		fprintf(out, "whitecap_%s_bucket{%s,le=\"%s\"} %" PRIu64 "\n", name, labels,
			bounds[i].seconds, histogram_below(sum, bounds[i].ns));
	fprintf(out, "whitecap_%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, sum->count);
	fprintf(out, "whitecap_%s_sum{%s} %.9g\n", name, labels, histogram_total(sum) / 1e9);
	fprintf(out, "whitecap_%s_count{%s} %" PRIu64 "\n", name, labels, sum->count);
}

static void write_worker_times(FILE *out, const struct stats *stats)
{
	char labels[32];

	family(out, "worker_request_duration_seconds", "histogram",
	       "From a request's arrival to its response handed to the kernel, by worker.");
	for (unsigned i = 0; i < scoreboard_end(stats->board); i++) {
		struct histogram_sum sum = {0};

		if (!is_used(stats, i))
			continue;
		stats_add_slot(stats, i, &sum);
		snprintf(labels, sizeof labels, "worker=\"%u\"", i);
		write_histogram(out, "worker_request_duration_seconds", labels, &sum);
	}
}

static void write_lag(FILE *out, const struct stats *stats)
{
	char labels[32];

	family(out, "loop_lag_seconds", "histogram",
	       "How long one round of a worker's loop took, while other events waited.");
	for (unsigned i = 1; i < scoreboard_end(stats->board); i++) {
		struct histogram_sum sum = {0};

		if (!is_used(stats, i))
			continue;
		histogram_add(&sum, &stats->board->latency[i].lag);
		snprintf(labels, sizeof labels, "worker=\"%u\"", i);
		write_histogram(out, "loop_lag_seconds", labels, &sum);
	}
}

/* Routes. */

/* "route=\"/bid\",handler=\"bidder\",methods=\"GET,POST\"" */
static void route_labels(const struct config_route *route, char labels[LABELS_MAX])
{
	FILE *out = fmemopen(labels, LABELS_MAX, "w");

	labels[0] = '\0';
	if (!out)
		return;
	fputs("route=\"", out);
	put_label(out, route->path);
	fputs("\",handler=\"", out);
	put_label(out, route->handler);
	fputs("\",methods=\"", out);
	for (char *const *method = route->methods; method && *method; method++) {
		if (method != route->methods)
			putc(',', out);
		put_label(out, *method);
	}
	putc('"', out);
	fclose(out);
	labels[LABELS_MAX - 1] = '\0';
}

/* Whether an entry before it has the same labels, and so the same place. */
static bool is_repeated(const struct stats *stats, size_t index)
{
	const struct config_route *routes = stats->config->routes;

	for (size_t i = 0; i < index; i++)
		if (stats_route_key(&routes[i]) == stats_route_key(&routes[index]))
			return true;
	return false;
}

static int place_of(const struct stats *stats, size_t index)
{
	return stats_find(stats->board->route, SCOREBOARD_ROUTES,
			  stats_route_key(&stats->config->routes[index]));
}

static void each_route(FILE *out, const struct stats *stats,
		       void (*write)(FILE *out, const struct stats *stats, size_t index,
				     const char *labels))
{
	char labels[LABELS_MAX];

	for (size_t i = 0; i < stats->config->route_count; i++) {
		if (is_repeated(stats, i))
			continue;
		route_labels(&stats->config->routes[i], labels);
		write(out, stats, i, labels);
	}
}

static void write_requests(FILE *out, const struct stats *stats, size_t index, const char *labels)
{
	struct scoreboard_route sum;

	stats_route(stats, place_of(stats, index), &sum);
	fprintf(out, "whitecap_route_requests_total{%s} %" PRIu64 "\n", labels, sum.requests);
}

static void write_responses(FILE *out, const struct stats *stats, size_t index, const char *labels)
{
	struct scoreboard_route sum;

	stats_route(stats, place_of(stats, index), &sum);
	for (int class = 2; class <= 5; class ++)
		fprintf(out, "whitecap_route_responses_total{%s,class=\"%dxx\"} %" PRIu64 "\n",
			labels, class, sum.responses[class]);
}

static void write_route_latency(FILE *out, const struct stats *stats, size_t index,
				const char *labels)
{
	struct histogram_sum latency = {0}, handler = {0};

	stats_add_route(stats, place_of(stats, index), &latency, &handler);
	write_histogram(out, "request_duration_seconds", labels, &latency);
}

static void write_route_handler(FILE *out, const struct stats *stats, size_t index,
				const char *labels)
{
	struct histogram_sum latency = {0}, handler = {0};

	stats_add_route(stats, place_of(stats, index), &latency, &handler);
	write_histogram(out, "handler_duration_seconds", labels, &handler);
}

struct own_counter {
	FILE *out;
	const char *labels;
};

static void write_own_counter(void *data, const char *name, uint64_t value)
{
	struct own_counter *own = data;

	fprintf(own->out, "whitecap_handler_events_total{%s,name=\"", own->labels);
	put_label(own->out, name);
	fprintf(own->out, "\"} %" PRIu64 "\n", value);
}

static void write_own_counters(FILE *out, const struct stats *stats, size_t index,
			       const char *labels)
{
	struct own_counter own = {out, labels};

	stats_user_counters(stats, stats->config->routes[index].path, write_own_counter, &own);
}

static void write_routes(FILE *out, const struct stats *stats)
{
	family(out, "route_requests_total", "counter",
	       "Requests that the route's handler was given.");
	each_route(out, stats, write_requests);
	family(out, "route_responses_total", "counter",
	       "Responses of the route, by the class of their status.");
	each_route(out, stats, write_responses);
	family(out, "request_duration_seconds", "histogram",
	       "From a request's arrival to its response handed to the kernel, by route.");
	each_route(out, stats, write_route_latency);
	family(out, "handler_duration_seconds", "histogram",
	       "Time that requests spent in the handler.");
	each_route(out, stats, write_route_handler);
	family(out, "handler_events_total", "counter", "What handlers count themselves.");
	each_route(out, stats, write_own_counters);
}

/* The server and its processes. */

static void gauge(FILE *out, const char *name, const char *help, double value)
{
	family(out, name, "gauge", help);
	fprintf(out, "whitecap_%s %.17g\n", name, value);
}

static double seconds_of(const struct timespec *at)
{
	return (double)at->tv_sec + (double)(at->tv_nsec / 1000000) / 1000;
}

static void write_server(FILE *out, const struct stats *stats)
{
	const struct master_status *status = &stats->status;

	family(out, "build_info", "gauge", "Always 1; its label is the version.");
	fprintf(out, "whitecap_build_info{version=\"%s\"} 1\n", PACKAGE_VERSION);
	gauge(out, "start_time_seconds", "When the server started, in seconds since the epoch.",
	      seconds_of(&status->started));
	family(out, "state", "gauge", "1 for the state that the server is in.");
	for (int i = MASTER_STARTING; i <= MASTER_STOPPING; i++)
		fprintf(out, "whitecap_state{state=\"%s\"} %d\n",
			stats_state_name((enum master_state)i),
			status->state == (enum master_state)i);
	gauge(out, "generation", "Number of the configuration that is served.", status->generation);
	gauge(out, "workers_wanted", "Workers that there should be.", status->workers);
	family(out, "reloads_total", "counter", "Reloads, by how they ended.");
	fprintf(out, "whitecap_reloads_total{result=\"ok\"} %" PRIu64 "\n", status->reload_count);
	fprintf(out, "whitecap_reloads_total{result=\"failed\"} %" PRIu64 "\n",
		status->reload_failed);
	gauge(out, "last_reload_successful", "0 when the last reload failed.",
	      *status->reload_error == '\0');
	gauge(out, "last_reload_timestamp_seconds",
	      "When the last reload ended, in seconds since the epoch; 0: there was none.",
	      seconds_of(&status->reload_last));
}

static void write_states(FILE *out, const struct stats *stats)
{
	unsigned count[SLOT_STATE_COUNT] = {0};

	for (unsigned i = 1; i < scoreboard_end(stats->board); i++)
		if (stats->board->slot[i].state < SLOT_STATE_COUNT)
			count[stats->board->slot[i].state]++;
	family(out, "workers", "gauge", "Worker processes, by state.");
	for (int i = SLOT_EMPTY + 1; i < SLOT_STATE_COUNT; i++)
		fprintf(out, "whitecap_workers{state=\"%s\"} %u\n",
			slot_state_name((enum slot_state)i), count[i]);
}

static void write_connections(FILE *out, const struct stats *stats)
{
	family(out, "connections", "gauge", "Open connections: inside a request, and idle.");
	for (unsigned i = 1; i < scoreboard_end(stats->board); i++) {
		const struct scoreboard_slot *slot = &stats->board->slot[i];
		uint64_t open = slot->active, busy = slot->busy;

		if (!slot->used)
			continue;
		busy = busy < open ? busy : open;
		fprintf(out, "whitecap_connections{worker=\"%u\",state=\"active\"} %" PRIu64 "\n",
			i, busy);
		fprintf(out, "whitecap_connections{worker=\"%u\",state=\"idle\"} %" PRIu64 "\n", i,
			open - busy);
	}
}

/* Rows of two generations may have one number, and one past. */
static bool is_number_seen(const struct stats *stats, unsigned slot)
{
	for (unsigned i = 1; i < slot; i++)
		if (stats_is_shown(&stats->board->slot[i]) &&
		    stats->board->slot[i].number == stats->board->slot[slot].number)
			return true;
	return false;
}

static void write_restarts(FILE *out, const struct stats *stats)
{
	family(out, "worker_restarts_total", "counter",
	       "Unwanted ends of the worker with that number.");
	for (unsigned i = 1; i < scoreboard_end(stats->board); i++)
		if (stats_is_shown(&stats->board->slot[i]) && !is_number_seen(stats, i))
			fprintf(out, "whitecap_worker_restarts_total{number=\"%u\"} %" PRIu64 "\n",
				stats->board->slot[i].number, stats->board->slot[i].restarts);
}

static void write_usage(FILE *out, const struct stats *stats)
{
	family(out, "worker_cpu_seconds_total", "counter", "CPU time of the process in this slot.");
	for (unsigned i = 1; i < SCOREBOARD_SLOTS; i++)
		if (stats->usage[i].known)
			fprintf(out, "whitecap_worker_cpu_seconds_total{worker=\"%u\"} %.2f\n", i,
				stats->usage[i].cpu_s);
	family(out, "worker_resident_memory_bytes", "gauge",
	       "Resident memory of the process in this slot.");
	for (unsigned i = 1; i < SCOREBOARD_SLOTS; i++)
		if (stats->usage[i].known)
			fprintf(out,
				"whitecap_worker_resident_memory_bytes{worker=\"%u\"} %" PRIu64
				"\n",
				i, stats->usage[i].memory);
}

/* Listeners. */

static void each_listener(FILE *out, const struct stats *stats, const char *name,
			  double (*value)(const struct stats *stats, size_t index))
{
	for (size_t i = 0; i < stats->config->listen_count; i++) {
		fprintf(out, "whitecap_%s{address=\"", name);
		put_label(out, stats->listeners[i].address);
		fprintf(out, "\"} %.17g\n", value(stats, i));
	}
}

static double accepts(const struct stats *stats, size_t index)
{
	uint64_t key = stats_listener_key(stats->config->listens[index].address);

	return (double)stats_accepts(stats,
				     stats_find(stats->board->listener, SCOREBOARD_LISTENERS, key));
}

static double queue(const struct stats *stats, size_t index)
{
	return stats->listeners[index].queue;
}

static double backlog(const struct stats *stats, size_t index)
{
	return stats->listeners[index].backlog;
}

static void write_listeners(FILE *out, const struct stats *stats)
{
	family(out, "listener_accept_total", "counter", "Connections accepted, by listener.");
	each_listener(out, stats, "listener_accept_total", accepts);
	family(out, "listener_queue", "gauge", "Connections that wait to be accepted.");
	each_listener(out, stats, "listener_queue", queue);
	family(out, "listener_backlog", "gauge", "Connections that may wait to be accepted.");
	each_listener(out, stats, "listener_backlog", backlog);
}

void prometheus_write(FILE *out, const struct stats *stats)
{
	write_server(out, stats);
	write_states(out, stats);
	write_connections(out, stats);
	write_counters(out, stats);
	write_worker_times(out, stats);
	write_lag(out, stats);
	write_routes(out, stats);
	write_restarts(out, stats);
	write_usage(out, stats);
	write_listeners(out, stats);
}
