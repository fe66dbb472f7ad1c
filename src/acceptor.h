/* SPDX-License-Identifier: MIT */
/*
 * New connections: a few at each wake-up of a shared listening socket, and none for a moment by a
 * worker that already has more than its share, so that the others get them.
 */
#ifndef ACCEPTOR_H
#define ACCEPTOR_H

#include <stdint.h>

struct acceptor;
struct engine;

/* Begins to accept on all listeners of the engine's arguments.  NULL: no memory. */
struct acceptor *acceptor_start(struct engine *engine);

/* For how many more connections descriptors are left. */
uint64_t acceptor_room(const struct acceptor *acceptor);

/* Accepts all that waits, before the listeners are closed for good. */
void acceptor_take_waiting(struct acceptor *acceptor);
void acceptor_stop(struct acceptor *acceptor);

#endif
