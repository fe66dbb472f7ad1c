/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "conn.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "conn_slab.h"
#include "engine.h"
#include "log.h"
#include "probes.h"
#include "proxy_header.h"
#include "request.h"
#include "respond.h"
#include "route.h"
#include "stamped.h"

enum {
	COPY_REST_MAX = REQUEST_READ_SIZE / 2, /* of a request, copied out of the shared read buffer */
	ARENA_HELD_MAX = 262144, /* arena memory that unsent responses may refer to */
	READ_MIN = 1024,         /* octets that a read has room for */
	ANNOUNCED_MAX = 32768,   /* octets that are reserved for a request before they come */
	REQUESTS_AT_ONCE = 32,   /* of one connection; then the others have their turn */
	OUTPUT_AT_ONCE = 262144, /* the same in octets of answers */
};

static void conn_process(struct conn *conn, struct request *request);
static void retire(struct conn *conn);

/* States. */

static void gauge_add(_Atomic uint64_t *gauge, int n)
{
	scoreboard_add(gauge, (uint64_t)(int64_t)n);
}

static void set_state(struct conn *conn, enum conn_state state)
{
	struct engine *engine = conn->io.data;

	if ((conn->state == CONN_IDLE) != (state == CONN_IDLE))
		gauge_add(&engine->slot->busy, state == CONN_IDLE ? -1 : 1);
	conn->state = (uint8_t)state;
}

static void watch(struct conn *conn, int events)
{
	struct engine *engine = conn->io.data;

	if (ev_is_active(&conn->io) && (conn->io.events & (EV_READ | EV_WRITE)) == events)
		return;
	ev_io_stop(engine->loop, &conn->io);
	ev_io_modify(&conn->io, events);
	if (events)
		ev_io_start(engine->loop, &conn->io);
}

/*
 * The handler of a pending request is told that it is over, and the request ends.  One that can't
 * be told keeps its request until it answers.
 */
static void cancel(struct conn *conn)
{
	struct request *request = conn->request;

	if (!request->cancel) {
		request->conn = NULL;
		conn->request = NULL;
		return;
	}
	request->state = REQUEST_CANCELLED;
	request->cancel(request_ticket(request), request->cancel_data);
	request_end(request, REQUEST_END_CANCELLED);
}

/* Gives back what the connection holds of a request. */
static void release(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	struct request *request = conn->request;

	if (!request)
		return;
	if (request->state == REQUEST_ANSWERED) { /* in the engine's list, and dropped there */
		request->conn = NULL;
		conn->request = NULL;
		return;
	}
	if (request->state == REQUEST_PENDING)
		cancel(conn);
	if (conn->request) {
		conn->request = NULL;
		request_put(engine->pool, request);
	}
}

static void drop(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	ev_io_stop(engine->loop, &conn->io);
	timeout_stop(&conn->timeout);
	release(conn);
	if (conn->state != CONN_IDLE)
		gauge_add(&engine->slot->busy, -1);
	close(conn->io.fd);
	gauge_add(&engine->slot->active, -1);
	conn_slab_put(conn);
}

static void conn_close(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	engine_count(engine, COUNTER_close, 1);
	PROBE(close, conn->io.fd);
	PROBE(stats, conn->io.fd, conn->served, engine->now_ns - conn->taken_ns);
	drop(conn);
}

/* Shuts our side and reads on until the client has closed its own, so that no reset loses our last
 * octets. */
static void linger(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	release(conn);
	if (shutdown(conn->io.fd, SHUT_WR) < 0) {
		conn_close(conn);
		return;
	}
	set_state(conn, CONN_LINGERING);
	timeout_start(&conn->timeout,
		      engine->mode != ENGINE_SERVING ? &engine->drain_linger : &engine->linger,
		      engine->now_ns);
	watch(conn, EV_READ);
}

static void finish(struct conn *conn)
{
	if (conn->linger)
		linger(conn);
	else
		conn_close(conn);
}

static void send_failed(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	engine_count(engine, COUNTER_send_error, 1);
	PROBE(send_error, conn->io.fd, errno);
	log_debug("send: %s", strerror(errno));
	conn_close(conn);
}

