/* SPDX-License-Identifier: MIT */
/*
 * Memory that is given back all at once.  The first block belongs to the arena for good and one
 * more is kept over a reset, so that ordinary requests never call malloc.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *block;  /* the one in use; earlier ones are linked behind it */
	struct arena_block *spare;  /* kept over a reset, or NULL */
	size_t used;                /* octets handed out since the reset, each rounded up */
	size_t limit;               /* of `used` */
	bool overflow;              /* sticky until the reset: something did not fit */
};

/* 0, or -1: no memory. */
int arena_init(struct arena *arena, size_t limit);
void arena_fini(struct arena *arena);

/* Aligned for any type, not cleared.  NULL (and `overflow`) past the limit or without memory. */
void *arena_alloc(struct arena *arena, size_t size);
void arena_reset(struct arena *arena);

#endif
