/* SPDX-License-Identifier: MIT */
/* The functions of whitecap.h. */
#include "autoconf.h"

#include <stdio.h>
#include <string.h>

#include "conn.h"
#include "engine.h"
#include "http_response.h"
#include "log.h"
#include "origin.h"
#include "output.h"
#include "request.h"
#include "route.h"

static struct wc_span span_in(const struct request *request, struct http_span span)
{
	return (struct wc_span){request->buf + request->pos + span.at, span.len};
}

struct wc_span wc_method(struct wc_request *req)
{
	struct request *request = request_of(req);

	return request ? span_in(request, request->http.method) : (struct wc_span){0};
}

struct wc_span wc_target(struct wc_request *req)
{
	struct request *request = request_of(req);

	return request ? span_in(request, request->http.target) : (struct wc_span){0};
}

struct wc_span wc_path(struct wc_request *req)
{
	struct request *request = request_of(req);

	if (!request)
		return (struct wc_span){0};
	return request->http.path.len ? span_in(request, request->http.path) : span_of("/");
}

struct wc_span wc_query(struct wc_request *req)
{
	struct request *request = request_of(req);

	return request && request->http.query.at ? span_in(request, request->http.query)
						 : (struct wc_span){0};
}

struct wc_span wc_body(struct wc_request *req)
{
	struct request *request = request_of(req);

	return request ? request_body(request) : (struct wc_span){0};
}

int wc_version(struct wc_request *req)
{
	struct request *request = request_of(req);

	return request ? request->http.version : 0;
}

struct wc_span wc_get_header(struct wc_request *req, const char *name)
{
	struct request *request = request_of(req);
	size_t len = strlen(name);

	for (uint32_t i = 0; request && i < request->http.field_count; i++) {
		const struct http_field *field = &request->http.fields[i];

		if (field->name.len == len && span_is_case(span_in(request, field->name), name))
			return span_in(request, field->value);
	}
	return (struct wc_span){0};
}

bool wc_get_header_at(struct wc_request *req, size_t index, struct wc_span *name,
		      struct wc_span *value)
{
	struct request *request = request_of(req);

	if (!request || index >= request->http.field_count)
		return false;
	*name = span_in(request, request->http.fields[index].name);
	*value = span_in(request, request->http.fields[index].value);
	return true;
}

const char *wc_peer(struct wc_request *req)
{
	static char text[PEER_TEXT];
	struct request *request = request_of(req);
	struct peer peer;

	if (!request || !request->conn)
		return "";
	origin_find(request->conn, request, &peer);
	return peer_text(&peer, text);
}

uint64_t wc_received(struct wc_request *req)
{
	struct request *request = request_of(req);

	return request ? request->received_ns : 0;
}

int64_t wc_remaining(struct wc_request *req)
{
	struct request *request = request_of(req);
	uint64_t now;

	if (!request)
		return 0;
	if (!request->deadline_ns)
		return INT64_MAX;
	now = engine_clock();
	return request->deadline_ns > now ? (int64_t)(request->deadline_ns - now) : 0;
}

void *wc_state(struct wc_request *req)
{
	struct request *request = request_of(req);

	return request && request->route ? request->route->state : NULL;
}

struct wc_worker *wc_worker(struct wc_request *req)
{
	struct request *request = request_of(req);

	/* The routes are the worker's own; a handler may use what init was given. */
	return request && request->route ? (struct wc_worker *)&request->route->worker : NULL;
}

/* The answer. */

/* The first mistake counts: the request will be answered 500. */
static int mistake(struct request *request, const char *what)
{
	if (!request->mistake)
		request->mistake = what;
	return WC_ERROR;
}

/* A handler's answer, or the mistake in its stead, to a pending request: to be sent at the end of
 * this turn of the loop. */
static void settle(struct request *request)
{
	struct engine *engine = request->engine;

	if (request->state != REQUEST_PENDING)
		return;
	if (!request->conn) { /* nobody waits for it any more */
		request_put(engine->pool, request);
		return;
	}
	request->state = REQUEST_ANSWERED;
	request->next = engine->answered;
	engine->answered = request;
}

/* NULL when no answer is taken any more; then that is the handler's mistake. */
static struct request *answerable(struct wc_request *req)
{
	struct request *request = request_of(req);

