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
#include "fault_report.h"
#include "http_response.h"
#include "log.h"
#include "output.h"
#include "request.h"
#include "route.h"

enum {
	FULL_WAITS_MAX = 400, /* pauses of 1 ms for room in the exchange; again for the last answers */
	SKIPS_MAX = 4096,     /* damaged connections */
	FDS_MAX = 1 << 20,
	BODY_MAX = 64,
	CHUNK_MAX = 24,
};

/*
 * Who asks for a crash again as soon as the one before is answered waits ever longer, a twentieth
 * of this at first: other workers must be there again before the next one goes.  Less than the
 * master waits for a dying worker.
 */
#define ANSWER_WAIT_MAX_NS 2000000000u
#define ANSWER_SHARE 20

#define STORM_NS 100000000u /* that more care is taken after the last answer that had to wait */

static struct {
	struct engine *engine;
	const struct fault_cause *cause;
	struct exchange_batch batch, errors; /* errors: those answered 500 or 504, who come last */
	uint64_t due_ns, latest_ns;          /* when those are sent */
	struct iovec payload[OUTPUT_IOV + OUTPUT_PIECES_MAX + 4];
	char head[OUTPUT_FIELDS_MAX + HTTP_HEAD_ROOM + BODY_MAX], date[HTTP_DATE_LEN + 1];
	char chunk[CHUNK_MAX];
	int waits, skips;
	unsigned unsent; /* connections that the exchange did not take, and why */
	int error;
	volatile bool can_skip;
	sigjmp_buf next;
	uint64_t taboo[FDS_MAX / 64]; /* fds that are no connection's, or given already */
} rescue;

void conn_rescue_skip(void)
{
	if (!rescue.can_skip || rescue.skips++ >= SKIPS_MAX)
		return;
	rescue.can_skip = false;
	siglongjmp(rescue.next, 1);
}

/* Damaged memory may name an fd twice, or one of the server's own: the taker would read from it, or
 * shut it. */
static bool is_taboo(int fd)
{
	return fd < 0 || fd >= FDS_MAX || rescue.taboo[fd / 64] >> fd % 64 & 1;
}

static void make_taboo(int fd)
{
	if (fd >= 0 && fd < FDS_MAX)
		rescue.taboo[fd / 64] |= 1ull << fd % 64;
}

static void make_own_taboo(const struct engine *engine)
{
	const struct worker_args *args = engine->args;
	const int own[] = {0,
			   1,
			   2,
			   log_fd(),
			   engine->epoll_fd,
			   args->ipc,
			   args->exchange.give,
			   args->exchange.take};

	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		make_taboo(own[i]);
	for (size_t i = 0; i < engine->config->listen_count; i++)
		make_taboo(args->listeners[i]);
}

/* What the taker is to send for a request.  In the rescue's memory, but for an answer's own body.
 */
struct reply {
	struct iovec head;           /* and the body of an error */
	const struct answer *answer; /* NULL: an error */
};

static size_t put_head(struct http_head *head, const struct request *request)
{
	head->date = rescue.date;
	if (!request->http.keep_alive)
		head->connection = HTTP_CONNECTION_CLOSE;
	else if (request->http.version == 10)
		head->connection = HTTP_CONNECTION_KEEP_ALIVE;
	return http_response_head(rescue.head, head);
}

static struct reply error_reply(const struct request *request, int status)
{
	static const char body500[] = "500 Internal Server Error\n",
			  body504[] = "504 Gateway Timeout\n";
	static const char fields[] = "Content-Type: text/plain\r\n";
	const char *body = status == 504 ? body504 : body500;
	struct http_head head = {.status = status,
				 .fields = {fields, sizeof fields - 1},
				 .content_length = strlen(body)};
	size_t len = put_head(&head, request);

	if (!request->http.is_head) {
		memcpy(rescue.head + len, body, strlen(body));
		len += strlen(body);
	}
	return (struct reply){.head = {rescue.head, len}};
}

/* Its handler has answered already, well; a moment later it would have been sent. */
static struct reply own_reply(const struct request *request)
{
	const struct answer *answer = &request->answer;
	struct http_head head = {.status = answer->status,
				 .reason = request->reason,
				 .fields = {request->fields, request->fields_len},
				 .content_length = answer->len};
	struct reply reply = {.head = {rescue.head, put_head(&head, request)}};

	if (!request->http.is_head && http_has_body(answer->status))
		reply.answer = answer;
	return reply;
}

