/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "loop.h"

#include <ev.h>

static void on_nothing(struct ev_loop *loop, ev_async *async, int events)
{
	(void)loop, (void)async, (void)events;
}

/* The start of any such watcher opens and watches that descriptor if it is not watched. */
void loop_hear_signals(struct ev_loop *loop)
{
	ev_async async;

	ev_async_init(&async, on_nothing);
	ev_async_start(loop, &async);
	ev_async_stop(loop, &async);
}

static void on_wait(struct ev_loop *loop)
{
	(void)loop;
}

void loop_guard_signals(struct ev_loop *loop)
{
	ev_set_loop_release_cb(loop, on_wait, loop_hear_signals);
}
