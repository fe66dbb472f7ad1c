/* SPDX-License-Identifier: MIT */
/* Who asks for little does not queue with those who ask for much, nor with a crowd of newcomers. */
#include "autoconf.h"

#include <sys/socket.h>

#include "conn_parts.h"

enum {
	WAITING_AT_ONCE = 8, /* connections that go on in a turn of the loop */
	LARGE_MIN = 16384,   /* octets of a request that may wait */
};

#define TURN_NS 250000u /* after which a turn of the loop is a long one */

static uint64_t spent_ns(const struct engine *engine)
{
	return latency_now(&engine->latency) - engine->now_ns;
}

static void await(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	conn->held_back = true;
	if (!turn_is_awaited(&conn->turn))
		turn_await(&conn->turn, &engine->turns);
	ev_idle_start(engine->loop, &engine->more);
}

void conn_take_turns(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	conn_set_state(conn, CONN_SENDING);
	timeout_start(&conn->timeout, &engine->waiting, engine->now_ns);
	conn_watch(conn, 0);
	await(conn);
}

/* Nobody knows yet what a newcomer will ask for. */
static bool may_be_large(const struct conn *conn)
{
	switch (conn->state) {
	case CONN_IDLE:
		return conn->served == 0;
	case CONN_READING:
		return conn->served == 0 || conn->request->len >= LARGE_MIN;
	case CONN_PENDING:
		return false;
	default:
		return true;
	}
}

bool conn_lets_others_go_first(struct conn *conn)
{
	struct engine *engine = conn->io.data;

	if (spent_ns(engine) < TURN_NS || !may_be_large(conn))
		return false;
	ev_io_stop(engine->loop, &conn->io); /* conn_watch() would forget what for */
	await(conn);
	return true;
}

/* Once for each time that it had to wait: who sends octet by octet gains nothing by that. */
bool conn_was_held_back(struct conn *conn)
{
	bool was_held_back = conn->held_back;
	char octet;

	conn->held_back = turn_is_awaited(&conn->turn);
	return was_held_back && conn->state == CONN_READING && conn->request->len >= LARGE_MIN &&
	       (turn_is_awaited(&conn->turn) ||
		recv(conn->io.fd, &octet, 1, MSG_PEEK | MSG_DONTWAIT) > 0);
}

static void have_turn(struct conn *conn)
{
	struct engine *engine = conn->io.data;
	struct request *request = conn->request;

	turn_leave(&conn->turn);
	engine->processing = conn;
	if (conn->state == CONN_SENDING && request->out_count == 0) {
		timeout_stop(&conn->timeout);
		arena_reset(&request->arena);
		conn_process(conn, request);
	} else {
		ev_io_start(engine->loop, &conn->io);
		conn_on_event(conn);
	}
	engine->processing = NULL;
}

/* As long as a turn should last; when it lasts longer without them, they have a third of it. */
void conn_go_on(struct engine *engine)
{
	uint64_t before_ns = spent_ns(engine);
	uint64_t most_ns = before_ns + (before_ns / 2 > TURN_NS ? before_ns / 2 : TURN_NS);
	struct turn *first = turn_first(&engine->turns);

	for (int i = 0; first && i < WAITING_AT_ONCE && (i == 0 || spent_ns(engine) < most_ns); i++) {
		have_turn(conn_of_turn(first));
		first = turn_first(&engine->turns);
	}
	if (!first)
		ev_idle_stop(engine->loop, &engine->more);
}