static void count_response(const struct request *request, int status)
{
	int class = status / 100;

	engine_count(rescue.engine, COUNTER_responses_2xx + class - 2, 1);
	if (request->route && request->route->counts)
		scoreboard_add(&request->route->counts->responses[class], 1);
}

static bool is_transient(int error)
{
	return error == EAGAIN || error == ETOOMANYREFS || error == ENOBUFS || error == ENOMEM;
}

static void ship(struct exchange_batch *batch)
{
	struct timespec pause = {0, 1000000};
	struct scoreboard_slot *slot = rescue.engine->slot;
	unsigned given = batch->count;

	if (batch->count == 0)
		return;
	while (exchange_send(rescue.engine->args->exchange.give, batch) < 0) {
		if (!is_transient(errno) || rescue.waits++ >= FULL_WAITS_MAX) {
			rescue.unsent += given;
			rescue.error = errno;
			given = 0;
			break;
		}
		nanosleep(&pause, NULL);
	}
	scoreboard_add(&slot->active, -(uint64_t)given);
	scoreboard_add(&slot->counter[COUNTER_moved_out], given);
	scoreboard_note_move(slot, engine_clock(), given);
	exchange_drop(batch, false); /* their payloads: descriptors may be scarce */
	exchange_clear(batch);
}

static void add(struct exchange_batch *batch, struct conn *conn, struct exchange_record *record,
		int pieces)
{
	int fd = conn->io.fd;

	if (!exchange_is_sound(record))
		return;
	if (!exchange_add(batch, fd, record, rescue.payload, pieces)) {
		ship(batch);
		if (!exchange_add(batch, fd, record, rescue.payload, pieces)) {
			rescue.unsent++;
			rescue.error = errno;
			return;
		}
	}
	make_taboo(fd);
}

/* The request at hand is answered; what was read behind it goes along, and what was to be sent
 * before it. */
static void add_answered(struct exchange_batch *batch, struct conn *conn,
			 const struct request *request, const struct reply *reply,
			 const struct iovec *earlier, int count)
{
	struct exchange_record record;
	size_t used = request->pos + request->used, rest = request->len - used;
	int pieces = 0;

	conn_describe(rescue.engine, conn, &record);
	record.state = EXCHANGE_SENDING;
	record.closing = !request->http.keep_alive;
	record.received_ns = rescue.engine->now_ns;
	if (record.closing)
		rest = 0;
	record.input_len = (uint32_t)rest;
	if (rest > 0)
		rescue.payload[pieces++] = (struct iovec){request->buf + used, rest};
	for (int i = 0; i < count; i++)
		rescue.payload[pieces++] = earlier[i];
	rescue.payload[pieces++] = reply->head;
	for (int i = 0; reply->answer && i < reply->answer->count; i++)
		rescue.payload[pieces++] = reply->answer->iov[i];
	for (int i = rest > 0; i < pieces; i++)
		record.output_len += (uint32_t)rescue.payload[i].iov_len;
	add(batch, conn, &record, pieces);
}

static void add_error(struct conn *conn, const struct request *request, int status,
		      const struct iovec *earlier, int count)
{
	struct reply reply = error_reply(request, status);

	add_answered(&rescue.errors, conn, request, &reply, earlier, count);
	count_response(request, status);
}

/* Its handler has answered, well or not, in the turn that was not to end. */
static void add_settled(struct conn *conn, const struct request *request)
{
	const struct answer *answer = &request->answer;
	struct reply reply;

	if (request->mistake || request->arena.overflow || answer->status < 200 ||
	    answer->status > 599 || answer->count > OUTPUT_PIECES_MAX ||
	    request->fields_len + request->reason.len > OUTPUT_FIELDS_MAX) {
		add_error(conn, request, 500, request->out, request->out_count);
		return;
	}
	reply = own_reply(request);
	add_answered(&rescue.batch, conn, request, &reply, request->out, request->out_count);
	count_response(request, answer->status);
}

