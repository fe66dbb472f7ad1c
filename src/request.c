/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "engine.h"
#include "log.h"

enum {
	BUFFER_FIRST = 4096,
	FREE_KEPT = 64,        /* free requests that keep their buffers */
	TICKET_INDEX_BITS = 20,
};

_Static_assert(sizeof(uintptr_t) == 8, "tickets need 64-bit pointers");

struct request_pool {
	struct engine *engine;
	const struct http_limits *limits;
	struct request **table;
	uint32_t count, room;    /* of the table */
	struct request *free;
	uint32_t free_count;
};

/* Tickets carry no pool: there is one per process. */
static struct request_pool *pool_in_use;

struct request_pool *request_pool_new(struct engine *engine, const struct http_limits *limits)
{
	struct request_pool *pool = calloc(1, sizeof *pool);

	if (!pool)
		return NULL;
	pool->engine = engine;
	pool->limits = limits;
	pool_in_use = pool;
	return pool;
}

static void drop_buffers(struct request *request)
{
	arena_fini(&request->arena);
	buffer_free(request->buf, request->cap);
	request->buf = NULL;
	request->cap = 0;
}

void request_pool_free(struct request_pool *pool)
{
	if (!pool)
		return;
	for (uint32_t i = 0; i < pool->count; i++) {
		drop_buffers(pool->table[i]);
		free(pool->table[i]);
	}
	free(pool->table);
	free(pool);
	pool_in_use = NULL;
}

static struct request *request_new(struct request_pool *pool)
{
	struct request *request;

	if (pool->count == pool->room) {
		uint32_t room = pool->room ? 2 * pool->room : 64;
		struct request **table;

		if (room > 1u << TICKET_INDEX_BITS)
			return NULL;
		table = realloc(pool->table, room * sizeof(struct request *));
		if (!table)
			return NULL;
		pool->table = table;
		pool->room = room;
	}
	request = calloc(1, offsetof(struct request, http) + http_request_size(pool->limits));
	if (!request)
		return NULL;
	request->engine = pool->engine;
	request->index = pool->count;
	pool->table[pool->count++] = request;
	return request;
}

int request_reserve(struct request *request, size_t room)
{
	size_t cap = request->cap ? request->cap : BUFFER_FIRST;
	char *buf;

	if (request->cap - request->len >= room)
		return 0;
	while (cap - request->len < room)
		cap *= 2;
	buf = buffer_grow(request->buf, request->cap, cap);
	if (!buf)
		return -1;
	request->buf = buf;
	request->cap = cap;
	return 0;
}

static void clear(struct request *request)
{
	request->answer.status = 0;
	request->mistake = NULL;
	request->fields = request->fields_first;
	request->fields_len = 0;
	request->fields_cap = sizeof request->fields_first;
	request->reason.ptr = NULL;
	request->plain.ptr = NULL;
	request->cancel = NULL;
	request->continued = request->replayed = false;
	request->state = REQUEST_READING;
	request->received_ns = request->deadline_ns = request->print = 0;
	request->handler_ns = 0;
	request->route = NULL;
}

void request_reset(struct request *request)
{
	request->conn = NULL;
	request->len = request->pos = request->used = 0;
	request->out = NULL;
	request->out_count = 0;
	clear(request);
	arena_reset(&request->arena);
	http_request_init(&request->http, pool_in_use->limits);
}

static struct request *get(struct request_pool *pool, size_t size)
{
	struct request *request = pool->free;

	if (request) {
		pool->free = request->next;
		pool->free_count--;
	} else if (!(request = request_new(pool))) {
		return NULL;
	}
	request->next = NULL;
	if (!request->arena.block && arena_init(&request->arena, REQUEST_ARENA_MAX) < 0)
		goto fail;
	request_reset(request);
	if (request_reserve(request, size) == 0)
		return request;
fail:
	request_put(pool, request);
	return NULL;
}

struct request *request_get(struct request_pool *pool, size_t size)
{
	struct request *request;

	pool->engine->allocating = true;
	request = get(pool, size);
	pool->engine->allocating = false;
	return request;
}

/* One that no handler has seen needs no new generation. */
static void end_ticket(struct request *request, enum request_end how)
{
	if (!request->ticketed)
		return;
	request->ticketed = false;
	request->generation++;
	request->ended = how;
}

void request_put(struct request_pool *pool, struct request *request)
{
	if (!request)
		return;
	assert(!request->next);
	end_ticket(request, REQUEST_END_ANSWERED);
	if (request->arena.block)
		arena_reset(&request->arena);
	if (pool->free_count >= FREE_KEPT || request->cap > REQUEST_READ_SIZE)
		drop_buffers(request);
	request->next = pool->free;
	pool->free = request;
	pool->free_count++;
}

void request_end(struct request *request, enum request_end how)
{
	end_ticket(request, how);
	clear(request);
}

struct quarantine_request request_octets(const struct request *request)
{
	return (struct quarantine_request){
		.head = {request->buf + request->pos, request->http.head_len},
		.body = request_body(request),
		.generation = request->engine->args->generation,
	};
}

int request_copy_rest(struct request *to, const struct request *from)
{
	size_t rest = from->len - from->pos;

	if (request_reserve(to, rest) < 0)
		return -1;
	memcpy(to->buf, from->buf + from->pos, rest);
	to->len = rest;
	to->received_ns = from->received_ns;
	to->read_ns = from->read_ns;
	to->continued = from->continued;
	to->replayed = from->replayed;
	memcpy(&to->http, &from->http,
	       sizeof to->http + from->http.field_count * sizeof(struct http_field));
	return 0;
}

bool request_is_known(const struct request_pool *pool, const struct request *request)
{
	return request->index < pool->count && pool->table[request->index] == request;
}

struct wc_request *request_ticket(struct request *request)
{
	request->ticketed = true;
	return (struct wc_request *)(uintptr_t)((request->generation << TICKET_INDEX_BITS) +
						request->index + 1);
}

struct request *request_of(struct wc_request *ticket)
{
	uintptr_t value = (uintptr_t)ticket - 1;
	uint32_t index = value & ((1u << TICKET_INDEX_BITS) - 1);
	struct request *request;

	if (index >= pool_in_use->count) {
		log_error("handler ?: used something that is no request");
		return NULL;
	}
	request = pool_in_use->table[index];
	if (request->generation == value >> TICKET_INDEX_BITS)
		return request;
	log_error("handler %s: used a request after %s",
		  request->handler_name ? request->handler_name : "?",
		  request->generation != (value >> TICKET_INDEX_BITS) + 1 ? "its end"
		  : request->ended == REQUEST_END_CANCELLED		   ? "it was cancelled"
									   : "it was answered");
	return NULL;
}
