/* SPDX-License-Identifier: MIT */
/*
 * Timeouts of connections: one list per length of time, oldest first, with one libev timer for the
 * oldest (the linked-list scheme of libev's manual).  Starting and stopping one touches its
 * neighbours only, and nothing ticks while no timeout is near.
 */
#ifndef TIMEOUTS_H
#define TIMEOUTS_H

#include <ev.h>
#include <stdint.h>

struct timeout_list;

struct timeout {
	struct timeout *next, *prev; /* NULL: not running */
	struct timeout_list *list;
	uint64_t since_ns;
};

struct timeout_list {
	struct timeout ring;     /* its next is the oldest */
	uint64_t length_ns;      /* 0: never */
	uint64_t armed_since_ns; /* of the timeout that the timer is set for */
	uint64_t (*now)(void *data);
	void (*on_expired)(struct timeout *timeout, void *data); /* must stop or restart it */
	void *data;
	struct ev_loop *loop;
	ev_timer timer;
};

void timeout_list_init(struct timeout_list *list, struct ev_loop *loop, uint64_t length_ns,
		       uint64_t (*now)(void *data),
		       void (*on_expired)(struct timeout *timeout, void *data), void *data);
void timeout_list_stop(struct timeout_list *list);

/*
 * Begins, or begins anew, at `since_ns`.  It costs a step for each timeout of the list that began
 * later: none for those that begin now.
 */
void timeout_start(struct timeout *timeout, struct timeout_list *list, uint64_t since_ns);
void timeout_stop(struct timeout *timeout);

#endif
