/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "conn_rescue.h"

#include <errno.h>
#include <setjmp.h>
#include <string.h>
#include <time.h>

#include "conn.h"
#include "conn_move.h"
#include "conn_slab.h"
#include "engine.h"
#include "exchange.h"
#include "http_response.h"
#include "request.h"
#include "route.h"

enum {
	FULL_WAITS_MAX = 1000, /* pauses of 1 ms for room in the exchange, in all */
	SKIPS_MAX = 4096,      /* damaged connections */
	ANSWER_MAX = HTTP_HEAD_ROOM + 64,
};

static struct {
	struct engine *engine;
	struct exchange_batch batch;
	struct iovec payload[OUTPUT_IOV + 2];
	char answer[ANSWER_MAX], date[HTTP_DATE_LEN + 1];
	int status;
	int waits, skips;
	volatile bool can_skip;
	sigjmp_buf next;
} rescue;

void conn_rescue_skip(void)
{
	if (rescue.can_skip && rescue.skips++ < SKIPS_MAX)
		siglongjmp(rescue.next, 1);
}

/* The error response as octets; only memcpy is called. */
static struct iovec answer(const struct request *request, int status)
{
	static const char body500[] = "500 Internal Server Error\n", body504[] = "504 Gateway Timeout\n";
	static const char fields[] = "Content-Type: text/plain\r\n";
	const char *body = status == 504 ? body504 : body500;
	struct http_head head = {.status = status,
				 .fields = {fields, sizeof fields - 1},
				 .content_length = strlen(body),
				 .date = rescue.date};
	size_t len;

	if (!request->http.keep_alive)
		head.connection = HTTP_CONNECTION_CLOSE;
	else if (request->http.version == 10)
		head.connection = HTTP_CONNECTION_KEEP_ALIVE;
	len = http_response_head(rescue.answer, &head);
	if (!request->http.is_head) {
		memcpy(rescue.answer + len, body, strlen(body));
		len += strlen(body);
	}
	return (struct iovec){rescue.answer, len};
}

static void ship(void)
{
	struct timespec pause = {0, 1000000};
	struct scoreboard_slot *slot = rescue.engine->slot;

	if (rescue.batch.count == 0)
		return;
	while (exchange_send(rescue.engine->args->exchange.give, &rescue.batch) < 0) {
		if ((errno != EAGAIN && errno != ETOOMANYREFS) || rescue.waits++ >= FULL_WAITS_MAX) {
			rescue.batch.count = 0;
			break;
		}
		nanosleep(&pause, NULL); /* a bare system call */
	}
	scoreboard_add(&slot->active, -(uint64_t)rescue.batch.count);
	scoreboard_add(&slot->counter[COUNTER_moved_out], rescue.batch.count);
	exchange_clear(&rescue.batch);
}

static void add(struct conn *conn, struct exchange_record *record, int pieces)
{
	if (exchange_add(&rescue.batch, conn->io.fd, record, rescue.payload, pieces))
		return;
	ship();
	exchange_add(&rescue.batch, conn->io.fd, record, rescue.payload, pieces);
}

/* The request at hand is answered; what was read behind it goes along, and what was to be sent before it. */
static void add_answered(struct conn *conn, const struct request *request, int status,
			 const struct iovec *earlier, int count)
{
	struct exchange_record record;
	size_t used = request->pos + request->used, rest = request->len - used;
	int pieces = 0;

	conn_describe(rescue.engine, conn, &record);
	record.state = EXCHANGE_SENDING;
	record.closing = !request->http.keep_alive;
	if (record.closing)
		rest = 0;
	record.input_len = (uint32_t)rest;
	if (rest > 0)
		rescue.payload[pieces++] = (struct iovec){request->buf + used, rest};
	for (int i = 0; i < count; i++)
		rescue.payload[pieces++] = earlier[i];
	rescue.payload[pieces++] = answer(request, status);
	for (int i = rest > 0; i < pieces; i++)
		record.output_len += (uint32_t)rescue.payload[i].iov_len;
	add(conn, &record, pieces);
	scoreboard_add(&rescue.engine->slot->counter[COUNTER_responses_5xx], 1);
}

static void add_pending(struct conn *conn, const struct request *request)
{
	struct exchange_record record;

	if (!request->route->handler->replay || request->replayed || request->out_count > 0) {
		add_answered(conn, request, 500, request->out, request->out_count);
		return;
	}
	conn_describe(rescue.engine, conn, &record);
	record.state = EXCHANGE_READING;
	record.replayed = 1;
	record.received_ns = request->received_ns;
	add(conn, &record, conn_describe_request(conn, request, &record, rescue.payload));
}

/* One between two requests, or in the middle of reading or sending. */
static void add_as_is(struct conn *conn)
{
	struct exchange_record record;
	int pieces = 0;

	conn_describe(rescue.engine, conn, &record);
	if (conn->request)
		pieces = conn_describe_request(conn, conn->request, &record, rescue.payload);
	add(conn, &record, pieces);
}

static void rescue_one(struct conn *conn)
{
	struct engine *engine = rescue.engine;
	const struct request *running = engine->running;

	if (conn->state > CONN_SENDING || conn->io.fd < 0)
		return;
	if (running && running->conn == conn)
		add_answered(conn, running, rescue.status, engine->output.iov, engine->output.count);
	else if (engine->processing == conn) /* between reading and answering: its request is lost */
		return;
	else if (conn->request && !request_is_known(engine->pool, conn->request))
		return;
	else if (conn->request && conn->request->state == REQUEST_PENDING)
		add_pending(conn, conn->request);
	else if (!conn->request || conn->request->state == REQUEST_READING)
		add_as_is(conn);
	else if (conn->request->state == REQUEST_ANSWERED)
		add_answered(conn, conn->request, 500, conn->request->out, conn->request->out_count);
}

static void try_one(struct conn *conn)
{
	if (sigsetjmp(rescue.next, 0) == 0) {
		rescue.can_skip = true;
		rescue_one(conn);
	}
	rescue.can_skip = false;
}

void conn_rescue_all(struct engine *engine, int status)
{
	if (engine->args->exchange.give < 0)
		return;
	rescue.engine = engine;
	rescue.status = status;
	http_date_format(rescue.date, time(NULL));
	exchange_clear(&rescue.batch);
	conn_slab_each(try_one);
	ship();
}
