/* SPDX-License-Identifier: MIT */
/*
 * One client connection.  What it is between two requests is all in this struct: an fd, a few
 * numbers, no buffer.  Inside a request it holds a struct request: the request's octets so far, and
 * unsent output.
 */
#ifndef CONN_H
#define CONN_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "peer.h"
#include "timeouts.h"
#include "turn.h"

struct engine;
struct request;

enum conn_state {
	CONN_IDLE,      /* between two requests: keep-alive timeout */
	CONN_READING,   /* part of a request is here: request timeout */
	CONN_PENDING,   /* a handler will answer later: its route's timeout */
	CONN_SENDING,   /* the client does not take our output: send timeout; without any: it waits
			   for its next turn */
	CONN_LINGERING, /* our side is shut; what the client still sends is dropped */
	CONN_PROXIED,   /* its PROXY header is not here yet: request timeout.  Not moved */
};

struct conn {
	ev_io io;
	struct timeout timeout;
	struct turn turn;        /* awaited: its next event, or the rest of what was read */
	struct request *request; /* NULL unless inside a request */
	uint32_t served;         /* requests so far */
	uint16_t listener;       /* index in the engine's listener_ids */
	uint8_t state;           /* enum conn_state */
	bool closing;            /* after the output that is due */
	bool linger;             /* then wait for the client to close its side */
	bool unlisted;           /* its listener is no more: closed after its request */
	bool stamped;            /* arrival_clock "kernel" */
	bool held_back;          /* had to wait for a turn */
	bool heard;              /* an event of it has come */
	uint16_t moves;          /* how often it was taken over */
	uint8_t evened;          /* of these, for evenness: see balance_stay_ns() */
	uint16_t sample, mark;   /* the sample it was marked in, and `served` as of then */
	struct peer peer;
	uint64_t taken_ns;       /* the last time, or when it was accepted */
	uint64_t drained_ns;     /* stamped: nothing was left to read; 0: not known */
};

/*
 * Takes on a connected non-blocking socket that the caller has counted as active.  0, or -1: no
 * memory (then the socket is closed, and the count the caller's to take back).
 */
int conn_open(struct engine *engine, int fd, const struct peer *peer, unsigned listener);

/* At the end of a turn of the loop, while engine->more is active: a few of those that wait have
 * their next turn. */
void conn_go_on(struct engine *engine);

/* A pending request of the connection has been answered by its handler. */
void conn_answered(struct conn *conn);

/* Closes idle connections with nothing to read, and has the others close after their answers. */
void conn_drain_all(struct engine *engine);
void conn_close_all(void);

/* Moving; see conn_move.h. */

/* The connection has been given to another process: nothing of it stays here. */
void conn_forget(struct conn *conn);

/* A connection that comes from another process, counted.  Its fields are the caller's to set. NULL:
 * no memory. */
struct conn *conn_take_over(struct engine *engine, int fd);

/* Whether its requests count as received when the kernel got them; its peer and listener are set. */
void conn_choose_clock(struct conn *conn);

/* Puts it into the middle of `request`, unless that is NULL.  It can be given away again from now
 * on. */
void conn_adopt(struct conn *conn, struct request *request);

/* Goes on with it. */
void conn_resume(struct conn *conn);

static inline struct conn *conn_of_turn(struct turn *turn)
{
	return (struct conn *)((char *)turn - offsetof(struct conn, turn));
}

static inline struct conn *conn_of_timeout(struct timeout *timeout)
{
	return (struct conn *)((char *)timeout - offsetof(struct conn, timeout));
}

/* What the timeout lists of the engine call. */
void conn_on_keepalive_expired(struct timeout *timeout, void *engine);
void conn_on_request_expired(struct timeout *timeout, void *engine);
void conn_on_handler_expired(struct timeout *timeout, void *engine);
void conn_on_send_expired(struct timeout *timeout, void *engine);
void conn_on_linger_expired(struct timeout *timeout, void *engine);
void conn_on_unwatched_expired(struct timeout *timeout, void *engine);

#endif