static void out_of_memory(struct conn *conn)
{
	log_error("out of memory for a connection's request; closed");
	conn_close(conn);
}

/* Makes the engine's current request the connection's own, and another one the current. */
static int hold(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	struct request *next;

	request->conn = conn;
	if (conn->request == request)
		return 0;
	next = engine->spare ? engine->spare : request_get(engine->pool, REQUEST_READ_SIZE);
	if (!next)
		return -1;
	engine->spare = NULL;
	engine->current = next;
	conn->request = request;
	return 0;
}

/* Output. */

/* Octets of the output that the client has not acknowledged; -1: unknown. */
static int unacknowledged(const struct conn *conn)
{
	int octets;

	return ioctl(conn->io.fd, SIOCOUTQ, &octets) == 0 ? octets : -1;
}

/* What the kernel did not take is kept in the request: buffers' contents copied, bodies referred
 * to. */
static int hold_output(struct conn *conn, struct request *request, struct iovec *iov, int count)
{
	struct engine *engine = conn->io.data;
	const char *buffer = engine->output.buffer;

	if (hold(conn, request) < 0)
		return -1;
	request->arena.limit = SIZE_MAX;
	request->out = arena_alloc(&request->arena, (size_t)count * sizeof *iov);
	if (!request->out)
		return -1;
	for (int i = 0; i < count; i++) {
		char *at = iov[i].iov_base;

		request->out[i] = iov[i];
		if (at < buffer || at >= buffer + OUTPUT_BUFFER)
			continue;
		request->out[i].iov_base = arena_alloc(&request->arena, iov[i].iov_len);
		if (!request->out[i].iov_base)
			return -1;
		memcpy(request->out[i].iov_base, at, iov[i].iov_len);
	}
	request->out_count = count;
	request->unacknowledged = unacknowledged(conn);
	return 0;
}

/* Sends the engine's output.  Unless all of it went, the connection is now SENDING, or gone. */
static bool flush(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	struct output *output = &engine->output;
	struct iovec *iov = output->iov;
	int count = output->count;
	size_t len = output->len;
	ssize_t sent;

	if (len == 0)
		return true;
	sent = output_send(conn->io.fd, &iov, &count);
	if (sent > 0)
		engine_count(engine, COUNTER_bytes_out, (uint64_t)sent);
	if (sent >= 0)
		latency_sent(&engine->latency);
	if ((size_t)sent == len) {
		output_clear(output);
		return true;
	}
	latency_drop(&engine->latency);
	if (sent >= 0 && hold_output(conn, request, iov, count) == 0) {
		output_clear(output);
		set_state(conn, CONN_SENDING);
		timeout_start(&conn->timeout, &engine->send, engine->now_ns);
		watch(conn, EV_WRITE);
		return false;
	}
	output_clear(output);
	if (!conn->request)
		request_reset(engine->current);
	send_failed(conn);
	return false;
}

static void on_writable(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	struct request *request = conn->request;
	ssize_t sent = output_send(conn->io.fd, &request->out, &request->out_count);

	if (sent < 0) {
		send_failed(conn);
		return;
	}
	engine_count(engine, COUNTER_bytes_out, (uint64_t)sent);
	if (request->out_count > 0) {
		if (sent > 0) {
			request->unacknowledged = unacknowledged(conn);
			timeout_start(&conn->timeout, &engine->send, engine->now_ns);
		}
		return;
	}
	request->out = NULL;
	if (request->state == REQUEST_READING)
		arena_reset(&request->arena);
	conn_process(conn, request);
}

/* Reading. */

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
	return hold(conn, request);
}

/* The shared buffer is free again, what is left of it is the connection's own.  False: closed. */
static bool keep_rest(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	bool shared = conn->request != request;

	if (hold_rest(conn, request) < 0) {
		out_of_memory(conn);
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
			release(conn);
		else
			request_reset(engine->current);
		set_state(conn, CONN_IDLE);
		if (engine->mode == ENGINE_CLOSING) {
			retire(conn);
			return;
		}
		timeout_start(&conn->timeout, &engine->keepalive, engine->now_ns);
	} else {
		uint64_t since = request->received_ns;

		if (!keep_rest(conn, request))
			return;
		if (conn->state != CONN_READING)
			timeout_start(&conn->timeout, &engine->request, since);
		set_state(conn, CONN_READING);
	}
	watch(conn, EV_READ);
}

