/* SPDX-License-Identifier: MIT */
/*
 * Memory that grows.  Large buffers are mappings of their own: they grow by moving pages, not octets,
 * and what was never written takes none.
 */
#ifndef BUFFER_H
#define BUFFER_H

#include <stddef.h>

enum { BUFFER_MALLOC_MAX = 65536 };

/* As realloc(), from a capacity, 0 where there is none yet, to a larger one. */
char *buffer_grow(char *buffer, size_t from, size_t to);
void buffer_free(char *buffer, size_t capacity);

#endif
