/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "access_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conn.h"
#include "engine.h"
#include "http_response.h"
#include "log.h"
#include "origin.h"
#include "request.h"
#include "route.h"

enum {
	BUFFER = 16384,
	PIPE_WHOLE = 4096,  /* what a pipe takes in one piece (PIPE_BUF) */
	ACCESS_LINE = 4096,   /* longer lines are cut where a text in them is long */
	TEXT_MAX = 1024,    /* octets of a text of the client, before escaping */
};

#define FLUSH_AFTER 1.0 /* seconds that a line waits for others at most */

struct access_log {
	struct engine *engine;
	int fd;
	size_t room;        /* of the buffer that is used */
	size_t len;
	unsigned lines;
	ev_timer timer;
	uint32_t random;
	uint32_t threshold; /* of random: sampled below it */
	char buffer[BUFFER];
};

static void flush(struct access_log *log)
{
	if (log->len > 0 && log_write(log->fd, log->buffer, log->len) < 0)
		engine_count(log->engine, COUNTER_log_dropped, log->lines);
	log->len = log->lines = 0;
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop, (void)events;
	flush(timer->data);
}

static void set_fd(struct access_log *log, int fd)
{
	struct stat st;

	log->fd = fd;
	log->room = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? BUFFER : PIPE_WHOLE;
}

struct access_log *access_log_open(struct engine *engine, int fd)
{
	struct access_log *log = calloc(1, sizeof *log);
	double sample = engine->config->access_log_sample;

	if (!log)
		return NULL;
	log->engine = engine;
	log->random = 2463534242u + (uint32_t)getpid();
	log->threshold = sample >= 1 ? UINT32_MAX : (uint32_t)(sample * UINT32_MAX);
	ev_timer_init(&log->timer, on_timer, FLUSH_AFTER, 0.);
	log->timer.data = log;
	set_fd(log, fd);
	return log;
}

void access_log_close(struct access_log *log)
{
	if (!log)
		return;
	ev_timer_stop(log->engine->loop, &log->timer);
	flush(log);
	close(log->fd);
	free(log);
}

/* The memory may be damaged. */
void access_log_rescue(struct access_log *log)
{
	size_t len = log->len;

	if (len == 0 || len > sizeof log->buffer)
		return;
	log->len = 0;
	if (write(log->fd, log->buffer, len) != (ssize_t)len)
		engine_count(log->engine, COUNTER_log_dropped, log->lines);
}

void access_log_reopen(struct access_log *log, int fd)
{
	flush(log);
	close(log->fd);
	set_fd(log, fd);
}

static bool is_sampled(struct access_log *log)
{
	if (log->threshold == UINT32_MAX)
		return true;
	log->random ^= log->random << 13;
	log->random ^= log->random >> 17;
	log->random ^= log->random << 5;
	return log->random < log->threshold;
}

/* One line, being put together. */
struct line {
	char text[ACCESS_LINE];
	size_t len;
};

static void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct line *line, const char *format, ...)
{
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line->text + line->len, sizeof line->text - line->len, format, args);
	va_end(args);
	if (len > 0)
		line->len += (size_t)len;
	if (line->len >= sizeof line->text)
		line->len = sizeof line->text - 1;
}

/* A text of the client: everything but visible ASCII is escaped, in the way of the format. */
static void add_escaped(struct line *line, struct wc_span text, const char *escape)
{
	size_t len = text.len < TEXT_MAX ? text.len : TEXT_MAX;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];

		if (line->len + 512 > sizeof line->text)
			return;
		if (c < ' ' || c > 126 || c == '"' || c == '\\')
			add(line, "%s%02x", escape, c);
		else
			line->text[line->len++] = (char)c;
	}
}

struct record {
	struct wc_span method, target, user_agent, referer;
	char peer[PEER_TEXT];
	int version, status;
	size_t bytes;
	uint64_t duration_us, handler_us;
	unsigned worker, served;
	const char *route;
};

static struct wc_span span_in(const struct request *request, struct http_span span)
{
	return (struct wc_span){request->buf + request->pos + span.at, span.len};
}

static struct wc_span header(const struct request *request, const char *name)
{
	for (uint32_t i = 0; i < request->http.field_count; i++)
		if (span_is_case(span_in(request, request->http.fields[i].name), name))
			return span_in(request, request->http.fields[i].value);
	return (struct wc_span){"-", 1};
}

