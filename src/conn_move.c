/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "conn_move.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "balance.h"
#include "conn.h"
#include "engine.h"
#include "exchange.h"
#include "http_chunked.h"
#include "log.h"
#include "output.h"
#include "probes.h"
#include "request.h"

/* Giving. */

enum { COUNT_MAX = 4096 }; /* connections looked at for evenness, at a time */

#define UNUSED_NS 1000000000u
#define SECOND_NS 1000000000u

struct shipment {
	struct exchange_batch batch;
	struct conn *conns[EXCHANGE_BATCH];
	struct iovec payload[OUTPUT_IOV + 1];
};

static struct shipment shipment;

static bool is_movable(const struct conn *conn)
{
	switch (conn->state) {
	case CONN_IDLE:
	case CONN_READING:
		return true;
	case CONN_SENDING:
		return conn->request->state == REQUEST_READING;
	default:
		return false;
	}
}

void conn_describe(const struct engine *engine, const struct conn *conn,
		   struct exchange_record *record)
{
	static const uint8_t states[] = {[CONN_IDLE] = EXCHANGE_IDLE,
					 [CONN_READING] = EXCHANGE_READING,
					 [CONN_PENDING] = EXCHANGE_READING,
					 [CONN_SENDING] = EXCHANGE_SENDING};

	*record = (struct exchange_record){
		.listener = engine->listener_ids[conn->listener],
		.served = conn->served,
		.moves = (uint16_t)(conn->moves + 1),
		.evened = conn->evened,
		.state = states[conn->state],
		.closing = conn->closing,
		.linger = conn->linger,
		.family = conn->peer.family,
		.port = conn->peer.port,
	};
	memcpy(record->address, &conn->peer.address, sizeof conn->peer.address);
}

int conn_describe_request(const struct conn *conn, const struct request *request,
			  struct exchange_record *record, struct iovec *payload)
{
	const struct http_request *http = &request->http;
	size_t input = conn->closing ? 0 : request->len - request->pos;
	int pieces = 0;

	record->received_ns = request->received_ns;
	record->input_len = (uint32_t)input;
	record->continued = request->continued;
	record->replayed = request->replayed;
	if (http->phase == HTTP_PHASE_CHUNKED && input > 0) {
		record->head_len = http->head_len;
		record->chunk_left = http->chunk_left;
		record->chunk_overhead = http->chunk_overhead;
		record->chunk_state = http->chunk_state;
		record->chunk_digits = http->chunk_digits;
	}
	if (input > 0)
		payload[pieces++] = (struct iovec){request->buf + request->pos, input};
	for (int i = 0; i < request->out_count; i++) {
		payload[pieces++] = request->out[i];
		record->output_len += (uint32_t)request->out[i].iov_len;
	}
	if (record->state == EXCHANGE_SENDING && record->output_len == 0) /* it waits for its turn */
		record->state = EXCHANGE_READING;
	return pieces;
}

static bool pack(struct engine *engine, struct conn *conn, uint64_t rate)
{
	struct exchange_record record;
	int pieces = 0;

	conn_describe(engine, conn, &record);
	record.rate = rate < UINT16_MAX ? (uint16_t)rate : UINT16_MAX;
	if (conn->request)
		pieces = conn_describe_request(conn, conn->request, &record, shipment.payload);
	if (!exchange_add(&shipment.batch, conn->io.fd, &record, shipment.payload, pieces))
		return false;
	shipment.conns[shipment.batch.count - 1] = conn;
	return true;
}

static bool ship(struct engine *engine)
{
	bool sent = exchange_send(engine->args->exchange.give, &shipment.batch) == 0;
	int error = errno;

	exchange_drop(&shipment.batch, false);
	if (!sent) {
		errno = error;
		return false;
	}
	for (unsigned i = 0; i < shipment.batch.count; i++)
		conn_forget(shipment.conns[i]);
	engine_count(engine, COUNTER_moved_out, shipment.batch.count);
	scoreboard_note_move(engine->slot, engine_clock(), shipment.batch.count);
	PROBE(moved_out, shipment.batch.count);
	return true;
}

