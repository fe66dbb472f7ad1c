/* SPDX-License-Identifier: MIT */
/*
 * Connections leave for another process, and come from one, by way of the exchange.  One that is
 * between two requests is a few numbers; one inside a request takes its octets along; one with a
 * pending request waits for the answer.
 */
#ifndef CONN_MOVE_H
#define CONN_MOVE_H

#include <stdbool.h>
#include <stdint.h>

struct balance_load;
struct balance_plan;
struct conn;
struct engine;
struct exchange_item;
struct exchange_record;
struct iovec;
struct request;

/* So many listeners that the configuration does not have are told from each other. */
enum { CONN_OTHER_LISTENERS = 64 };

/*
 * Gives every connection that can be moved.  True: all are given; false: the exchange is full
 * (errno says of what), the rest goes on here.  The worker must no longer take.
 */
bool conn_give_all(struct engine *engine);

/* A time in which the requests of each connection are counted. */
struct conn_sample {
	uint64_t since_ns;
	uint16_t number; /* another one for each sample; 0: none */
};

/* Begins the sample: marks the connections that were used since `used_ns`. */
void conn_mark(struct engine *engine, const struct conn_sample *sample, uint64_t used_ns);

/*
 * For evenness: gives idle connections that were used in the sample, and such as were not lately,
 * as planned.  One that was taken a moment ago stays, so that none is passed to and fro.  Returns
 * how many it gave.
 */
uint64_t conn_give_some(struct engine *engine, const struct balance_plan *plan,
			const struct conn_sample *sample);

/*
 * What a record says of a connection, and of its request in progress: then also the pieces of its
 * payload, at most OUTPUT_IOV + 1, whose number is returned.  Async-signal-safe.
 */
void conn_describe(const struct engine *engine, const struct conn *conn,
		   struct exchange_record *record);
int conn_describe_request(const struct conn *conn, const struct request *request,
			  struct exchange_record *record, struct iovec *payload);

/*
 * Takes one message with connections, of which at most `room` stay; the others are lost.  1; 0:
 * there is none; -1: only newer programs understand it, so that it was put back, and the worker
 * must take no more.  What it took is added to `taken`, with the requests a second as far as they
 * are known.
 */
int conn_take(struct engine *engine, uint64_t room, struct balance_load *taken);

/*
 * For a worker that dies while conn_take() waits for memory: the next connection of its message
 * that is not in its place yet.  False: there is none.  Async-signal-safe.
 */
bool conn_take_rest(struct exchange_item *item);

#endif
