/* SPDX-License-Identifier: MIT */
/*
 * The handler of the tests of moving connections.  Every answer is "VERSION NUMBER\n", where the number is the
 * request's query, and what the path asks for besides: /echo the request's body, /big 2 MB that depend on the number, /wait/MS
 * nothing, but later; /wait/0 never; /worker the worker's process.
 */
#include <whitecap.h>

#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BIG = 2000000, SHIFTS = 256 };

static char pattern[BIG + SHIFTS];

struct later {
	ev_timer timer;
	struct wc_request *req;
	char text[64];
	int len;
};

static int init(void **state, const json_t *options, struct wc_worker *worker)
{
	const char *ballast = json_string_value(json_object_get(options, "ballast"));

	(void)state, (void)worker;
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (char)(i * 31 + (i >> 8) * 7);
	if (ballast) {
		char *memory = malloc((size_t)atol(ballast));

		memset(memory, 1, (size_t)atol(ballast));
		*state = memory;
	}
	return 0;
}

static void fini(void *state)
{
	free(state);
}

static int write_first(char *text, size_t size, struct wc_request *req)
{
	struct wc_span number = wc_query(req);

	return snprintf(text, size, "%s %.*s\n", VERSION, number.len < 32 ? (int)number.len : 32,
			number.ptr ? number.ptr : "");
}

static int reply(struct wc_request *req, const char *body, size_t len)
{
	char *first = wc_alloc(req, 64);
	int n = write_first(first, 64, req);
	struct iovec iov[] = {{first, (size_t)n}, {(char *)body, len}};

	return wc_reply_iov(req, 200, iov, 2);
}

/* A body of the request is gone once it is answered: so it is copied. */
static int echo(struct wc_request *req)
{
	struct wc_span body = wc_body(req);
	char *copy = wc_alloc(req, body.len + 1);

	memcpy(copy, body.ptr, body.len);
	return reply(req, copy, body.len);
}

static int big(struct wc_request *req)
{
	struct wc_span number = wc_query(req);

	return reply(req, pattern + atol(number.ptr) % SHIFTS, BIG);
}

static int worker(struct wc_request *req)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	return wc_reply_copy(req, 200, text, (size_t)n);
}

static void on_time(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct later *later = timer->data;

	(void)loop, (void)events;
	wc_reply_copy(later->req, 200, later->text, (size_t)later->len);
	free(later);
}

static void on_cancel(struct wc_request *req, void *data)
{
	struct later *later = data;

	ev_timer_stop(wc_loop(wc_worker(req)), &later->timer);
	free(later);
}

static int wait_for(struct wc_request *req, long ms)
{
	struct later *later = calloc(1, sizeof(*later));

	later->req = req;
	later->len = write_first(later->text, sizeof(later->text), req);
	ev_timer_init(&later->timer, on_time, (double)ms / 1000, 0.);
	later->timer.data = later;
	if (ms > 0)
		ev_timer_start(wc_loop(wc_worker(req)), &later->timer);
	wc_on_cancel(req, on_cancel, later);
	return WC_PENDING;
}

static bool begins(struct wc_span path, const char *with)
{
	return path.len >= strlen(with) && !memcmp(path.ptr, with, strlen(with));
}

static int handle(struct wc_request *req, void *state)
{
	struct wc_span path = wc_path(req);

	(void)state;
	if (begins(path, "/echo"))
		return echo(req);
	if (begins(path, "/big"))
		return big(req);
	if (begins(path, "/worker"))
		return worker(req);
	if (begins(path, "/wait/"))
		return wait_for(req, atol(path.ptr + 6));
	return reply(req, "", 0);
}

WC_HANDLER(.name = "move", .init = init, .fini = fini, .handle = handle);
