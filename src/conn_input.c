/* SPDX-License-Identifier: MIT */
/* Reading: what comes in, by the state of the connection. */
#include "autoconf.h"

#include <errno.h>

#include "conn_parts.h"
#include "log.h"
#include "proxy_header.h"
#include "stamped.h"

enum {
	READ_MIN = 1024,       /* octets that a read has room for */
	ANNOUNCED_MAX = 32768, /* octets that are reserved for a request before they come */
	READ_AT_ONCE = 16384,  /* octets of a request that goes on; then the others have their turn */
};

static void on_end_of_input(struct conn *conn)
{
	if (conn->state != CONN_READING) {
		conn_close(conn);
		return;
	}
	timeout_stop(&conn->timeout);
	conn_refuse(conn, conn->request, 400);
	if (conn_flush(conn, conn->request))
		conn_close(conn);
}

/*
 * Room to read into: for a body of known length all that is missing, and an octet to see the end
 * by.  But what was announced counts for little: beyond that, room doubles as octets come.
 */
static int reserve(struct request *request)
{
	const struct http_request *http = &request->http;
	size_t len = request->len;
	size_t most = len + READ_MIN < ANNOUNCED_MAX ? ANNOUNCED_MAX - len : READ_MIN;
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

/* Newcomers show that they send much before they may send much at a time. */
static size_t room_to_read(const struct conn *conn, const struct request *request)
{
	size_t room = request->cap - request->len;

	return (conn->request || conn->served == 0) && room > READ_AT_ONCE ? READ_AT_ONCE : room;
}

/* As recv(), behind len. */
static ssize_t receive(struct conn *conn, struct request *request, size_t room)
{
	struct engine *engine = conn->io.data;

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
	size_t room;
	ssize_t got;

	if (conn->request && reserve(request) < 0) {
		conn_out_of_memory(conn);
		return -1;
	}
	room = room_to_read(conn, request);
	got = receive(conn, request, room);
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
	if ((size_t)got == room)
		conn->linger =
			true; /* there may be more in the kernel than the client should lose by */
	return got;
}

void conn_on_readable(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	struct request *request = conn->request ? conn->request : engine->current;

	if (read_more(conn, request) > 0)
		conn_process(conn, request);
}

void conn_on_pending_readable(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	struct request *request = conn->request;
	ssize_t got = receive(conn, request, room_to_read(conn, request));

	if (got < 0) {
		if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			conn_close(conn);
		return;
	}
	engine_count(engine, COUNTER_bytes_in, (uint64_t)got);
	request->len += (size_t)got;
	if (got == 0 ||
	    request->len == request->cap) /* the end: a client that shut its side still waits */
		conn_watch(conn, 0);
}

void conn_on_lingering(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	ssize_t got = recv(conn->io.fd, engine->current->buf, engine->current->cap, 0);

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
		conn_close(conn);
}

static void note_proxy_error(const struct conn *conn)
{
	static struct log_limit limit;
	struct engine *engine = conn->io.data;
	char peer[PEER_TEXT];

	engine_count(engine, COUNTER_proxy_error, 1);
	if (engine_may_log(engine, &limit))
		log_warn("%s on listener %s did not begin with a good PROXY protocol header: closed",
			 peer_text(&conn->peer, peer),
			 conn->unlisted ? "that is no more"
					: engine->config->listens[conn->listener].address);
}

void conn_on_proxy_header(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	struct request *request = conn->request ? conn->request : engine->current;
	struct proxy_header header;
	enum proxy_progress progress;

	if (read_more(conn, request) <= 0)
		return;
	progress = proxy_header_parse(request->buf, request->len, &header);
	if (progress == PROXY_MORE) {
		conn_keep_rest(conn, request);
		return;
	}
	if (progress == PROXY_BAD) {
		note_proxy_error(conn);
		request_reset(request);
		conn_close(conn);
		return;
	}
	if (header.has_peer)
		conn->peer = header.peer;
	request->pos = header.len;
	request->received_ns = request->read_ns;
	timeout_stop(&conn->timeout);
	conn_set_state(conn, CONN_IDLE);
	conn_process(conn, request);
}