	if (!request)
		return NULL;
	if (request->state == REQUEST_CANCELLED) {
		log_error("handler %s: answered a request that was cancelled",
			  request->route->handler->name);
		return NULL;
	}
	if (request->answer.status || request->state == REQUEST_ANSWERED) {
		mistake(request, "answered twice");
		return NULL;
	}
	return request;
}

static int reply_mistake(struct request *request, const char *what)
{
	mistake(request, what);
	settle(request);
	return WC_ERROR;
}

static int reply(struct request *request, int status, struct iovec *iov, int count, size_t len)
{
	if (status < 200 || status > 599)
		return reply_mistake(request, "answered with a status outside of 200 to 599");
	if (len > 0 && !http_has_body(status))
		return reply_mistake(request, "answered 204 or 304 with a body");
	request->answer.status = status;
	request->answer.iov = iov;
	request->answer.count = count;
	request->answer.len = len;
	settle(request);
	return WC_DONE;
}

int wc_reply(struct wc_request *req, int status, const void *body, size_t len)
{
	struct request *request = answerable(req);

	if (!request)
		return WC_ERROR;
	if (len > 0 && !body)
		return reply_mistake(request, "answered with a body that is NULL");
	request->answer.one = (struct iovec){(void *)(uintptr_t)body, len};
	return reply(request, status, &request->answer.one, 1, len);
}

int wc_reply_copy(struct wc_request *req, int status, const void *body, size_t len)
{
	struct request *request = answerable(req);
	void *copy;

	if (!request)
		return WC_ERROR;
	if (len > 0 && !body)
		return reply_mistake(request, "answered with a body that is NULL");
	/* Above what a handler may ask for: a copy is the server's own matter. */
	request->arena.limit = SIZE_MAX;
	copy = arena_alloc(&request->arena, len);
	if (!copy)
		return reply_mistake(request, "answered with a body for which there is no memory");
	if (len > 0)
		memcpy(copy, body, len);
	request->answer.one = (struct iovec){copy, len};
	return reply(request, status, &request->answer.one, 1, len);
}

/* More pieces than one system call takes are put together. */
static int reply_joined(struct request *request, int status, const struct iovec *iov, int count,
			size_t len)
{
	char *copy = arena_alloc(&request->arena, len), *at = copy;

	if (!copy)
		return reply_mistake(request, "answered with pieces for which there is no memory");
	for (int i = 0; i < count; at += iov[i].iov_len, i++)
		memcpy(at, iov[i].iov_base, iov[i].iov_len);
	request->answer.one = (struct iovec){copy, len};
	return reply(request, status, &request->answer.one, 1, len);
}

int wc_reply_iov(struct wc_request *req, int status, const struct iovec *iov, int count)
{
	struct request *request = answerable(req);
	struct iovec *copy;
	size_t len = 0;

	if (!request)
		return WC_ERROR;
	if (count < 0)
		return reply_mistake(request, "answered with fewer than 0 pieces");
	for (int i = 0; i < count; i++)
		len += iov[i].iov_len;
	request->arena.limit = SIZE_MAX;
	if (count > OUTPUT_PIECES_MAX)
		return reply_joined(request, status, iov, count, len);
	copy = arena_alloc(&request->arena, (size_t)count * sizeof *copy);
	if (!copy)
		return reply_mistake(request, "answered with pieces for which there is no memory");
	memcpy(copy, iov, (size_t)count * sizeof *copy);
	return reply(request, status, copy, count, len);
}

