/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "memory.h"

#include <setjmp.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RESERVE_SIZE = 65536 };

static bool has_lacked, is_parsing;

/* What jansson gets while it parses and there is nothing else.  When that is used up, too, parsing
 * is left, and what jansson had got is lost. */
static alignas(max_align_t) char reserve[RESERVE_SIZE];
static size_t reserve_used;
static jmp_buf out_of_reserve;

static void *note(void *memory)
{
	if (!memory)
		has_lacked = true;
	return memory;
}

static void *take_reserve(size_t size)
{
	char *at = reserve + reserve_used;

	size = (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
	if (size > RESERVE_SIZE - reserve_used)
		longjmp(out_of_reserve, 1);
	reserve_used += size;
	return at;
}

static void *allocate(size_t size)
{
	void *memory = note(malloc(size));

	return memory || !is_parsing ? memory : take_reserve(size);
}

static void release(void *memory)
{
	uintptr_t at = (uintptr_t)memory, start = (uintptr_t)reserve;

	if (at < start || at >= start + RESERVE_SIZE)
		free(memory);
}

void memory_watch_json(void)
{
	has_lacked = false;
	json_set_alloc_funcs(allocate, release);
}

json_t *memory_parse_json(const char *text, size_t len, size_t flags, json_error_t *error)
{
	bool had_lacked = has_lacked;
	json_t *volatile root = NULL;

	memory_watch_json();
	is_parsing = true;
	reserve_used = 0;
	if (setjmp(out_of_reserve) == 0)
		root = json_loadb(text, len, flags, error);
	is_parsing = false;
	if (has_lacked) {
		json_decref(root);
		root = NULL;
		if (error)
			*error = (json_error_t){.text = "out of memory"};
	}
	has_lacked = has_lacked || had_lacked;
	return root;
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
