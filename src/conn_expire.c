/* SPDX-License-Identifier: MIT */
/* What ends a connection besides itself and its client: timeouts, and a worker that drains. */
#include "autoconf.h"

#include <errno.h>
#include <sys/socket.h>

#include "conn_parts.h"
#include "conn_slab.h"
#include "probes.h"
#include "respond.h"
#include "route.h"

void conn_retire(struct conn *conn)
{
	char octet;

	timeout_stop(&conn->timeout);
	if (recv(conn->io.fd, &octet, 1, MSG_PEEK) < 0 && errno == EAGAIN)
		conn_start_linger(conn);
	else
		conn_on_readable(conn);
}

void conn_on_keepalive_expired(struct timeout *timeout, void *data)
{
	struct engine *engine = data;

	engine_count(engine, COUNTER_timeout_keepalive, 1);
	PROBE(timeout, PROBE_KEEPALIVE, conn_of_timeout(timeout)->io.fd);
	conn_retire(conn_of_timeout(timeout));
}

void conn_on_request_expired(struct timeout *timeout, void *data)
{
	struct engine *engine = data;
	struct conn *conn = conn_of_timeout(timeout);

	if (conn_was_held_back(conn)) {
		timeout_start(timeout, &engine->request, engine->now_ns);
		return;
	}
	timeout_stop(timeout);
	engine_count(engine, COUNTER_timeout_request, 1);
	PROBE(timeout, PROBE_REQUEST, conn->io.fd);
	if (conn->state == CONN_PROXIED) {
		conn_close(conn);
		return;
	}
	conn_refuse(conn, conn->request, 408);
	if (conn_flush(conn, conn->request))
		conn_finish(conn);
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
			conn_out_of_memory(conn);
			return;
		}
		next->used = request->used;
	}
	conn_cancel(conn);
	conn->request = next;
	next->conn = conn;
	next->route = route;
	next->received_ns = received_ns;
	respond_error(conn, next, 504);
	conn_advance(engine, next);
	conn_process(conn, next);
}

/* The kernel says that there is room only when much is free: a slow client may get on without it.
 */
void conn_on_send_expired(struct timeout *timeout, void *data)
{
	struct engine *engine = data;
	struct conn *conn = conn_of_timeout(timeout);
	int left = conn_unacknowledged(conn), before = conn->request->unacknowledged;

	if (left >= 0 && left < before) {
		conn->request->unacknowledged = left;
		timeout_start(timeout, &engine->send, engine->now_ns);
		return;
	}
	engine_count(engine, COUNTER_timeout_send, 1);
	PROBE(timeout, PROBE_SEND, conn->io.fd);
	errno = ETIMEDOUT;
	conn_send_failed(conn);
}

void conn_on_linger_expired(struct timeout *timeout, void *data)
{
	(void)data;
	conn_close(conn_of_timeout(timeout));
}

/* It waits for the same as before. */
void conn_on_unwatched_expired(struct timeout *timeout, void *data)
{
	struct engine *engine = data;
	struct conn *conn = conn_of_timeout(timeout);

	conn_watch(conn, conn->state == CONN_SENDING ? EV_WRITE : EV_READ);
	if (conn->state == CONN_IDLE)
		timeout_start(timeout, &engine->keepalive, engine->now_ns);
	else if (conn->state == CONN_READING)
		timeout_start(timeout, &engine->request, conn->request->received_ns);
	else
		timeout_start(timeout, &engine->send, engine->now_ns);
	engine_look_again(engine);
}

void conn_close_all(void)
{
	conn_slab_each(conn_close);
}

void conn_drain_all(struct engine *engine)
{
	struct timeout *ring = &engine->keepalive.ring, *next;

	engine->mode = ENGINE_CLOSING;
	engine->farewell = true;
	while (ring->next != ring)
		conn_retire(conn_of_timeout(ring->next));
	ring = &engine->request.ring;
	for (struct timeout *at = ring->next; at != ring; at = next) {
		next = at->next;
		if (conn_of_timeout(at)->state == CONN_PROXIED)
			conn_close(conn_of_timeout(at));
	}
}
