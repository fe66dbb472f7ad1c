/* SPDX-License-Identifier: MIT */
#ifndef WHITECAP_LOOP_H
#define WHITECAP_LOOP_H

/* What libev does not do for its own descriptors. */
struct ev_loop;

/*
 * Has signals wake the loop again where epoll had no room for the descriptor that tells of them;
 * else does nothing.  It is too late once a signal has come meanwhile: libev takes that one as told.
 */
void loop_hear_signals(struct ev_loop *loop);

/* The same after each wait, too: libev aborts when a signal has come and that descriptor is not
 * watched. */
void loop_guard_signals(struct ev_loop *loop);

#endif