/* Fills one batch from a list, oldest first, and sends it.  1: there may be more; 0: there is none;
 * -1: full. */
static int give_batch(struct engine *engine, struct timeout_list *list)
{
	struct timeout *at;

	exchange_clear(&shipment.batch);
	for (at = list->ring.next; at != &list->ring; at = at->next) {
		struct conn *conn = conn_of_timeout(at);

		if (is_movable(conn) && !pack(engine, conn, 0))
			break;
	}
	if (shipment.batch.count == 0) /* not even one: no memfd for it */
		return at == &list->ring ? 0 : -1;
	return ship(engine) ? 1 : -1;
}

bool conn_give_all(struct engine *engine)
{
	struct timeout_list *lists[] = {&engine->keepalive, &engine->request, &engine->send,
					&engine->waiting,
					&engine->unwatched};

	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		int result;

		while ((result = give_batch(engine, lists[i])) > 0)
			;
		if (result < 0)
			return false;
	}
	return true;
}

void conn_mark(struct engine *engine, const struct conn_sample *sample, uint64_t used_ns)
{
	struct timeout *ring = &engine->keepalive.ring;
	unsigned count = 0;

	for (struct timeout *at = ring->prev;
	     at != ring && at->since_ns >= used_ns && count < COUNT_MAX; at = at->prev, count++) {
		struct conn *conn = conn_of_timeout(at);

		conn->sample = sample->number;
		conn->mark = (uint16_t)conn->served;
	}
}

/* Requests of the connection in the sample, as far as they were counted. */
static uint64_t sampled(const struct conn *conn, const struct conn_sample *sample)
{
	uint16_t count = (uint16_t)(conn->served - conn->mark);

	if (conn->timeout.since_ns < sample->since_ns)
		return 0;
	return conn->sample == sample->number && count > 0 ? count : 1;
}

static bool may_move_again(const struct engine *engine, const struct conn *conn, bool for_newcomer)
{
	uint8_t moves = for_newcomer ? 0 : conn->evened;

	return conn->moves == 0 || engine->now_ns - conn->taken_ns > balance_stay_ns(moves);
}

/* A part of what is to be given, shipped in messages of at most so much, where more than one
 * connection makes it up. */
struct portion {
	uint64_t at_once, full;
	bool for_newcomer;
};

static bool give_one(struct engine *engine, struct conn *conn, struct portion *portion,
		     uint64_t weight, uint64_t rate)
{
	if (shipment.batch.count > 0 &&
	    (portion->full + weight > portion->at_once || shipment.batch.count == EXCHANGE_BATCH)) {
		if (!ship(engine))
			return false;
		exchange_clear(&shipment.batch);
		portion->full = 0;
	}
	portion->full += weight;
	if (!portion->for_newcomer)
		conn->evened =
			balance_count_move(conn->evened, engine->now_ns - conn->taken_ns);
	return pack(engine, conn, rate);
}

/* Those used last, as long as their requests are not more than the surplus that is left. */
static uint64_t give_used(struct engine *engine, const struct balance_plan *plan,
			  const struct conn_sample *sample)
{
	struct timeout *ring = &engine->keepalive.ring, *at, *prev;
	struct portion portion = {plan->requests_at_once, 0, plan->for_newcomer};
	uint64_t left = plan->requests, spare = left / 3, given = 0;
	unsigned looked_at = 0;

	exchange_clear(&shipment.batch);
	for (at = ring->prev; at != ring && left > 0 && looked_at < COUNT_MAX;
	     at = prev, looked_at++) {
		struct conn *conn = conn_of_timeout(at);
		uint64_t requests = sampled(conn, sample);

		prev = at->prev;
		if (requests == 0)
			break;
		if (requests > left + spare || !may_move_again(engine, conn, plan->for_newcomer))
			continue;
		if (!give_one(engine, conn, &portion, requests,
			      requests * SECOND_NS / (engine->now_ns - sample->since_ns + 1)))
			return given;
		left -= requests < left ? requests : left;
		given++;
	}
	if (shipment.batch.count > 0)
		ship(engine);
	return given;
}