/* Fields that say what only the server knows. */
static bool is_servers_own(struct wc_span name)
{
	static const struct wc_span names[] = {
		{"Date", 4},        {"Connection", 10},        {"Content-Length", 14},
		{"Keep-Alive", 10}, {"Transfer-Encoding", 17}, {"Trailer", 7},
		{"Upgrade", 7},
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (name.len == names[i].len && octet_equal_case(name.ptr, names[i].ptr, name.len))
			return true;
	return false;
}

/* Room for `len` more octets of fields. */
static char *fields_room(struct request *request, size_t len)
{
	size_t cap = request->fields_cap;
	char *grown;

	if (request->fields_len + len > OUTPUT_FIELDS_MAX)
		return NULL;
	if (request->fields_len + len > cap) {
		while (cap < request->fields_len + len)
			cap *= 2;
		grown = arena_alloc(&request->arena, cap);
		if (!grown)
			return NULL;
		memcpy(grown, request->fields, request->fields_len);
		request->fields = grown;
		request->fields_cap = cap;
	}
	return request->fields + request->fields_len;
}

int wc_header_span(struct wc_request *req, struct wc_span name, struct wc_span value)
{
	struct request *request = answerable(req);
	size_t len = name.len + value.len + 4;
	char *line;

	if (!request)
		return -1;
	if (!http_is_field_name(name.ptr, name.len))
		return mistake(request, "set a field whose name is no token");
	if (!http_is_field_value(value.ptr, value.len))
		return mistake(request, "set a field whose value holds a control octet");
	if (is_servers_own(name))
		return mistake(request, "set a field that is the server's own");
	line = fields_room(request, len);
	if (!line)
		return mistake(request, "set fields of more than 16 KiB");
	memcpy(line, name.ptr, name.len);
	memcpy(line + name.len, ": ", 2);
	memcpy(line + name.len + 2, value.ptr, value.len);
	memcpy(line + len - 2, "\r\n", 2);
	request->fields_len += len;
	return 0;
}

int wc_header(struct wc_request *req, const char *name, const char *value)
{
	return wc_header_span(req, span_of(name), span_of(value));
}

int wc_reason(struct wc_request *req, const char *reason)
{
	struct request *request = answerable(req);
	size_t len = strlen(reason);
	char *copy;

	if (!request)
		return -1;
	if (!http_is_field_value(reason, len))
		return mistake(request, "set a reason that holds a control octet");
	/* In the room of the fields, which is checked and sent with them. */
	if (len > OUTPUT_FIELDS_MAX / 2 - request->fields_len / 2 ||
	    !(copy = arena_alloc(&request->arena, len + 1)))
		return mistake(request, "set a reason that is too long");
	memcpy(copy, reason, len);
	request->reason = (struct wc_span){copy, len};
	return 0;
}

void *wc_alloc(struct wc_request *req, size_t size)
{
	struct request *request = request_of(req);

	return request ? arena_alloc(&request->arena, size) : NULL;
}

void wc_on_cancel(struct wc_request *req, void (*cancel)(struct wc_request *req, void *data),
		  void *data)
{
	struct request *request = request_of(req);

	if (!request)
		return;
	request->cancel = cancel;
	request->cancel_data = data;
}

/* The worker. */

struct ev_loop *wc_loop(struct wc_worker *worker)
{
	return worker->loop;
}

unsigned wc_worker_id(struct wc_worker *worker)
{
	return worker->args->number;
}

static char last_error[512];

const char *api_last_error(void)
{
	return last_error;
}

void api_forget_error(void)
{
	last_error[0] = '\0';
}

void wc_log(struct wc_worker *worker, enum wc_log_level level, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (level == WC_LOG_ERROR)
		snprintf(last_error, sizeof last_error, "%.500s", text);
	log_line((enum log_level)level, "handler %s (route %s): %s",
		 worker->route->handler ? worker->route->handler->name : "?", worker->route->path,
		 text);
}

static bool is_counter(const struct scoreboard_user_counter *slot, const char *route,
		       const char *name)
{
	return strncmp(slot->name, name, sizeof slot->name - 1) == 0 &&
	       strncmp(slot->route, route, sizeof slot->route - 1) == 0;
}

struct wc_counter *wc_counter(struct wc_worker *worker, const char *name)
{
	static struct wc_counter not_shown;
	struct scoreboard_slot *slot = &worker->args->scoreboard->slot[worker->args->slot];

	if (!worker->engine || !*name) /* the proving child counts for nobody */
		return &not_shown;
	for (size_t i = 0; i < SCOREBOARD_USER_COUNTERS; i++) {
		struct scoreboard_user_counter *counter = &slot->user[i];

		if (!counter->name[0]) {
			snprintf(counter->route, sizeof counter->route, "%s", worker->route->path);
			snprintf(counter->name, sizeof counter->name, "%s", name);
		}
		if (is_counter(counter, worker->route->path, name))
			return &counter->counter;
	}
	wc_log(worker, WC_LOG_WARN, "no room for the counter \"%s\": a worker has %d", name,
	       SCOREBOARD_USER_COUNTERS);
	return &not_shown;
}

void wc_count(struct wc_counter *counter, uint64_t n)
{
	scoreboard_add(&counter->value, n);
}