/* A chunked body was decoded in place: it goes as one chunk, to be read again from the start. */
static int rebuild_chunked(const struct request *request, struct exchange_record *record)
{
	static const char end[] = "\r\n0\r\n\r\n";
	const struct http_request *http = &request->http;
	char *at = rescue.chunk + CHUNK_MAX, *start = request->buf + request->pos;
	size_t rest = request->len - request->pos - request->used, skipped = http->body_len ? 0 : 2;
	int pieces = 0;

	*--at = '\n';
	*--at = '\r';
	for (uint64_t left = http->body_len; left; left /= 16)
		*--at = "0123456789abcdef"[left % 16];
	if (http->body_len == 0)
		at += 2;
	rescue.payload[pieces++] = (struct iovec){start, http->head_len};
	rescue.payload[pieces++] = (struct iovec){at, (size_t)(rescue.chunk + CHUNK_MAX - at)};
	rescue.payload[pieces++] = (struct iovec){start + http->head_len, (size_t)http->body_len};
	rescue.payload[pieces++] =
		(struct iovec){(char *)(uintptr_t)end + skipped, sizeof end - 1 - skipped};
	rescue.payload[pieces++] = (struct iovec){start + request->used, rest};
	record->received_ns = request->received_ns;
	record->continued = request->continued;
	for (int i = 0; i < pieces; i++)
		record->input_len += (uint32_t)rescue.payload[i].iov_len;
	return pieces;
}

/* A whole request, to be handled from its start on. */
static int describe_again(struct conn *conn, const struct request *request,
			  struct exchange_record *record)
{
	conn->closing = conn->linger = false; /* that is found out again */
	conn_describe(rescue.engine, conn, record);
	record->state = EXCHANGE_READING;
	record->served--;
	if (request->http.phase == HTTP_PHASE_CHUNKED)
		return rebuild_chunked(request, record);
	return conn_describe_request(conn, request, record, rescue.payload);
}

static void add_pending(struct conn *conn, const struct request *request)
{
	struct exchange_record record;
	int pieces;

	if (!request->route->handler->replay || request->replayed || request->out_count > 0) {
		add_error(conn, request, 500, request->out, request->out_count);
		return;
	}
	pieces = describe_again(conn, request, &record);
	record.replayed = 1;
	add(&rescue.batch, conn, &record, pieces);
}

/*
 * Between reading and answering: the octets at hand may be anything, but for a request that waits
 * for memory, as it does where another thread died with the heap's lock.
 */
static void add_at_hand(struct conn *conn)
{
	const struct engine *engine = rescue.engine;
	const struct output *output = &engine->output;
	const struct request *request = conn->request ? conn->request : engine->current;
	struct exchange_record record;
	int pieces;

	if (engine->starting) {
		pieces = describe_again(conn, engine->starting, &record);
		for (int i = 0; i < output->count; i++)
			rescue.payload[pieces++] = output->iov[i];
		record.output_len = (uint32_t)output->len;
		record.state = output->len > 0 ? EXCHANGE_SENDING : EXCHANGE_READING;
	} else if (engine->allocating && output->len == 0 && request->state == REQUEST_READING) {
		conn_describe(engine, conn, &record);
		record.state = EXCHANGE_READING;
		pieces = conn_describe_request(conn, request, &record, rescue.payload);
	} else {
		return;
	}
	add(&rescue.batch, conn, &record, pieces);
}

/* One between two requests, or in the middle of reading or sending. */
static void add_as_is(struct conn *conn)
{
	struct exchange_record record;
	int pieces = 0;

	conn_describe(rescue.engine, conn, &record);
	if (conn->request)
		pieces = conn_describe_request(conn, conn->request, &record, rescue.payload);
	add(&rescue.batch, conn, &record, pieces);
}

/* By what it was known before its handler, which may have changed it. */
static void note_crash(const struct request *request)
{
	struct engine *engine = rescue.engine;
	struct quarantine_request octets = request_octets(request);

	if (engine->config->quarantine_ms > 0)
		quarantine_note_crash(&engine->args->scoreboard->quarantine,
				      request->print ? request->print : quarantine_print(&octets),
				      octets.head.len + octets.body.len, request->handled_ns,
				      engine_clock(), engine->config->quarantine_ms * 1000000);
}

/* The request that was at work. */
static void add_culprit(struct conn *conn, const struct request *request)
{
	add_error(conn, request, rescue.cause->is_hang ? 504 : 500, rescue.engine->output.iov,
		  rescue.engine->output.count);
	note_crash(request);
}

static void rescue_one(struct conn *conn)
{
	struct engine *engine = rescue.engine;
	const struct request *running = engine->running, *request = conn->request;

	if (conn->state > CONN_SENDING || is_taboo(conn->io.fd)) {
		if (conn->state == CONN_LINGERING) /* answered, and on its way out */
			scoreboard_add(&engine->slot->active, (uint64_t)-1);
		return;
	}
	if (running && running->conn == conn)
		add_culprit(conn, running);
	else if (engine->processing == conn)
		add_at_hand(conn);
	else if (!request)
		add_as_is(conn);
	else if (!request_is_known(engine->pool, request))
		return;
	else if (request->state == REQUEST_PENDING)
		add_pending(conn, request);
	else if (request->state == REQUEST_READING)
		add_as_is(conn);
	else if (request->state == REQUEST_ANSWERED)
		add_settled(conn, request);
	else if (request->state == REQUEST_CANCELLED) /* its time was over */
		add_error(conn, request, 504, request->out, request->out_count);
}

