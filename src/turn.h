/* SPDX-License-Identifier: MIT */
/* Who waits for a turn, in order: a ring through those that do, and its head. */
#ifndef TURN_H
#define TURN_H

#include <stdbool.h>
#include <stddef.h>

struct turn {
	struct turn *next, *prev; /* NULL: does not wait */
};

static inline void turn_init(struct turn *ring)
{
	ring->next = ring->prev = ring;
}

static inline bool turn_is_awaited(const struct turn *turn)
{
	return turn->next;
}

/* The first in a ring; NULL: nobody waits. */
static inline struct turn *turn_first(const struct turn *ring)
{
	return ring->next == ring ? NULL : ring->next;
}

static inline void turn_await(struct turn *turn, struct turn *ring)
{
	turn->next = ring;
	turn->prev = ring->prev;
	ring->prev->next = turn;
	ring->prev = turn;
}

static inline void turn_leave(struct turn *turn)
{
	if (!turn->next)
		return;
	turn->next->prev = turn->prev;
	turn->prev->next = turn->next;
	turn->next = turn->prev = NULL;
}

#endif
