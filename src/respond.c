/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "respond.h"

#include <stdio.h>

#include "access_log.h"
#include "admission.h"
#include "conn.h"
#include "engine.h"
#include "http_response.h"
#include "log.h"
#include "probes.h"
#include "request.h"
#include "route.h"

enum {
	ALLOW_MAX = 512,
	ERROR_BODY_MAX = 64,
};

static void count_response(struct engine *engine, const struct route *route, int status)
{
	int class = status / 100;

	engine_count(engine, COUNTER_responses_2xx + class - 2, 1);
	if (route && route->counts)
		scoreboard_add(&route->counts->responses[class], 1);
}

static enum http_connection connection_field(const struct conn *conn, const struct request *request)
{
	if (conn->closing)
		return HTTP_CONNECTION_CLOSE;
	return request->http.version == 10 ? HTTP_CONNECTION_KEEP_ALIVE : HTTP_CONNECTION_NONE;
}

/* A worker that drains, or soon will, closes after the last request that it has read. */
static bool is_last(const struct engine *engine, const struct request *request)
{
	return engine->farewell && request->pos + request->used == request->len;
}

/* Puts head and body into the output. */
static void put(struct conn *conn, struct request *request, int status, struct wc_span fields,
		struct wc_span reason, const struct answer *answer)
{
	struct engine *engine = conn->io.data;
	struct output *output = &engine->output;
	struct http_head head = {.status = status,
				 .reason = reason,
				 .fields = fields,
				 .content_length = answer->len,
				 .date = engine_date(engine)};

	if (is_last(engine, request))
		conn->closing = conn->linger = true;
	head.connection = connection_field(conn, request);

	output_wrote(output, http_response_head(output_tail(output), &head));
	if (!request->http.is_head && http_has_body(status))
		output_body(output, answer->iov, answer->count, answer->len);
	count_response(engine, request->route, status);
	latency_put(&engine->latency, request->route ? request->route->times : NULL,
		    request->received_ns);
	if (engine->access_log)
		access_log_add(engine->access_log, conn, request, status, answer->len);
}

/* `field` is a ready line, or empty. */
static void put_error(struct conn *conn, struct request *request, int status, const char *field)
{
	char body[ERROR_BODY_MAX], fields[ALLOW_MAX + 64];
	int len = snprintf(body, sizeof body, "%d %s\n", status, http_reason(status));
	struct iovec piece = {body, (size_t)len};
	struct answer answer = {.len = (size_t)len, .iov = &piece, .count = 1};

	snprintf(fields, sizeof fields, "Content-Type: text/plain\r\n%s", field);
	put(conn, request, status, span_of(fields), (struct wc_span){0}, &answer);
}

static void end(struct engine *engine, struct request *request)
{
	request_end(request, REQUEST_END_ANSWERED);
	if (!engine->output.refers)
		arena_reset(&request->arena);
}

void respond_error(struct conn *conn, struct request *request, int status)
{
	put_error(conn, request, status, "");
	end(conn->io.data, request);
}

/* The answer that stands for a handler's. */
static void put_unheard(struct conn *conn, struct request *request, int status)
{
	static const struct answer nothing;

	if (http_has_body(status))
		put_error(conn, request, status,
			  status == 415 ? "Accept-Encoding: gzip, deflate\r\n" : "");
	else
		put(conn, request, status, (struct wc_span){0}, (struct wc_span){0}, &nothing);
}

static void count_late(struct engine *engine, const struct request *request)
{
	if (latency_now(&engine->latency) <= request->deadline_ns)
		return;
	engine_count(engine, COUNTER_late, 1);
	if (request->route->counts)
		scoreboard_add(&request->route->counts->late, 1);
}

static void log_mistake(const struct request *request)
{
	static struct log_limit limit;

	if (!engine_may_log(request->engine, &limit))
		return;
	log_error("handler %s (route %s): %s; answered 500", request->route->handler->name,
		  request->route->path, request->mistake);
}

void respond(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;

	request->handler_ns =
		latency_handled(&engine->latency, request->route->times, request->handled_ticks);
	PROBE(request, conn->io.fd, request->route->path, request->handler_ns);
	if (request->deadline_ns)
		count_late(engine, request);
	if (request->print)
		quarantine_clear(&engine->args->scoreboard->quarantine, request->print);
	if (request->arena.overflow && !request->mistake)
		request->mistake = "needed more memory than wc_alloc() has";
	if (!request->answer.status && !request->mistake)
		request->mistake = "gave no answer";
	if (request->mistake) {
		log_mistake(request);
		put_error(conn, request, 500, "");
	} else {
		put(conn, request, request->answer.status,
		    (struct wc_span){request->fields, request->fields_len}, request->reason,
		    &request->answer);
	}
	end(engine, request);
}