static void become_pending(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	struct timeout_list *list = request->route->timeout_list;

	if (hold(conn, request) < 0) {
		out_of_memory(conn);
		return;
	}
	set_state(conn, CONN_PENDING);
	timeout_stop(&conn->timeout);
	if (list)
		timeout_start(&conn->timeout, list, engine->now_ns);
	if (flush(conn, request))
		watch(conn, request->len < request->cap ? EV_READ : 0);
}

static void refuse(struct conn *conn, struct request *request, int status)
{
	struct engine *engine = conn->io.data;

	engine_count(engine, COUNTER_requests, 1);
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

/*
 * There is more than one connection may have at a time.  It goes on where it is as soon as the client
 * has room for answers, after the others that have something to do.
 */
static void take_turns(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;

	if (conn->request != request && !keep_rest(conn, request))
		return;
	conn->request->unacknowledged = INT_MAX; /* not looked at before its timeout */
	set_state(conn, CONN_SENDING);
	timeout_start(&conn->timeout, &engine->send, engine->now_ns);
	watch(conn, EV_WRITE);
}

/* The request at pos has been answered: on to the next one. */
static void advance(struct engine *engine, struct request *request)
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
		refuse(conn, request, request->http.status);
		return false;
	}
	if (!respond_handle(conn, request))
		return false;
	advance(engine, request);
	return true;
}

/* Goes on with what has been read, as far as the client takes our responses. */
static void conn_process(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	unsigned left = REQUESTS_AT_ONCE;

	if (request->state == REQUEST_ANSWERED) {
		respond(conn, request);
		advance(engine, request);
	} else if (request->state == REQUEST_PENDING) { /* earlier output is out */
		become_pending(conn, request);
		return;
	}
	while (request->pos < request->len && !conn->closing) {
		if (left-- == 0 || engine->output.len > OUTPUT_AT_ONCE) {
			if (flush(conn, request))
				take_turns(conn, request);
			return;
		}
		if ((!output_has_room(&engine->output) || request->arena.used > ARENA_HELD_MAX) &&
		    !flush(conn, request))
			return;
		if (!process_one(conn, request))
			break;
	}
	if (request->state == REQUEST_PENDING) {
		become_pending(conn, request);
		return;
	}
	if (!flush(conn, request))
		return;
	if (!conn->closing) {
		rest(conn, request);
		return;
	}
	if (!conn->request)
		request_reset(engine->current);
	finish(conn);
}

void conn_answered(struct conn *conn)
{
	/* Else earlier output is still on its way; once it is out, this goes on. */
	if (conn->request->out_count == 0) {
		timeout_stop(&conn->timeout);
		conn_process(conn, conn->request);
	}
}

static void on_end_of_input(struct conn *conn)
{
	if (conn->state != CONN_READING) {
		conn_close(conn);
		return;
	}
	timeout_stop(&conn->timeout);
	refuse(conn, conn->request, 400);
	if (flush(conn, conn->request))
		conn_close(conn);
}

/*
 * Room to read into: for a body of known length all that is missing, and an octet to see the end
 * by.  But what was announced counts for little: beyond that, room doubles as octets come.
 */
static int reserve(struct request *request)
{
	const struct http_request *http = &request->http;
	size_t most = request->len + READ_MIN < ANNOUNCED_MAX ? ANNOUNCED_MAX - request->len : READ_MIN;
	uint64_t missing = READ_MIN;

	if (http->phase == HTTP_PHASE_LENGTH)
		missing = http->content_length - http->body_len + 1;
	return request_reserve(request, missing < most ? (size_t)missing : most);
}

