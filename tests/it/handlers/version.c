/* SPDX-License-Identifier: MIT */
/* Answers with the VERSION that it was compiled with; "?n=MS" answers so much later. */
#include <whitecap.h>

#include <ev.h>
#include <stdlib.h>
#include <string.h>

struct later {
	ev_timer timer;
	struct wc_request *req;
};

static void on_time(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct later *later = timer->data;

	(void)loop, (void)events;
	wc_reply(later->req, 200, VERSION, strlen(VERSION));
}

static int handle(struct wc_request *req, void *state)
{
	struct wc_span query = wc_query(req);
	struct later *later;

	(void)state;
	if (!query.ptr)
		return wc_reply(req, 200, VERSION, strlen(VERSION));
	later = wc_alloc(req, sizeof(*later));
	later->req = req;
	ev_timer_init(&later->timer, on_time, atoi(query.ptr + 2) / 1000., 0.);
	later->timer.data = later;
	ev_timer_start(wc_loop(wc_worker(req)), &later->timer);
	return WC_PENDING;
}

WC_HANDLER(.name = "version", .handle = handle, .replay = true);