/* Whether the connection goes on after this request. */
static void decide_keep_alive(struct conn *conn, const struct request *request)
{
	struct engine *engine = conn->io.data;
	uint64_t limit = engine->config->keepalive_requests;

	conn->served++;
	conn->closing = !request->http.keep_alive;
	if (conn->unlisted && !engine->trial)
		conn->closing = conn->linger = true;
	if (limit && conn->served >= limit) {
		engine_count(engine, COUNTER_max_keepalive, 1);
		PROBE(max_keepalive, conn->io.fd, conn->served);
		conn->closing = conn->linger = true;
	}
}

/* The handler may keep the request: then another one must be there to take its place. */
static bool has_spare(struct engine *engine, struct request *request)
{
	if (!engine->spare) {
		engine->starting = request;
		engine->spare = request_get(engine->pool, REQUEST_READ_SIZE);
		engine->starting = NULL;
	}
	return engine->spare;
}

/* The client's own deadline may come earlier. */
static void set_deadline(struct request *request, uint64_t deadline_ns)
{
	if (request->deadline_ns == 0 || deadline_ns < request->deadline_ns)
		request->deadline_ns = deadline_ns;
}

/* True: the handler has answered, well or not. */
static bool run(struct conn *conn, struct request *request, const struct route *route)
{
	struct engine *engine = conn->io.data;
	int result;

	request->conn = conn;
	request->state = REQUEST_HANDLING;
	request->handler_name = route->handler->name;
	request->handled_ns = engine->now_ns;
	if (route->timeout_ns)
		set_deadline(request, engine->now_ns + route->timeout_ns);
	request->arena.limit = request->arena.used + REQUEST_ARENA_MAX;
	engine->running = request;
	if (engine->turn_limit_ms)
		engine_begin_turn(engine, route->timeout_ns / 1000000);
	request->handled_ticks = ticks_now();
	result = route->handler->handle(request_ticket(request), route->state);
	if (engine->turn_limit_ms)
		engine_begin_turn(engine, engine->turn_limit_ms);
	engine->running = NULL;
	if (result != WC_DONE && result != WC_PENDING && !request->mistake)
		request->mistake = "returned an error";
	if (request->answer.status || request->mistake)
		return true;
	if (result == WC_PENDING) {
		request->state = REQUEST_PENDING;
		return false;
	}
	request->mistake = "returned WC_DONE without an answer";
	return true;
}

static void log_quarantined(const struct request *request, uint64_t until_ns)
{
	static struct log_limit limit;
	const struct http_request *http = &request->http;
	const char *base = request->buf + request->pos;
	uint64_t now_ns = request->engine->now_ns;

	if (engine_may_log(request->engine, &limit))
		log_error("handler %s (route %s): not called for %.*s %.*s, which crashed it or "
			  "hung twice in a row; answered 500 for %.1f s more",
			  request->route->handler->name, request->route->path,
			  (int)http->method.len, base + http->method.at, (int)http->target.len,
			  base + http->target.at,
			  until_ns > now_ns ? (double)(until_ns - now_ns) / 1e9 : 0);
}

/* Whether it has crashed workers again and again.  Looked for only while there are such requests of
 * its size. */
static bool is_quarantined(struct engine *engine, struct request *request)
{
	struct quarantine *quarantine = &engine->args->scoreboard->quarantine;
	struct quarantine_request octets;
	uint64_t until_ns;

	if (!quarantine_is_used(quarantine, engine->now_ns))
		return false;
	octets = request_octets(request);
	if (!quarantine_has_size(quarantine, &octets, engine->now_ns))
		return false;
	request->print = quarantine_print(&octets);
	until_ns = quarantine_holds(quarantine, request->print, engine->now_ns);
	if (until_ns == 0)
		return false;
	engine_count(engine, COUNTER_quarantined, 1);
	log_quarantined(request, until_ns);
	return true;
}

bool respond_handle(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	const struct http_request *http = &request->http;
	const char *base = request->buf + request->pos;
	struct wc_span path = {base + http->path.at, http->path.len};
	struct wc_span method = {base + http->method.at, http->method.len};
	const struct route *route;
	char allow[ALLOW_MAX], field[ALLOW_MAX + 16];
	int status;

	engine_count(engine, COUNTER_requests, 1);
	decide_keep_alive(conn, request);
	if (path.len == 0)
		path = (struct wc_span){"/", 1};
	switch (routes_find(engine->routes, path, method, &route, allow, sizeof allow)) {
	case ROUTE_FOUND:
		request->route = route;
		if (route->counts)
			scoreboard_add(&route->counts->requests, 1);
		if (route->screened && (status = admission_decide(request))) {
			put_unheard(conn, request, status);
			break;
		}
		if (is_quarantined(engine, request)) {
			put_error(conn, request, 500, "");
			break;
		}
		if (!has_spare(engine, request)) {
			put_error(conn, request, 503, "");
			break;
		}
		if (!run(conn, request, route))
			return false;
		respond(conn, request);
		return true;
	case ROUTE_METHOD_NOT_ALLOWED:
		snprintf(field, sizeof field, "Allow: %s\r\n", allow);
		put_error(conn, request, 405, field);
		break;
	default:
		put_error(conn, request, 404, "");
	}
	end(engine, request);
	return true;
}