static void try_one(struct conn *conn)
{
	if (sigsetjmp(rescue.next, 0) == 0) {
		rescue.can_skip = true;
		rescue_one(conn);
	}
	rescue.can_skip = false;
}

/* Of a message that was being taken.  They are counted as if they had been. */
static void add_untaken(void)
{
	struct exchange_item item;

	while (conn_take_rest(&item)) {
		if (is_taboo(item.fd))
			continue;
		if (!exchange_forward(&rescue.batch, &item)) {
			ship(&rescue.batch);
			exchange_forward(&rescue.batch, &item);
		}
		make_taboo(item.fd);
		scoreboard_add(&rescue.engine->slot->active, 1);
		engine_count(rescue.engine, COUNTER_moved_in, 1);
	}
}

static void try_untaken(void)
{
	if (sigsetjmp(rescue.next, 0) == 0) {
		rescue.can_skip = true;
		add_untaken();
	}
	rescue.can_skip = false;
}

void conn_rescue_all(struct engine *engine, const struct fault_cause *cause)
{
	if (engine->args->exchange.give < 0)
		return;
	rescue.engine = engine;
	rescue.cause = cause;
	scoreboard_note_move(engine->slot, engine_clock(), 0);
	http_date_format(rescue.date, time(NULL));
	make_own_taboo(engine);
	exchange_clear(&rescue.batch);
	exchange_clear(&rescue.errors);
	try_untaken();
	conn_slab_each(try_one);
}

/* One after the other, over all workers. */
static uint64_t claim_turn(_Atomic uint64_t *last_ns, uint64_t now)
{
	uint64_t last = atomic_load(last_ns), latest = now + ANSWER_WAIT_MAX_NS, due;

	do
		due = last < latest ? last + (latest - last) / ANSWER_SHARE : latest;
	while (!atomic_compare_exchange_weak(last_ns, &last, due > now ? due : now));
	return due;
}

void conn_rescue_end(void)
{
	uint64_t now = engine_clock();
	struct scoreboard *board;

	rescue.can_skip = false;
	if (!rescue.engine)
		return;
	board = rescue.engine->args->scoreboard;
	ship(&rescue.batch);
	if (rescue.errors.count > 0)
		rescue.due_ns = claim_turn(&board->crash_ns, now);
	rescue.latest_ns = now + ANSWER_WAIT_MAX_NS;
	if (rescue.due_ns <= now)
		ship(&rescue.errors);
	else
		atomic_store(&board->storm_ns, rescue.due_ns + STORM_NS);
}

unsigned conn_rescue_unsent(int *error)
{
	*error = rescue.error;
	return rescue.unsent;
}

static bool is_stopping(void)
{
	return atomic_load(&rescue.engine->args->scoreboard->stopping);
}

/* Nobody asks for more crashes than there are workers for.  A worker that is told to go has no time
 * to wait. */
static bool must_wait(const struct worker_args *args)
{
	uint64_t now = engine_clock();

	if (rescue.engine->mode != ENGINE_SERVING || is_stopping())
		return false;
	return now < rescue.due_ns ||
	       (now < rescue.latest_ns && scoreboard_is_thin(args->scoreboard, args->generation));
}

/* The whole server stops, and nobody takes any more: what the client does not take at once is lost
 * with its connection. */
static void send_errors(void)
{
	unsigned answered;

	exchange_finish(&rescue.errors);
	answered = exchange_send_output(&rescue.errors);
	scoreboard_add(&rescue.engine->slot->active, -(uint64_t)answered);
	engine_count(rescue.engine, COUNTER_close, answered);
	exchange_clear(&rescue.errors);
}

void conn_rescue_answer(void)
{
	struct timespec pause = {0, 2000000};

	if (!rescue.engine || rescue.errors.count == 0)
		return;
	while (must_wait(rescue.engine->args))
		nanosleep(&pause, NULL);
	rescue.waits = 0;
	if (is_stopping())
		send_errors();
	else
		ship(&rescue.errors);
}
