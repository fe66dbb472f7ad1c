/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "timeouts.h"

#include <stddef.h>

enum { EXPIRED_AT_ONCE = 64 }; /* then what came meanwhile has its turn */

static void arm(struct timeout_list *list, uint64_t now_ns)
{
	uint64_t due = list->ring.next->since_ns + list->length_ns;
	double after = due > now_ns ? (double)(due - now_ns) / 1e9 : 0;

	list->armed_since_ns = list->ring.next->since_ns;
	ev_timer_stop(list->loop, &list->timer);
	ev_timer_set(&list->timer, after, 0.);
	ev_timer_start(list->loop, &list->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct timeout_list *list = timer->data;
	uint64_t now_ns = list->now(list->data);
	struct timeout *oldest;

	(void)loop, (void)events;
	for (int left = EXPIRED_AT_ONCE; (oldest = list->ring.next) != &list->ring; left--) {
		if (left == 0 || oldest->since_ns + list->length_ns > now_ns) {
			arm(list, now_ns);
			return;
		}
		list->on_expired(oldest, list->data);
	}
}

void timeout_list_init(struct timeout_list *list, struct ev_loop *loop, uint64_t length_ns,
		       uint64_t (*now)(void *data),
		       void (*on_expired)(struct timeout *timeout, void *data), void *data)
{
	*list = (struct timeout_list){.length_ns = length_ns,
				      .now = now,
				      .on_expired = on_expired,
				      .data = data,
				      .loop = loop};
	list->ring.next = list->ring.prev = &list->ring;
	ev_init(&list->timer, on_timer);
	list->timer.data = list;
}

void timeout_list_stop(struct timeout_list *list)
{
	ev_timer_stop(list->loop, &list->timer);
}

void timeout_stop(struct timeout *timeout)
{
	if (!timeout->next)
		return;
	timeout->next->prev = timeout->prev;
	timeout->prev->next = timeout->next;
	timeout->next = timeout->prev = NULL;
}

void timeout_start(struct timeout *timeout, struct timeout_list *list, uint64_t since_ns)
{
	struct timeout *before;

	timeout_stop(timeout);
	before = list->ring.prev;
	while (before != &list->ring && before->since_ns > since_ns)
		before = before->prev;
	timeout->list = list;
	timeout->since_ns = since_ns;
	timeout->prev = before;
	timeout->next = before->next;
	timeout->next->prev = before->next = timeout;
	/* An armed timer that comes too early looks again. */
	if (list->length_ns > 0 &&
	    (!ev_is_active(&list->timer) || since_ns < list->armed_since_ns))
		arm(list, list->now(list->data));
}
