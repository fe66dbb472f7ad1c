/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "conn.h"

#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "conn_parts.h"
#include "conn_slab.h"
#include "engine.h"
#include "probes.h"
#include "request.h"
#include "respond.h"
#include "route.h"

enum {
	COPY_REST_MAX = REQUEST_READ_SIZE / 2, /* of a request, copied out of the shared read buffer */
	ARENA_HELD_MAX = 262144, /* arena memory that unsent responses may refer to */
	REQUESTS_AT_ONCE = 32,   /* of one connection; then the others have their turn */
	OUTPUT_AT_ONCE = 65536,  /* the same in octets of answers */
};

/* A part of a request stays with the connection: small ones leave the shared buffer, large ones
 * take it along. */
static int hold_rest(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	size_t rest = request->len - request->pos;

	if (conn->request != request && rest <= COPY_REST_MAX) {
		struct request *own = request_get(engine->pool, rest + 1);

		if (!own || request_copy_rest(own, request) < 0) {
			request_put(engine->pool, own);
			return -1;
		}
		own->conn = conn;
		conn->request = own;
		return 0;
	}
	if (request->pos > 0) {
		memmove(request->buf, request->buf + request->pos, rest);
		request->pos = 0;
		request->len = rest;
	}
	return conn_hold(conn, request);
}

bool conn_keep_rest(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	bool shared = conn->request != request;

	if (hold_rest(conn, request) < 0) {
		conn_out_of_memory(conn);
		return false;
	}
	if (shared && engine->current == request)
		request_reset(request);
	return true;
}

/* All that was read is answered and sent: the connection waits for more. */
static void rest(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	size_t left = request->len - request->pos;
	bool empty = left == request->http.start; /* nothing, or empty lines */

	if (empty) {
		if (conn->request)
			conn_release(conn);
		else
			request_reset(engine->current);
		conn_set_state(conn, CONN_IDLE);
		if (engine->mode == ENGINE_CLOSING) {
			conn_retire(conn);
			return;
		}
		timeout_start(&conn->timeout, &engine->keepalive, engine->now_ns);
	} else {
		uint64_t since = request->received_ns;

		if (!conn_keep_rest(conn, request))
			return;
		if (conn->state != CONN_READING || conn->timeout.since_ns != since)
			timeout_start(&conn->timeout, &engine->request, since);
		conn_set_state(conn, CONN_READING);
	}
	conn_watch(conn, EV_READ);
}

static void become_pending(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	struct timeout_list *list = request->route->timeout_list;

	if (conn_hold(conn, request) < 0) {
		conn_out_of_memory(conn);
		return;
	}
	conn_set_state(conn, CONN_PENDING);
	timeout_stop(&conn->timeout);
	if (list)
		timeout_start(&conn->timeout, list, engine->now_ns);
	if (conn_flush(conn, request))
		conn_watch(conn, request->len < request->cap ? EV_READ : 0);
}

void conn_refuse(struct conn *conn, struct request *request, int status)
{
	struct engine *engine = conn->io.data;

	engine_count(engine, COUNTER_requests, 1);
	conn->served++;
	conn->closing = conn->linger = true;
	respond_error(conn, request, status);
}

static void send_continue(struct engine *engine, struct request *request)
{
	static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";

	if (request->http.head_len == 0 || !request->http.expect_continue)
		return;
	request->http.expect_continue = false;
	if (request->http.body_len > 0 || request->continued)
		return;
	request->continued = true;
	output_copy(&engine->output, line, sizeof line - 1);
}

/* There is more than one connection may have at a time: it goes on where it is, behind the others
 * that wait for that. */
static void take_turns(struct conn *conn, struct request *request)
{
	if (conn->request == request || conn_keep_rest(conn, request))
		conn_take_turns(conn);
}

void conn_advance(struct engine *engine, struct request *request)
{
	request->pos += request->used;
	request->used = 0;
	request->received_ns = request->read_ns;
	http_request_init(&request->http, &engine->limits);
}

/* Handles the next request that is whole.  False: there is none, or it is pending. */
static bool process_one(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	enum http_progress progress =
		http_request_feed(&request->http, request->buf + request->pos,
				  request->len - request->pos, &request->used);

	if (progress == HTTP_MORE) {
		request->len = request->pos + request->used;
		send_continue(engine, request);
		return false;
	}
	if (progress == HTTP_BAD) {
		conn_refuse(conn, request, request->http.status);
		return false;
	}
	if (!respond_handle(conn, request))
		return false;
	conn_advance(engine, request);
	return true;
}