static ssize_t receive_stamped(struct conn *conn, struct request *request, size_t room)
{
	struct engine *engine = conn->io.data;
	ssize_t got = stamped_receive(engine, conn->io.fd, request->buf + request->len, room,
				      conn->drained_ns, &request->read_ns);

	if (got > 0 && (size_t)got < room)
		conn->drained_ns = engine->now_ns;
	return got;
}

/* As recv(), behind len. */
static ssize_t receive(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	size_t room = request->cap - request->len;

	if (room > REQUEST_READ_SIZE) /* the others have their turn */
		room = REQUEST_READ_SIZE;
	if (conn->stamped)
		return receive_stamped(conn, request, room);
	request->read_ns = engine->now_ns;
	return recv(conn->io.fd, request->buf + request->len, room, 0);
}

/* What the client has sent is behind len.  0, or below: there is none, or the connection is closed.
 */
static ssize_t read_more(struct conn *conn, struct request *request)
{
	struct engine *engine = conn->io.data;
	ssize_t got;

	if (conn->request && reserve(request) < 0) {
		out_of_memory(conn);
		return -1;
	}
	got = receive(conn, request);
	if (got < 0) {
		if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			conn_close(conn);
		return -1;
	}
	if (got == 0) {
		on_end_of_input(conn);
		return 0;
	}
	engine_count(engine, COUNTER_bytes_in, (uint64_t)got);
	if (request->len == request->pos)
		request->received_ns = request->read_ns;
	request->len += (size_t)got;
	if (request->len == request->cap)
		conn->linger =
			true; /* there may be more in the kernel than the client should lose by */
	return got;
}

static void on_readable(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	struct request *request = conn->request ? conn->request : engine->current;

	if (read_more(conn, request) > 0)
		conn_process(conn, request);
}

/* While a handler has its request, what the client sends next is kept, as far as there is room. */
static void on_pending_readable(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	struct request *request = conn->request;
	ssize_t got = receive(conn, request);

	if (got < 0) {
		if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			conn_close(conn);
		return;
	}
	engine_count(engine, COUNTER_bytes_in, (uint64_t)got);
	request->len += (size_t)got;
	if (got == 0 ||
	    request->len == request->cap) /* the end: a client that shut its side still waits */
		watch(conn, 0);
}

static void on_lingering(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	ssize_t got = recv(conn->io.fd, engine->current->buf, engine->current->cap, 0);

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
		conn_close(conn);
}

/* Nothing is answered before the header is whole: who does not send one is no client.  The timeout
 * began when it was accepted. */
