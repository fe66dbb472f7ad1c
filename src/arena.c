/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

enum { FIRST_BLOCK = 8192, BLOCK = 65536 };

struct arena_block {
	struct arena_block *next;
	size_t size, used;
	alignas(max_align_t) char data[];
};

static struct arena_block *block_new(size_t size)
{
	struct arena_block *block = malloc(sizeof *block + size);

	if (block)
		*block = (struct arena_block){.size = size};
	return block;
}

int arena_init(struct arena *arena, size_t limit)
{
	*arena = (struct arena){.block = block_new(FIRST_BLOCK), .limit = limit};
	return arena->block ? 0 : -1;
}

void arena_fini(struct arena *arena)
{
	if (!arena->block)
		return;
	arena_reset(arena);
	free(arena->spare);
	free(arena->block);
	arena->block = arena->spare = NULL;
}

/* Puts a block with room for `size` in front. */
static struct arena_block *block_add(struct arena *arena, size_t size)
{
	struct arena_block *block = arena->spare;

	if (block && block->size >= size)
		arena->spare = NULL;
	else
		block = block_new(size > BLOCK ? size : BLOCK);
	if (block) {
		block->used = 0;
		block->next = arena->block;
		arena->block = block;
	}
	return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	size_t align = alignof(max_align_t);
	struct arena_block *block = arena->block;

	if (size > PTRDIFF_MAX || arena->used + size > arena->limit)
		goto overflow;
	size = (size + align - 1) & ~(align - 1);
	if (block->size - block->used < size) {
		block = block_add(arena, size);
		if (!block)
			goto overflow;
	}
	block->used += size;
	arena->used += size;
	return block->data + block->used - size;
overflow:
	arena->overflow = true;
	return NULL;
}

void arena_reset(struct arena *arena)
{
	struct arena_block *block;

	while ((block = arena->block)->next) {
		arena->block = block->next;
		if (!arena->spare && block->size == BLOCK)
			arena->spare = block;
		else
			free(block);
	}
	block->used = 0;
	arena->used = 0;
	arena->overflow = false;
}
