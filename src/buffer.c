/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "buffer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

char *buffer_grow(char *buffer, size_t from, size_t to)
{
	char *grown;

	if (to <= BUFFER_MALLOC_MAX)
		return realloc(buffer, to);
	if (from > BUFFER_MALLOC_MAX) {
		grown = mremap(buffer, from, to, MREMAP_MAYMOVE);
		return grown == MAP_FAILED ? NULL : grown;
	}
	grown = mmap(NULL, to, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (grown == MAP_FAILED)
		return NULL;
	if (from > 0)
		memcpy(grown, buffer, from);
	free(buffer);
	return grown;
}

void buffer_free(char *buffer, size_t capacity)
{
	if (capacity > BUFFER_MALLOC_MAX)
		munmap(buffer, capacity);
	else
		free(buffer);
}
