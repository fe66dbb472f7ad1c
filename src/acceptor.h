/* SPDX-License-Identifier: MIT */
/*
 * New connections: a few at each wake-up of a shared listening socket, and none for a moment by a
 * worker that already has more than its share, so that the others get them.
 */
#ifndef ACCEPTOR_H
#define ACCEPTOR_H

#include <stdbool.h>

struct acceptor;
struct engine;

/* Begins to accept on all listeners of the engine's arguments.  NULL: no memory. */
struct acceptor *acceptor_start(struct engine *engine);

/* Whether descriptors for `count` more connections are left. */
bool acceptor_has_room(const struct acceptor *acceptor, unsigned count);
void acceptor_stop(struct acceptor *acceptor);

#endif
