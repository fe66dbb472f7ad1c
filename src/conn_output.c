/* SPDX-License-Identifier: MIT */
/* Sending responses, and keeping what the client does not take yet. */
#include "autoconf.h"

#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#include "conn_parts.h"

int conn_unacknowledged(const struct conn *conn)
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

	if (conn_hold(conn, request) < 0)
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
	request->unacknowledged = conn_unacknowledged(conn);
	return 0;
}

bool conn_flush(struct conn *conn, struct request *request)
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
		conn_set_state(conn, CONN_SENDING);
		timeout_start(&conn->timeout, &engine->send, engine->now_ns);
		conn_watch(conn, EV_WRITE);
		return false;
	}
	output_clear(output);
	if (!conn->request)
		request_reset(engine->current);
	conn_send_failed(conn);
	return false;
}

void conn_on_writable(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	struct request *request = conn->request;
	ssize_t sent = output_send(conn->io.fd, &request->out, &request->out_count);

	if (sent < 0) {
		conn_send_failed(conn);
		return;
	}
	engine_count(engine, COUNTER_bytes_out, (uint64_t)sent);
	if (request->out_count > 0) {
		if (sent > 0) {
			request->unacknowledged = conn_unacknowledged(conn);
			timeout_start(&conn->timeout, &engine->send, engine->now_ns);
		}
		return;
	}
	request->out = NULL;
	if (request->state == REQUEST_READING)
		arena_reset(&request->arena);
	conn_process(conn, request);
}
