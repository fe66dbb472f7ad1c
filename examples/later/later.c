/* SPDX-License-Identifier: MIT */
/*
 * Answers after a while, without holding up the worker: a timer of the worker's own loop answers,
 * and is stopped when the client leaves or the time runs out before.
 */
#include <ev.h>
#include <stdlib.h>
#include <whitecap.h>

struct later {
	double delay_s;
	struct wc_counter *cancelled;
};

/* In the heap, not in wc_alloc()'s memory: it is still needed in on_cancel(). */
struct wait {
	ev_timer timer;
	struct ev_loop *loop;
	struct wc_request *req;
	struct later *later;
};

static int init(void **state, const json_t *options, struct wc_worker *worker)
{
	const json_t *delay_ms = json_object_get(options, "delay_ms");
	struct later *later;

	if (delay_ms && (!json_is_integer(delay_ms) || json_integer_value(delay_ms) < 0)) {
		wc_log(worker, WC_LOG_ERROR, "options.delay_ms: expected an integer from 0 up");
		return -1;
	}
	later = calloc(1, sizeof(*later));
	if (!later)
		return -1;
	later->delay_s = delay_ms ? (double)json_integer_value(delay_ms) / 1e3 : 0.1;
	later->cancelled = wc_counter(worker, "cancelled");
	*state = later;
	return 0;
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct wait *wait = timer->data;

	(void)loop;
	(void)events;
	wc_header(wait->req, "Content-Type", "text/plain");
	wc_reply(wait->req, 200, "at last\n", 8);
	free(wait);
}

/* From here on the request must not be used any more, so the timer must not run. */
static void on_cancel(struct wc_request *req, void *data)
{
	struct wait *wait = data;

	(void)req;
	ev_timer_stop(wait->loop, &wait->timer);
	wc_count(wait->later->cancelled, 1);
	free(wait);
}

static int handle(struct wc_request *req, void *state)
{
	struct later *later = state;
	struct wait *wait = malloc(sizeof(*wait));

	if (!wait)
		return WC_ERROR;
	wait->req = req;
	wait->loop = wc_loop(wc_worker(req));
	wait->later = later;
	ev_timer_init(&wait->timer, on_timer, later->delay_s, 0);
	wait->timer.data = wait;
	ev_timer_start(wait->loop, &wait->timer);
	wc_on_cancel(req, on_cancel, wait);
	return WC_PENDING;
}

WC_HANDLER(.name = "later", .init = init, .fini = free, .handle = handle, .replay = true);