/* Those not used for the longest time, and not lately.  Each may be expected to ask once in as much
 * time again. */
static uint64_t give_unused(struct engine *engine, const struct balance_plan *plan, uint64_t count)
{
	struct timeout *ring = &engine->keepalive.ring, *at, *next;
	struct portion portion = {plan->idle_at_once, 0, plan->for_newcomer};
	uint64_t given = 0, expected = 0;
	unsigned looked_at = 0;

	exchange_clear(&shipment.batch);
	for (at = ring->next; at != ring && given < count && looked_at < COUNT_MAX;
	     at = next, looked_at++) {
		struct conn *conn = conn_of_timeout(at);
		uint64_t unused = engine->now_ns - conn->timeout.since_ns;

		next = at->next;
		if (unused < UNUSED_NS || expected > plan->idle_millihertz)
			break;
		if (!may_move_again(engine, conn, plan->for_newcomer))
			continue;
		if (!give_one(engine, conn, &portion, 1, 0))
			return given;
		given++;
		expected += 1000 * (uint64_t)SECOND_NS / unused;
	}
	if (shipment.batch.count > 0)
		ship(engine);
	return given;
}

uint64_t conn_give_some(struct engine *engine, const struct balance_plan *plan,
			const struct conn_sample *sample)
{
	uint64_t given = give_used(engine, plan, sample);

	if (plan->idle > given)
		given += give_unused(engine, plan, plan->idle - given);
	return given;
}

/* Taking. */

static int read_payload(const struct exchange_item *item, char *to, size_t from, size_t len)
{
	size_t done = 0;

	if (item->payload) {
		memcpy(to, item->payload + from, len);
		return 0;
	}
	while (done < len) {
		ssize_t got = pread(item->memfd, to + done, len - done, (off_t)(from + done));

		if (got <= 0 && !(got < 0 && errno == EINTR))
			return -1;
		if (got > 0)
			done += (size_t)got;
	}
	return 0;
}

static int restore_output(struct request *request, const struct exchange_item *item)
{
	size_t len = item->record.output_len;
	char *copy;

	if (len == 0)
		return 0;
	request->arena.limit = SIZE_MAX;
	copy = arena_alloc(&request->arena, len);
	request->out = arena_alloc(&request->arena, sizeof *request->out);
	if (!copy || !request->out || read_payload(item, copy, item->record.input_len, len) < 0)
		return -1;
	request->out[0] = (struct iovec){copy, len};
	request->out_count = 1;
	return 0;
}

/* A chunked body goes on where it was: the head is parsed again, its decoded part is there. */
static int restore_chunked(struct request *request, const struct exchange_record *record)
{
	struct http_request *http = &request->http;
	size_t used;

	if (http_request_feed(http, request->buf, record->head_len, &used) != HTTP_MORE ||
	    http->phase != HTTP_PHASE_CHUNKED)
		return -1;
	return http_chunked_restore(http, record->input_len, record->chunk_state,
				    record->chunk_digits, record->chunk_left,
				    record->chunk_overhead);
}

/* NULL: no memory, or a record that makes no sense. */
static struct request *restore(struct engine *engine, const struct exchange_item *item)
{
	const struct exchange_record *record = &item->record;
	struct request *request = request_get(engine->pool, (size_t)record->input_len + 1);

	if (!request)
		return NULL;
	request->received_ns = record->received_ns;
	request->read_ns = engine->now_ns;
	request->continued = record->continued;
	request->replayed = record->replayed;
	if (read_payload(item, request->buf, 0, record->input_len) < 0)
		goto fail;
	request->len = record->input_len;
	if (record->head_len > 0 && restore_chunked(request, record) < 0)
		goto fail;
	if (restore_output(request, item) < 0)
		goto fail;
	return request;
fail:
	request_put(engine->pool, request);
	return NULL;
}

