/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "watchdog.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"
#include "log.h"

enum {
	LOOKS = 4, /* within the shortest timeout */
	INTERVAL_MIN_MS = 5,
	INTERVAL_MAX_MS = 1000,
	KILL_AFTER_MIN_MS = 1000, /* that a worker has to hand over */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void tell(struct row *row, struct watched *watched, uint64_t limit_ms)
{
	struct scoreboard *board = row->rows->scoreboard;

	log_error("worker %u (%d): a handler has not returned within %llu ms", row->number,
		  (int)row->pid, (unsigned long long)limit_ms);
	atomic_store(&board->slot[row->slot].hang_turn, watched->turn);
	scoreboard_add(&board->slot[0].counter[COUNTER_hang], 1);
	syscall(SYS_tgkill, row->pid, row->pid, FAULT_SIGNAL);
	watched->told = true;
}

static void look_at(struct row *row, struct watched *watched, uint64_t now)
{
	struct scoreboard_slot *slot = &row->rows->scoreboard->slot[row->slot];
	uint64_t turn = atomic_load(&slot->turn), limit_ms = atomic_load(&slot->turn_limit_ms);
	uint64_t stuck_ms;

	if (turn % 2 == 0 || limit_ms == 0 || turn != watched->turn || row->pid != watched->pid) {
		*watched = (struct watched){.pid = row->pid, .turn = turn, .since_ns = now};
		return;
	}
	stuck_ms = (now - watched->since_ns) / 1000000;
	if (!watched->told) {
		if (stuck_ms >= limit_ms)
			tell(row, watched, limit_ms);
		return;
	}
	if (stuck_ms >= 2 * limit_ms + KILL_AFTER_MIN_MS) {
		log_error("worker %u (%d): does not react: killed", row->number, (int)row->pid);
		kill(row->pid, SIGKILL);
		watched->since_ns = now; /* its end may take a while; it is no hang more */
	}
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct watchdog *watchdog = timer->data;
	uint64_t now = now_ns();

	(void)loop, (void)events;
	for (unsigned i = 1; i < SCOREBOARD_SLOTS; i++) {
		struct row *row = &watchdog->rows->row[i];

		if (row->pid > 0 &&
		    (row_serves(row) || row->state == SLOT_DRAINING || row->state == SLOT_DYING))
			look_at(row, &watchdog->watched[i], now);
	}
}

void watchdog_init(struct watchdog *watchdog, struct rows *rows)
{
	watchdog->rows = rows;
	ev_init(&watchdog->timer, on_timer);
	watchdog->timer.data = watchdog;
}

static uint64_t shortest_ms(const struct config *config)
{
	uint64_t shortest = 0;

	for (size_t i = 0; i < config->route_count; i++) {
		uint64_t own = config->routes[i].timeout_ms ? config->routes[i].timeout_ms
							    : config->handler_ms;

		if (own > 0 && (shortest == 0 || own < shortest))
			shortest = own;
	}
	return shortest;
}

void watchdog_set(struct watchdog *watchdog, const struct config *config,
		  const struct config *other)
{
	uint64_t shortest = shortest_ms(config), also = other ? shortest_ms(other) : 0, interval;

	watchdog_stop(watchdog);
	if (also > 0 && (shortest == 0 || also < shortest))
		shortest = also;
	if (shortest == 0)
		return;
	interval = shortest / LOOKS;
	if (interval < INTERVAL_MIN_MS)
		interval = INTERVAL_MIN_MS;
	if (interval > INTERVAL_MAX_MS)
		interval = INTERVAL_MAX_MS;
	ev_timer_set(&watchdog->timer, (double)interval / 1000, (double)interval / 1000);
	ev_timer_start(watchdog->rows->loop, &watchdog->timer);
}

void watchdog_stop(struct watchdog *watchdog)
{
	ev_timer_stop(watchdog->rows->loop, &watchdog->timer);
}
