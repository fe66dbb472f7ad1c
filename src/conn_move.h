/* SPDX-License-Identifier: MIT */
/*
 * Connections leave for another process, and come from one, by way of the exchange.  One that is between two requests
 * is a few numbers; one inside a request takes its octets along; one with a pending request waits for the answer.
 */
#ifndef CONN_MOVE_H
#define CONN_MOVE_H

#include <stdbool.h>

struct engine;

/*
 * Gives every connection that can be moved.  True: all are given; false: the exchange is full (errno says of what), the
 * rest goes on here.  The worker must no longer take.
 */
bool conn_give_all(struct engine *engine);

/* Takes one message with connections.  False: there is none. */
bool conn_take(struct engine *engine);

#endif
