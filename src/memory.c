/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "memory.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static bool has_lacked;

static void *note(void *memory)
{
	if (!memory)
		has_lacked = true;
	return memory;
}

static void *allocate(size_t size)
{
	return note(malloc(size));
}

void memory_watch_json(void)
{
	has_lacked = false;
	json_set_alloc_funcs(allocate, free);
}

char *memory_copy(const char *text)
{
	return note(strdup(text));
}

void *memory_get(size_t count, size_t size)
{
	return note(calloc(count, size));
}

bool memory_has_lacked(void)
{
	return has_lacked;
}
