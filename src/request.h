/* SPDX-License-Identifier: MIT */
/*
 * Requests as a worker holds them: input buffer, parser, arena, answer.  They come from a pool and
 * go back to it; what is in use at a time is one per request in progress, and an idle connection
 * has none.
 *
 * Handlers know a request by a ticket (struct wc_request *): its place in the pool's table and its
 * generation, which changes whenever the request ends.  A stale ticket is thus told from a live
 * one at every use.
 */
#ifndef REQUEST_H
#define REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "arena.h"
#include "http_request.h"
#include "quarantine.h"
#include "span.h"

struct conn;
struct engine;
struct route;

enum {
	REQUEST_READ_SIZE = 65536,   /* input buffer of the engine's current request */
	REQUEST_ARENA_MAX = 1048576, /* what a handler gets from wc_alloc() */
	REQUEST_FIELDS_FIRST = 1024,
};

enum request_state {
	REQUEST_READING,   /* not whole yet, or between two requests */
	REQUEST_HANDLING,  /* its handler runs */
	REQUEST_PENDING,   /* its handler will answer later */
	REQUEST_ANSWERED,  /* pending no more; its answer waits to be sent */
	REQUEST_CANCELLED, /* its handler is being told so */
};

/* How the request that a ticket named has ended, for the word in the log when it is used again. */
enum request_end { REQUEST_END_ANSWERED, REQUEST_END_CANCELLED };

struct answer {
	int status;        /* 0: none yet */
	int count;         /* of pieces */
	size_t len;        /* of the body */
	struct iovec *iov; /* in the arena, or &one */
	struct iovec one;
};

struct request {
	struct engine *engine;
	struct conn *conn; /* NULL: the client has gone, the handler was not told */
	const struct route *route;
	uint64_t generation;
	uint32_t index; /* in the pool's table */
	enum request_state state;
	bool ticketed;            /* a handler has seen this generation */
	enum request_end ended;   /* how the generation before did */
	const char *handler_name; /* of the last handler that saw it */
	uint64_t received_ns;     /* first octet; 0: none yet */
	uint64_t read_ns;         /* the octets that were read last: requests behind this one came by then */
	uint64_t deadline_ns;     /* 0: none */
	uint64_t handled_ns;      /* when the handler was called, as of the loop's turn */
	uint64_t handled_ticks;   /* the same, in ticks_now() */
	uint64_t handler_ns;      /* how long it took to answer; 0: it has not */
	uint64_t print;           /* in the quarantine, while that is used; 0: none */

	struct answer answer;
	struct wc_span plain; /* the body, decompressed, in the arena; ptr NULL: it came plain */
	bool replayed;        /* a worker has died with it */
	bool continued;       /* 100 (Continue) was sent */
	const char *mistake;  /* the handler's first one: the answer will be 500 */
	char *fields;         /* ready lines */
	size_t fields_len, fields_cap;
	char fields_first[REQUEST_FIELDS_FIRST];
	struct wc_span reason;
	void (*cancel)(struct wc_request *req, void *data);
	void *cancel_data;

	struct arena arena;
	struct iovec *out; /* unsent output, in the arena */
	int out_count;
	int unacknowledged; /* octets of it, when it last got on */

	char *buf; /* input; the request's first octet is at pos */
	size_t cap, len, pos;
	size_t used;              /* octets of the request at pos, once it is whole */
	struct request *next;     /* in the pool's free list, or the engine's answered list */
	struct http_request http; /* last: has a flexible array */
};

struct request_pool;

/* NULL: no memory. */
struct request_pool *request_pool_new(struct engine *engine, const struct http_limits *limits);
void request_pool_free(struct request_pool *pool);

/* A request with room for at least `size` octets of input.  NULL: no memory. */
struct request *request_get(struct request_pool *pool, size_t size);
void request_put(struct request_pool *pool, struct request *request);

/* Room for `room` more octets behind len.  0, or -1: no memory. */
int request_reserve(struct request *request, size_t room);

/* As new: no input, no output. */
void request_reset(struct request *request);

/* Ends the request at hand: its ticket is stale from now on, its answer forgotten. */
void request_end(struct request *request, enum request_end how);

/* Copies the octets behind `from`, and how far they were parsed, into an empty request. -1: no
 * memory. */
int request_copy_rest(struct request *to, const struct request *from);

/* Whether that is a request of the pool.  Async-signal-safe, but for a fault where the pointer
 * leads nowhere. */
bool request_is_known(const struct request_pool *pool, const struct request *request);

static inline struct wc_span request_body(const struct request *request)
{
	if (request->plain.ptr)
		return request->plain;
	return (struct wc_span){request->buf + request->pos + request->http.head_len,
				(size_t)request->http.body_len};
}

/* What the quarantine knows it by.  request->plain is there, where it has one. */
struct quarantine_request request_octets(const struct request *request);

struct wc_request *request_ticket(struct request *request);

/* NULL: the ticket is stale or none, which is the handler's mistake, and has been logged. */
struct request *request_of(struct wc_request *ticket);

#endif