static void on_proxy_header(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	struct request *request = conn->request ? conn->request : engine->current;
	struct proxy_header header;
	enum proxy_progress progress;

	if (read_more(conn, request) <= 0)
		return;
	progress = proxy_header_parse(request->buf, request->len, &header);
	if (progress == PROXY_MORE) {
		keep_rest(conn, request);
		return;
	}
	if (progress == PROXY_BAD) {
		request_reset(request);
		conn_close(conn);
		return;
	}
	if (header.has_peer)
		conn->peer = header.peer;
	request->pos = header.len;
	request->received_ns = request->read_ns;
	timeout_stop(&conn->timeout);
	set_state(conn, CONN_IDLE);
	conn_process(conn, request);
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
	struct conn *conn = (struct conn *)io;
	static void (*const by_state[])(struct conn *) = {
		[CONN_IDLE] = on_readable,
		[CONN_READING] = on_readable,
		[CONN_PENDING] = on_pending_readable,
		[CONN_SENDING] = on_writable,
		[CONN_LINGERING] = on_lingering,
		[CONN_PROXIED] = on_proxy_header,
	};

	struct engine *engine = conn->io.data;

	(void)loop, (void)events;
	engine->processing = conn;
	by_state[conn->state](conn);
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
	watch(conn, EV_READ);
	if (engine->config->listens[listener].proxy_protocol) {
		set_state(conn, CONN_PROXIED);
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
	gauge_add(&engine->slot->active, 1);
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
	set_state(conn, request->out_count > 0 ? CONN_SENDING : CONN_READING);
}

void conn_resume(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	struct request *request = conn->request;

	if (!request) {
		watch(conn, EV_READ);
		timeout_start(&conn->timeout, &engine->keepalive, engine->now_ns);
		if (conn->unlisted && !engine->trial)
			retire(conn);
	} else if (conn->state == CONN_SENDING) {
		request->unacknowledged = unacknowledged(conn);
		watch(conn, EV_WRITE);
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
	drop(conn);
}

/* Timeouts and draining. */

/* An idle connection is to go: a request that is already here is answered first. */
static void retire(struct conn *conn)
{
	char octet;

	timeout_stop(&conn->timeout);
	if (recv(conn->io.fd, &octet, 1, MSG_PEEK) < 0 && errno == EAGAIN)
		linger(conn);
	else
		on_readable(conn);
}

void conn_on_keepalive_expired(struct timeout *timeout, void *data)
{
	struct engine *engine = data;

	engine_count(engine, COUNTER_timeout_keepalive, 1);
	PROBE(timeout, PROBE_KEEPALIVE, conn_of_timeout(timeout)->io.fd);
	retire(conn_of_timeout(timeout));
}

void conn_on_request_expired(struct timeout *timeout, void *data)
{
	struct engine *engine = data;
	struct conn *conn = conn_of_timeout(timeout);

	timeout_stop(timeout);
	engine_count(engine, COUNTER_timeout_request, 1);
	PROBE(timeout, PROBE_REQUEST, conn->io.fd);
	if (conn->state == CONN_PROXIED) {
		conn_close(conn);
		return;
	}
	refuse(conn, conn->request, 408);
	if (flush(conn, conn->request))
		finish(conn);
}

/* 504: the request is over for its client, whatever its handler does. */
void conn_on_handler_expired(struct timeout *timeout, void *data)
{
	struct engine *engine = data;
	struct conn *conn = conn_of_timeout(timeout);
	struct request *request = conn->request, *next = request;
	const struct route *route = request->route;
	uint64_t received_ns = request->received_ns;

	timeout_stop(timeout);
	engine_count(engine, COUNTER_timeout_handler, 1);
	PROBE(handler_timeout, conn->io.fd, route->path);
	if (!request->cancel) { /* the handler keeps it; the connection goes on with a copy of the
				   rest */
		next = request_get(engine->pool, request->len - request->pos + 1);
		if (!next || request_copy_rest(next, request) < 0) {
			request_put(engine->pool, next);
			out_of_memory(conn);
			return;
		}
		next->used = request->used;
	}
	cancel(conn);
	conn->request = next;
	next->conn = conn;
	next->route = route;
	next->received_ns = received_ns;
	respond_error(conn, next, 504);
	advance(engine, next);
	conn_process(conn, next);
}

/* The kernel says that there is room only when much is free: a slow client may get on without it.
 */
void conn_on_send_expired(struct timeout *timeout, void *data)
{
	struct engine *engine = data;
	struct conn *conn = conn_of_timeout(timeout);
	int left = unacknowledged(conn), before = conn->request->unacknowledged;

	if (left >= 0 && left < before) {
		conn->request->unacknowledged = left;
		timeout_start(timeout, &engine->send, engine->now_ns);
		return;
	}
	engine_count(engine, COUNTER_timeout_send, 1);
	PROBE(timeout, PROBE_SEND, conn->io.fd);
	errno = ETIMEDOUT;
	send_failed(conn);
}

void conn_on_linger_expired(struct timeout *timeout, void *data)
{
	(void)data;
	conn_close(conn_of_timeout(timeout));
}

void conn_close_all(void)
{
	conn_slab_each(conn_close);
}

void conn_drain_all(struct engine *engine)
{
	struct timeout *ring = &engine->keepalive.ring, *next;

	engine->mode = ENGINE_CLOSING;
	while (ring->next != ring)
		retire(conn_of_timeout(ring->next));
	ring = &engine->request.ring;
	for (struct timeout *at = ring->next; at != ring; at = next) {
		next = at->next;
		if (conn_of_timeout(at)->state == CONN_PROXIED)
			conn_close(conn_of_timeout(at));
	}
}
