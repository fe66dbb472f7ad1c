/* SPDX-License-Identifier: MIT */
/*
 * What the files of a connection share, and nobody else includes: conn.c (its events, how it
 * begins and moves), conn_input.c (reading), conn_turns.c (who waits for whom), conn_state.c (what it
 * holds, how it ends), conn_output.c (sending) and conn_expire.c (timeouts and draining).
 */
#ifndef CONN_PARTS_H
#define CONN_PARTS_H

#include "conn.h"
#include "engine.h"
#include "request.h"

static inline void conn_gauge_add(_Atomic uint64_t *gauge, int n)
{
	scoreboard_add(gauge, (uint64_t)(int64_t)n);
}

static inline void conn_set_state(struct conn *conn, enum conn_state state)
{
	struct engine *engine = conn->io.data;

	if ((conn->state == CONN_IDLE) != (state == CONN_IDLE))
		conn_gauge_add(&engine->slot->busy, state == CONN_IDLE ? -1 : 1);
	conn->state = (uint8_t)state;
}

static inline void conn_watch(struct conn *conn, int events)
{
	struct engine *engine = conn->io.data;

	if (ev_is_active(&conn->io) && (conn->io.events & (EV_READ | EV_WRITE)) == events)
		return;
	ev_io_stop(engine->loop, &conn->io);
	ev_io_modify(&conn->io, events);
	if (events)
		ev_io_start(engine->loop, &conn->io);
}

/* conn_state.c */

/*
 * The handler of a pending request is told that it is over, and the request ends.  One that can't
 * be told keeps its request until it answers.
 */
void conn_cancel(struct conn *conn);

/* Gives back what the connection holds of a request. */
void conn_release(struct conn *conn);

/* Makes the engine's current request the connection's own, and another one the current.  -1: no
 * memory. */
int conn_hold(struct conn *conn, struct request *request);

/* Each of these is the end of it here: without a word, counted, after its last output, and for a
 * reason. */
void conn_drop(struct conn *conn);
void conn_close(struct conn *conn);
void conn_finish(struct conn *conn);
void conn_send_failed(struct conn *conn);
void conn_out_of_memory(struct conn *conn);
void conn_unwatched(struct conn *conn);

/* Shuts our side and reads on until the client has closed its own, so that no reset loses our last
 * octets. */
void conn_start_linger(struct conn *conn);

/* conn_input.c: what came in, while the connection... */

/* ...is between requests, or inside one. */
void conn_on_readable(struct conn *conn);

/* ...waits for its handler: what the client sends next is kept, as far as there is room. */
void conn_on_pending_readable(struct conn *conn);

/* ...is read on only so that the client closes first. */
void conn_on_lingering(struct conn *conn);

/* ...has to begin with a PROXY protocol header.  Nothing is answered before that is whole: who does
 * not send one is no client.  The timeout began when it was accepted. */
void conn_on_proxy_header(struct conn *conn);

/* conn_output.c */

/* Octets of the output that the client has not acknowledged; -1: unknown. */
int conn_unacknowledged(const struct conn *conn);

/* Sends the engine's output.  Unless all of it went, the connection is now SENDING, or gone. */
bool conn_flush(struct conn *conn, struct request *request);
void conn_on_writable(struct conn *conn);

/* conn_turns.c */

/* What was read of its request stays as it is until its turn. */
void conn_take_turns(struct conn *conn);

/* Whether its event has to wait for a turn: this one of the loop lasts long, and that may be much
 * work. */
bool conn_lets_others_go_first(struct conn *conn);

/* Whether more of its large request has been here, but had to wait for a turn, since the last time
 * that this was asked: that is not the client's time. */
bool conn_was_held_back(struct conn *conn);

/* conn.c */

void conn_on_event(struct conn *conn);

/* Goes on with what has been read, as far as the client takes our responses. */
void conn_process(struct conn *conn, struct request *request);

/* The request at pos has been answered: on to the next one. */
void conn_advance(struct engine *engine, struct request *request);

/* An answer by which the connection ends. */
void conn_refuse(struct conn *conn, struct request *request, int status);

/* The shared buffer is free again, what is left of it is the connection's own.  False: closed. */
bool conn_keep_rest(struct conn *conn, struct request *request);

/* conn_expire.c */

/* An idle connection is to go: a request that is already here is answered first. */
void conn_retire(struct conn *conn);

#endif