void conn_process(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	unsigned left = REQUESTS_AT_ONCE;

	if (request->state == REQUEST_ANSWERED) {
		respond(conn, request);
		conn_advance(engine, request);
	} else if (request->state == REQUEST_PENDING) { /* earlier output is out */
		become_pending(conn, request);
		return;
	}
	while (request->pos < request->len && !conn->closing) {
		if (left-- == 0 || engine->output.len > OUTPUT_AT_ONCE) {
			if (conn_flush(conn, request))
				take_turns(conn, request);
			return;
		}
		if ((!output_has_room(&engine->output) || request->arena.used > ARENA_HELD_MAX) &&
		    !conn_flush(conn, request))
			return;
		if (!process_one(conn, request))
			break;
	}
	if (request->state == REQUEST_PENDING) {
		become_pending(conn, request);
		return;
	}
	if (!conn_flush(conn, request))
		return;
	if (!conn->closing) {
		rest(conn, request);
		return;
	}
	if (!conn->request)
		request_reset(engine->current);
	conn_finish(conn);
}

void conn_answered(struct conn *conn)
{
	/* Else earlier output is still on its way; once it is out, this goes on. */
	if (conn->request->out_count == 0) {
		timeout_stop(&conn->timeout);
		conn_process(conn, conn->request);
	}
}

void conn_on_event(struct conn *conn)
{
	static void (*const by_state[])(struct conn *) = {
		[CONN_IDLE] = conn_on_readable,
		[CONN_READING] = conn_on_readable,
		[CONN_PENDING] = conn_on_pending_readable,
		[CONN_SENDING] = conn_on_writable,
		[CONN_LINGERING] = conn_on_lingering,
		[CONN_PROXIED] = conn_on_proxy_header,
	};

	by_state[conn->state](conn);
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
	struct conn *conn = (struct conn *)io;
	struct engine *engine = conn->io.data;

	(void)loop;
	if (events & EV_ERROR) {
		conn_unwatched(conn);
		return;
	}
	conn->heard = true;
	if ((conn->served == 0 || conn->request || conn->closing) &&
	    conn_lets_others_go_first(conn))
		return;
	engine->processing = conn;
	conn_on_event(conn);
	engine->processing = NULL;
}

static void conn_init(struct conn *conn, struct engine *engine, int fd)
{
	ev_io_init(&conn->io, on_io, fd, EV_READ);
	conn->io.data = engine;
}

void conn_choose_clock(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	conn->stamped = !conn->unlisted && conn->peer.family != AF_UNIX &&
			engine->config->listens[conn->listener].arrival_clock ==
				CONFIG_ARRIVAL_KERNEL;
}

int conn_open(struct engine *engine, int fd, const struct peer *peer, unsigned listener)
{
	struct conn *conn = conn_slab_get();

	if (!conn) {
		close(fd);
		return -1;
	}
	conn_init(conn, engine, fd);
	conn->peer = *peer;
	conn->listener = (uint16_t)listener;
	conn->taken_ns = engine->now_ns;
	conn_choose_clock(conn);
	conn_watch(conn, EV_READ);
	if (engine->config->listens[listener].proxy_protocol) {
		conn_set_state(conn, CONN_PROXIED);
		timeout_start(&conn->timeout, &engine->request, engine->now_ns);
	} else {
		timeout_start(&conn->timeout, &engine->keepalive, engine->now_ns);
	}
	engine_count(engine, COUNTER_accept, 1);
	PROBE(accept, fd, listener);
	return 0;
}

/* Moving. */

struct conn *conn_take_over(struct engine *engine, int fd)
{
	struct conn *conn = conn_slab_get();

	if (!conn)
		return NULL;
	conn_init(conn, engine, fd);
	conn_gauge_add(&engine->slot->active, 1);
	engine_count(engine, COUNTER_moved_in, 1);
	PROBE(moved_in, fd);
	return conn;
}

void conn_adopt(struct conn *conn, struct request *request)
{
	conn->request = request;
	if (!request)
		return;
	request->conn = conn;
	conn_set_state(conn, request->out_count > 0 ? CONN_SENDING : CONN_READING);
}

void conn_resume(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	struct request *request = conn->request;

	if (!request) {
		conn_watch(conn, EV_READ);
		timeout_start(&conn->timeout, &engine->keepalive, engine->now_ns);
		if (conn->unlisted && !engine->trial)
			conn_retire(conn);
	} else if (conn->state == CONN_SENDING) {
		request->unacknowledged = conn_unacknowledged(conn);
		conn_watch(conn, EV_WRITE);
		timeout_start(&conn->timeout, &engine->send, engine->now_ns);
	} else {
		timeout_start(&conn->timeout, &engine->request, request->received_ns);
		conn_process(conn, request);
	}
}

void conn_forget(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	/* Else its next event would make libev rebuild its whole set. */
	epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, conn->io.fd, NULL);
	conn_drop(conn);
}
