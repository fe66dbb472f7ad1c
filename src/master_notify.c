/* SPDX-License-Identifier: MIT */
/* What the service manager is told: where the master stands, and that it lives. */
#include "autoconf.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "master_parts.h"
#include "notify.h"
#include "stats.h"

#define TICK_S 1.

enum {
	STATUS_TICKS_S = 5,
	EXTEND_US =
		15 *
		1000000,    /* asked for anew with each tick, as long as there is something to do */
	WATCHDOG_SHARE = 3, /* so many signs of life in the time for one */
};

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000;
}

/* Its first line: a status has one. */
static int first_line(const char *text)
{
	return (int)strcspn(text, "\n");
}

void master_notify_ready(const struct master *master)
{
	const struct master_status *status = &master->status;

	if (master->options.test)
		return;
	if (status->reload_error[0])
		notify_send(-1,
			    "READY=1\nSTATUS=Serving: %u workers, generation %u; the reload "
			    "failed: %.*s",
			    status->workers, status->generation, first_line(status->reload_error),
			    status->reload_error);
	else
		notify_send(-1, "READY=1\nSTATUS=Serving: %u workers, generation %u",
			    status->workers, status->generation);
}

/* The time tells the manager that this is the answer to its signal, not to one before. */
void master_notify_reloading(void)
{
	notify_send(-1, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=Reloading", now_us());
}

void master_notify_stopping(const struct master *master)
{
	if (!master->options.test)
		notify_send(-1,
			    "STOPPING=1\nEXTEND_TIMEOUT_USEC=%d\n"
			    "STATUS=Stopping: connections are drained",
			    EXTEND_US);
}

/* A worker that hangs is the master's own business (timeouts.handler); a server without any that
 * serves and turns its loop is not. */
static bool is_healthy(struct master *master)
{
	bool healthy = master->stopping || !master->active;

	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++) {
		struct row *row = &master->rows.row[i];

		if (row->generation == master->active && row_serves(row))
			healthy |= row_answers(row);
	}
	return healthy;
}

static void tell_alive(struct master *master)
{
	struct master_notify *notify = &master->notify;
	uint64_t now = now_us();

	if (is_healthy(master)) {
		notify_send(-1, "WATCHDOG=1");
		notify->alive_us = now;
		notify->silent = false;
	} else if (!notify->silent && now - notify->alive_us > notify_watchdog_us() / 2) {
		log_error("no worker has answered for %.1f s: the service manager will end the "
			  "server",
			  (double)(now - notify->alive_us) / 1e6);
		notify->silent = true;
	}
}

/* What came since the last status. */
static void tell_status(struct master *master)
{
	struct master_notify *notify = &master->notify;
	const struct stats stats = {.board = master->rows.scoreboard};
	struct histogram_sum all = {0}, recent;
	uint64_t requests = scoreboard_total(stats.board, COUNTER_requests);
	uint64_t now = now_us();
	double seconds = (double)(now - notify->told_us) / 1e6;

	stats_add_all(&stats, &all);
	recent = all;
	histogram_subtract(&recent, &notify->latency);
	notify_send(
		-1,
		"STATUS=Serving: %u of %u workers, generation %u, %.0f requests/s, p99 %.3g ms%s",
		master_count_rows(master, master->active, SLOT_READY), master->status.workers,
		master->status.generation, (double)(requests - notify->requests) / seconds,
		histogram_quantile(&recent, 0.99) / 1e6,
		master->status.reload_error[0] ? "; the last reload failed" : "");
	notify->latency = all;
	notify->requests = requests;
	notify->told_us = now;
}

static void on_tick(struct ev_loop *loop, struct ev_timer *timer, int events)
{
	struct master *master = timer->data;
	bool serving = master->status.state == MASTER_SERVING && master->active;

	(void)loop, (void)events;
	if (notify_watchdog_us())
		tell_alive(master);
	if (!serving)
		notify_send(-1, "EXTEND_TIMEOUT_USEC=%d", EXTEND_US);
	else if (now_us() - master->notify.told_us >= STATUS_TICKS_S * 1000000u)
		tell_status(master);
}

void master_notify_start(struct master *master)
{
	const struct stats stats = {.board = master->rows.scoreboard};
	double watchdog_s = (double)notify_watchdog_us() / 1e6 / WATCHDOG_SHARE;
	double tick_s = watchdog_s > 0 && watchdog_s < TICK_S ? watchdog_s : TICK_S;

	ev_timer_init(&master->notify.timer, on_tick, tick_s, tick_s);
	master->notify.timer.data = master;
	if (!notify_is_on() || master->options.test)
		return;
	master->notify.told_us = master->notify.alive_us = now_us();
	master->notify.requests = scoreboard_total(stats.board, COUNTER_requests);
	stats_add_all(&stats, &master->notify.latency);
	ev_timer_start(master->loop, &master->notify.timer);
}
