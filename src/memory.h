/* SPDX-License-Identifier: MIT */
#ifndef WHITECAP_MEMORY_H
#define WHITECAP_MEMORY_H

/*
 * Lack of memory where it can't be told from something else: jansson leaves out what it has no room
 * for, and a value that can't be copied looks like one that is refused.  Floor 0; one thread at a
 * time.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Has jansson allocate by malloc() and free(), and forgets what was lacking before. */
void memory_watch_json(void);

/*
 * As json_loadb(), and NULL when memory was lacking on the way: a text that jansson can't keep whole it
 * reads past the end of.
 */
json_t *memory_parse_json(const char *text, size_t len, size_t flags, json_error_t *error);

/* As strdup() and calloc(), but noted when they fail. */
char *memory_copy(const char *text);
void *memory_get(size_t count, size_t size);

/* Whether one of these, or an allocation of jansson, has failed since memory_watch_json(). */
bool memory_has_lacked(void);

#endif