/* A listener that the configuration does not have gets a place behind those that it has; when all
 * are taken, the last is for all others. */
static size_t listener_of(struct engine *engine, uint64_t id)
{
	size_t count = engine->listener_id_count;
	size_t most = engine->config->listen_count + CONN_OTHER_LISTENERS;

	for (size_t i = 0; i < count; i++)
		if (engine->listener_ids[i] == id)
			return i;
	if (count == most)
		return most - 1;
	engine->listener_ids[count] = count + 1 < most ? id : 0;
	engine->listener_id_count++;
	return count;
}

/* Not more than that: handlers may run only when all of a message are safe in their places. */
static bool adopt(struct engine *engine, const struct exchange_item *item,
		  struct conn *taken[EXCHANGE_BATCH], unsigned *count)
{
	const struct exchange_record *record = &item->record;
	struct peer peer = {.family = record->family, .port = record->port};
	struct request *request = NULL;
	struct conn *conn;
	size_t listener = listener_of(engine, record->listener);

	if (record->state != EXCHANGE_IDLE && !(request = restore(engine, item)))
		return false;
	conn = conn_take_over(engine, item->fd);
	if (!conn) {
		request_put(engine->pool, request);
		return false;
	}
	memcpy(&peer.address, record->address, sizeof peer.address);
	conn->peer = peer;
	conn->unlisted = listener >= engine->config->listen_count;
	conn->listener = (uint16_t)listener;
	conn->served = record->served;
	conn->moves = record->moves;
	conn->evened = record->evened;
	conn->taken_ns = engine->now_ns;
	conn->closing = record->closing;
	conn->linger = record->linger;
	conn_choose_clock(conn);
	conn_adopt(conn, request);
	taken[(*count)++] = conn;
	return true;
}

/* The message at hand, and the first in it that is not in its place yet. */
static struct {
	struct exchange_batch batch;
	size_t at;
	unsigned next_fd;
} incoming;

bool conn_take_rest(struct exchange_item *item)
{
	return exchange_next(&incoming.batch, &incoming.at, &incoming.next_fd, item) > 0;
}

int conn_take(struct engine *engine, uint64_t room, struct balance_load *taken)
{
	struct exchange_batch *batch = &incoming.batch;
	struct conn *conns[EXCHANGE_BATCH];
	struct exchange_item item;
	size_t at = 0;
	unsigned next_fd = 0, adopted = 0, count;
	int result;

	incoming.at = incoming.next_fd = 0;
	if (exchange_receive(engine->args->exchange.take, batch) <= 0)
		return 0;
	/* The program that gave it may be gone: then nobody else will ever understand it. */
	if (exchange_is_newer(batch) && !engine->args->sole &&
	    exchange_put_back(engine->args->exchange.give, batch) == 0)
		return -1;
	while ((result = exchange_next(batch, &at, &next_fd, &item)) > 0) {
		if (adopted == EXCHANGE_BATCH || adopted >= room ||
		    !adopt(engine, &item, conns, &adopted))
			close(item.fd);
		taken->requests += item.record.rate;
		if (item.memfd >= 0)
			close(item.memfd);
		incoming.at = at;
		incoming.next_fd = next_fd;
	}
	/* A message that is not understood at all has had one connection per descriptor, for all we
	 * know. */
	count = exchange_count(batch) ? exchange_count(batch) : batch->fd_count;
	if (adopted < count)
		log_error("%u of %u connections of the exchange could not be taken: %s",
			  count - adopted, count,
			  result < 0 ? "message damaged or cut" : "no room, or damaged");
	for (; next_fd < batch->fd_count; next_fd++)
		close(batch->fds[next_fd]);
	incoming.next_fd = next_fd;
	taken->connections += adopted;
	engine_count(engine, COUNTER_lost, count > adopted ? count - adopted : 0);
	scoreboard_note_move(engine->slot, engine_clock(), 0);
	for (unsigned i = 0; i < adopted; i++)
		conn_resume(conns[i]);
	return 1;
}
