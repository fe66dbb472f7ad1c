/* SPDX-License-Identifier: MIT */
/*
 * whitecap.h: what a handler sees of the whitecap server.
 *
 * A handler is a shared object that exports one descriptor with WC_HANDLER().  It is loaded by
 * every worker process, after the fork and with the workers' rights, and runs on the worker's one
 * thread: no function here may be called from another thread, and none blocks.
 *
 *	static int hello(struct wc_request *req, void *state)
 *	{
 *		wc_header(req, "Content-Type", "text/plain");
 *		return wc_reply(req, 200, "hello world!", 12);
 *	}
 *
 *	WC_HANDLER(.name = "hello", .handle = hello);
 *
 * Build with `pkg-config --cflags whitecap`; see whitecap.h(3).
 */
#ifndef WHITECAP_H
#define WHITECAP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of this interface.  A handler built for another one is refused when it is loaded. */
#define WC_ABI 1

/*
 * A request.  The pointer is a ticket that only the functions below understand: it is checked at
 * every call, so one that is used after its request has ended is refused and never does harm.
 */
struct wc_request;

/* The worker process that runs the handler. */
struct wc_worker;

/* libev's loop; include <ev.h> (and link with -lev) to use it. */
struct ev_loop;

/* Octets somewhere in memory, not terminated by a NUL.  ptr is NULL where there is nothing. */
struct wc_span {
	const char *ptr;
	size_t len;
};

/* What `handle` returns.  Anything else is an error of the handler: 500. */
enum {
	WC_ERROR = -1,  /* the client is answered 500 */
	WC_DONE = 0,    /* the request is answered; what wc_reply() and its kin return */
	WC_PENDING = 1, /* the answer comes later, from a callback of the worker's loop */
};

struct wc_handler {
	unsigned abi;     /* WC_ABI; set by WC_HANDLER() */
	unsigned size;    /* sizeof(struct wc_handler); set by WC_HANDLER() */
	const char *name; /* for logs and statistics */

	/*
	 * Called once per worker and route, before the worker's first request.  `options` is the
	 * route's "options" from the configuration, a JSON object (an empty one where the
	 * configuration has none); it is borrowed and lives until fini.  *state is handed to the
	 * other functions; it starts as NULL.  Returns 0, or -1 after wc_log() has said why: then
	 * the server does not start, or the reload changes nothing.  May be NULL.
	 */
	int (*init)(void **state, const json_t *options, struct wc_worker *worker);

	/* Called once at the end of a worker, after its last request.  May be NULL. */
	void (*fini)(void *state);

	/* Answers a request, or takes it on (WC_PENDING). */
	int (*handle)(struct wc_request *req, void *state);

	/*
	 * True: a request may be run again by another worker when this one dies with it pending.
	 * Only for handlers whose requests have no effect but their answer.
	 */
	bool replay;
};

#define WC_EXPORT __attribute__((visibility("default")))

/* Defines and exports the descriptor. */
#define WC_HANDLER(...) \
	WC_EXPORT const struct wc_handler wc_handler_descriptor = { \
		.abi = WC_ABI, .size = sizeof(struct wc_handler), __VA_ARGS__}

/* The request.  Spans point into the server's input buffer and live until the request is answered.
 */

WC_EXPORT struct wc_span wc_method(struct wc_request *req); /* "GET", as sent */
WC_EXPORT struct wc_span wc_target(struct wc_request *req); /* the request target, as sent */
WC_EXPORT struct wc_span wc_path(struct wc_request *req);   /* up to the '?', not decoded */
WC_EXPORT struct wc_span wc_query(struct wc_request *req);  /* after the '?'; NULL without one */
WC_EXPORT struct wc_span wc_body(struct wc_request *req);   /* whole, chunks decoded */

/* The version: 10 for HTTP/1.0, 11 for HTTP/1.1. */
WC_EXPORT int wc_version(struct wc_request *req);

/* Value of the first field of that name, in whatever case; ptr is NULL where there is none. */
WC_EXPORT struct wc_span wc_get_header(struct wc_request *req, const char *name);

/* Field `index`, counted from 0 in the order sent.  False past the last. */
WC_EXPORT bool wc_get_header_at(struct wc_request *req, size_t index, struct wc_span *name,
				struct wc_span *value);

/*
 * Address of the client as text, NUL-terminated: "192.0.2.1:4711", "[2001:db8::1]:4711", or
 * "unix:". What a PROXY protocol header says, or X-Forwarded-For of trusted_proxies (there port 0
 * when none is named). Lives until the next call of this function.
 */
