/* SPDX-License-Identifier: MIT */
/* What a connection holds, and how it ends. */
#include "autoconf.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn_parts.h"
#include "conn_slab.h"
#include "log.h"
#include "probes.h"

void conn_cancel(struct conn *conn)
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

void conn_release(struct conn *conn)
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
		conn_cancel(conn);
	if (conn->request) {
		conn->request = NULL;
		request_put(engine->pool, request);
	}
}

void conn_drop(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	ev_io_stop(engine->loop, &conn->io);
	timeout_stop(&conn->timeout);
	turn_leave(&conn->turn);
	conn_release(conn);
	if (conn->state != CONN_IDLE)
		conn_gauge_add(&engine->slot->busy, -1);
	close(conn->io.fd);
	conn_gauge_add(&engine->slot->active, -1);
	conn_slab_put(conn);
}

void conn_close(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	engine_count(engine, COUNTER_close, 1);
	PROBE(close, conn->io.fd);
	PROBE(stats, conn->io.fd, conn->served, engine->now_ns - conn->taken_ns);
	conn_drop(conn);
}

void conn_start_linger(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	conn_release(conn);
	if (shutdown(conn->io.fd, SHUT_WR) < 0) {
		conn_close(conn);
		return;
	}
	conn_set_state(conn, CONN_LINGERING);
	timeout_start(&conn->timeout,
		      engine->mode != ENGINE_SERVING || engine->farewell ? &engine->drain_linger
									 : &engine->linger,
		      engine->now_ns);
	conn_watch(conn, EV_READ);
}

void conn_finish(struct conn *conn)
{
	if (conn->linger)
		conn_start_linger(conn);
	else
		conn_close(conn);
}

void conn_send_failed(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	engine_count(engine, COUNTER_send_error, 1);
	PROBE(send_error, conn->io.fd, errno);
	log_debug("send: %s", strerror(errno));
	conn_close(conn);
}

void conn_out_of_memory(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	if (!conn->request) /* what was read of it must not become another's */
		request_reset(engine->current);
	log_error("out of memory for a connection's request; closed");
	conn_close(conn);
}

/*
 * libev has given the descriptor up: no event of it would be seen.  One that was taken from another
 * worker is tried again; later on libev does not know any more what epoll has of it.
 */
void conn_unwatched(struct conn *conn)
{
	static struct log_limit limit;
	struct engine *engine = conn->io.data;
	bool goes_on = conn->moves > 0 && !conn->heard && conn->state != CONN_PENDING &&
		       conn->state != CONN_LINGERING;

	if (engine_may_log(engine, &limit))
		log_error("the kernel has no room to watch a connection; %s",
			  goes_on ? "tried again in 100 ms" : "closed");
	if (goes_on)
		timeout_start(&conn->timeout, &engine->unwatched, engine->now_ns);
	else
		conn_close(conn);
}

int conn_hold(struct conn *conn, struct request *request)
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