static void fill(struct record *record, const struct conn *conn, const struct request *request,
		 int status, size_t bytes)
{
	const struct http_request *http = &request->http;
	const struct engine *engine = request->engine;
	uint64_t now = engine_clock();
	struct peer peer;
	bool whole = http->method.len > 0; /* else the head was refused before it was understood */

	*record = (struct record){
		.method = whole ? span_in(request, http->method) : span_of("-"),
		.target = whole ? span_in(request, http->target) : span_of("-"),
		.user_agent = whole ? header(request, "User-Agent") : span_of("-"),
		.referer = whole ? header(request, "Referer") : span_of("-"),
		.version = http->version == 10 ? 0 : 1,
		.status = status,
		.bytes = http_has_body(status) && !http->is_head ? bytes : 0,
		.duration_us = request->received_ns ? (now - request->received_ns) / 1000 : 0,
		.handler_us = request->handler_ns / 1000,
		.worker = engine->args->number,
		.served = conn->served,
		.route = request->route ? request->route->path : "-",
	};
	origin_find(conn, request, &peer);
	peer_text(&peer, record->peer);
}

/* UTC, with numbers only: nothing here follows the locale. */
static struct tm now_utc(unsigned *milliseconds)
{
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	*milliseconds = (unsigned)(now.tv_nsec / 1000000);
	return tm;
}

static void format_json(struct line *line, const struct record *record)
{
	static const char escape[] = "\\u00";
	unsigned milliseconds;
	struct tm tm = now_utc(&milliseconds);

	add(line, "{\"time\":\"%d-%02d-%02dT%02d:%02d:%02d.%03uZ\",\"peer\":\"%s\",\"method\":\"",
	    tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
	    milliseconds, record->peer);
	add_escaped(line, record->method, escape);
	add(line, "\",\"target\":\"");
	add_escaped(line, record->target, escape);
	add(line, "\",\"version\":\"1.%d\",\"status\":%d,\"bytes\":%zu,\"duration_us\":%llu,"
		  "\"handler_us\":%llu,\"worker\":%u,\"requests\":%u,\"route\":\"",
	    record->version, record->status, record->bytes,
	    (unsigned long long)record->duration_us, (unsigned long long)record->handler_us,
	    record->worker, record->served);
	add_escaped(line, span_of(record->route), escape);
	add(line, "\",\"user_agent\":\"");
	add_escaped(line, record->user_agent, escape);
	add(line, "\"}\n");
}

static void format_combined(struct line *line, const struct record *record)
{
	static const char escape[] = "\\x";
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	const char *colon = strrchr(record->peer, ':');
	unsigned milliseconds;
	struct tm tm = now_utc(&milliseconds);

	add(line, "%.*s - - [%02d/%.3s/%d:%02d:%02d:%02d +0000] \"", (int)(colon - record->peer),
	    record->peer, tm.tm_mday, months + 3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour,
	    tm.tm_min, tm.tm_sec);
	add_escaped(line, record->method, escape);
	add(line, " ");
	add_escaped(line, record->target, escape);
	add(line, " HTTP/1.%d\" %d %zu \"", record->version, record->status, record->bytes);
	add_escaped(line, record->referer, escape);
	add(line, "\" \"");
	add_escaped(line, record->user_agent, escape);
	add(line, "\" %llu %llu %u %u\n", (unsigned long long)record->duration_us,
	    (unsigned long long)record->handler_us, record->worker, record->served);
}

void access_log_add(struct access_log *log, const struct conn *conn, const struct request *request,
		    int status, size_t bytes)
{
	struct record record;
	struct line line;

	if (!is_sampled(log))
		return;
	fill(&record, conn, request, status, bytes);
	line.len = 0;
	if (log->engine->config->access_log_format == CONFIG_ACCESS_JSON)
		format_json(&line, &record);
	else
		format_combined(&line, &record);
	if (log->len + line.len > log->room)
		flush(log);
	memcpy(log->buffer + log->len, line.text, line.len);
	log->len += line.len;
	log->lines++;
	if (!ev_is_active(&log->timer)) {
		ev_timer_set(&log->timer, FLUSH_AFTER, 0.);
		ev_timer_start(log->engine->loop, &log->timer);
	}
}
