/* SPDX-License-Identifier: MIT */
#ifndef WHITECAP_LOOP_H
#define WHITECAP_LOOP_H

/* What libev does not do for its own descriptors. */
struct ev_loop;

/* Has signals wake the loop again where epoll had no room for the descriptor that tells of them;
 * else does nothing. */
void loop_hear_signals(struct ev_loop *loop);

#endif