WC_EXPORT const char *wc_peer(struct wc_request *req);

/*
 * When the request was received: CLOCK_MONOTONIC, in ns.  That is when the first octets of it were
 * read, or with arrival_clock "kernel" when the last segment of these came.
 */
WC_EXPORT uint64_t wc_received(struct wc_request *req);

/*
 * Time in ns until the request's deadline (the route's "timeout", or with "shed.tmax" the bid
 * request's own tmax), 0 when it has passed, INT64_MAX without one.
 */
WC_EXPORT int64_t wc_remaining(struct wc_request *req);

/* The answer. */

/*
 * Adds a field.  Both texts are copied.  Returns 0; -1 when the name is no token, the value holds
 * CR, LF, NUL or another control octet, or the field is one that the server writes itself
 * (Connection, Content-Length, Date, Keep-Alive, Trailer, Transfer-Encoding, Upgrade).  After a -1
 * the answer will be 500: no answer goes out without a field that it was meant to have, so the
 * result need not be checked.
 */
WC_EXPORT int wc_header(struct wc_request *req, const char *name, const char *value);
WC_EXPORT int wc_header_span(struct wc_request *req, struct wc_span name, struct wc_span value);

/* Sets the reason phrase, instead of the status's usual one.  Copied; -1 as for wc_header(). */
WC_EXPORT int wc_reason(struct wc_request *req, const char *reason);

/*
 * Answers the request: status 200 to 599, body of `len` octets.  The memory of the body must stay
 * as it is until it is sent: static memory, memory of wc_alloc(), or the handler's own until fini.
 * Statuses 204 and 304 take no body: len must be 0.  Content-Length, Date and Connection are the
 * server's work; for HEAD the body is left out. Returns WC_DONE, or WC_ERROR: a mistake of the
 * handler (a second answer, a bad status or field), which is logged and answered 500 where that is
 * still possible.
 */
WC_EXPORT int wc_reply(struct wc_request *req, int status, const void *body, size_t len);

/* The same from several pieces.  The array itself is copied; what it points to is not. */
WC_EXPORT int wc_reply_iov(struct wc_request *req, int status, const struct iovec *iov, int count);

/* The same, with the body copied: the caller may do with its memory what it likes. */
WC_EXPORT int wc_reply_copy(struct wc_request *req, int status, const void *body, size_t len);

/*
 * Memory that lives until the request is answered and its answer sent, aligned for any type, not
 * cleared.  NULL when the request has used up its 1 MiB; then its answer will be 500: build
 * everything, and check once or not at all.
 */
WC_EXPORT void *wc_alloc(struct wc_request *req, size_t size);

/*
 * For pending requests: `cancel` is called at most once, when the client has left or the time ran
 * out (then the client is answered 504).  No answer is taken any more; the request and the memory
 * of wc_alloc() are gone when `cancel` returns.  Without it they stay until the handler answers,
 * and an answer that comes too late is dropped.
 */
WC_EXPORT void wc_on_cancel(struct wc_request *req,
			    void (*cancel)(struct wc_request *req, void *data), void *data);

/* The handler's state (init's *state) that belongs to the request. */
WC_EXPORT void *wc_state(struct wc_request *req);

/* The worker. */

WC_EXPORT struct wc_worker *wc_worker(struct wc_request *req);
WC_EXPORT struct ev_loop *wc_loop(struct wc_worker *worker);

/* The worker's number, from 0; a worker that replaces a dead one has its number again. */
WC_EXPORT unsigned wc_worker_id(struct wc_worker *worker);

enum wc_log_level { WC_LOG_ERROR, WC_LOG_WARN, WC_LOG_INFO, WC_LOG_DEBUG };

/* One line to the server's log, with the handler's name.  Control octets are escaped. */
WC_EXPORT void wc_log(struct wc_worker *worker, enum wc_log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * A counter of the handler's own, shown in the statistics under its route and name (at most 31
 * octets).  To be called in init; the same name gives the same counter.  A worker has room for
 * 64 counters; past that, counters are not shown.  Never NULL.
 */
struct wc_counter;
WC_EXPORT struct wc_counter *wc_counter(struct wc_worker *worker, const char *name);
WC_EXPORT void wc_count(struct wc_counter *counter, uint64_t n);

#ifdef __cplusplus
}
#endif

#endif
