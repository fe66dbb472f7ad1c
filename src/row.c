/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "row_parts.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ipc.h"
#include "launch.h"
#include "log.h"

enum {
	HANDOVER_MS = 4000, /* what a dying worker may take to hand over, and to answer who made it die */
	KILL_AGAIN_MS = 1000,
	ADMIN_AFTER_MS = 100, /* at the start, unless the workers serve before */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t row_alive_ms(const struct row *row)
{
	return (now_ns() - row->started_ns) / 1000000;
}

struct scoreboard_slot *row_slot(const struct row *row)
{
	return &row->rows->scoreboard->slot[row->slot];
}

static struct restart *restart_of(const struct row *row)
{
	return &row->generation->restart[row->number];
}

const char *row_name(const struct row *row)
{
	static char name[32];

	if (row->number == ROW_PROVER)
		return "proving child";
	if (row->number == ROW_ADMIN)
		return "admin";
	snprintf(name, sizeof name, "worker %u", row->number);
	return name;
}

void row_set_timer(struct row *row, uint64_t ms)
{
	ev_now_update(row->rows->loop);
	ev_timer_stop(row->rows->loop, &row->timer);
	ev_timer_set(&row->timer, (double)ms / 1000, 0.);
	ev_timer_start(row->rows->loop, &row->timer);
}

/* A proving child is no worker, and not shown as one: nobody looks through the slots up to its
 * own. */
void row_publish(struct row *row)
{
	struct scoreboard_slot *slot = row_slot(row);

	if (row->number == ROW_PROVER)
		return;
	scoreboard_extend(row->rows->scoreboard, row->slot);
	atomic_store(&slot->number, row->number);
	atomic_store(&slot->state, row->state);
	atomic_store(&slot->generation, row->generation ? row->generation->number : 0);
	atomic_store(&slot->started_ns, row->pid ? row->started_ns : 0);
	atomic_store(&slot->pid, row->pid);
}

/* The past of a number, into the slots of all rows that have it. */
void rows_publish_history(struct rows *rows, unsigned number)
{
	const struct row_history *history = &rows->history[number];

	for (unsigned i = 1; i < SCOREBOARD_SLOTS; i++) {
		struct scoreboard_slot *slot = &rows->scoreboard->slot[i];

		if (rows->row[i].state == SLOT_EMPTY || rows->row[i].number != number)
			continue;
		atomic_store(&slot->restarts, history->restarts);
		memcpy(slot->last_exit, history->last_exit, sizeof slot->last_exit);
	}
}

void row_note_end(struct row *row, bool clean)
{
	restart_of(row)->served = row->was_ready;
	restart_note_end(restart_of(row), now_ns() / 1000000, row_alive_ms(row), clean);
	row->rows->history[row->number].restarts++;
	rows_publish_history(row->rows, row->number);
}

/* The actions. */

static void rest(struct row *row)
{
	(void)row;
}

static void cannot_spawn(struct row *row, const char *call)
{
	char reason[128];

	snprintf(reason, sizeof reason, "%s cannot be started: %s: %s", row_name(row), call,
		 strerror(errno));
	row->generation->unable = true;
	if (row->generation->serving)
		log_error("%s", reason);
	row->started_ns = now_ns();
	row_note_end(row, false);
	row_feed(row, SLOT_EXIT, reason);
}

void row_clear_slot(struct row *row)
{
	struct scoreboard_slot *slot = row_slot(row);

	atomic_store(&slot->active, 0);
	atomic_store(&slot->busy, 0);
	atomic_store(&slot->accepting, 0);
}

static void spawn(struct row *row)
{
	int pair[2];

	if (ipc_open(pair) < 0) {
		cannot_spawn(row, "socketpair");
		return;
	}
	row_clear_slot(row);
	atomic_store(&row_slot(row)->used, 1);
	row->was_ready = row->asked = false;
	row->told = row_goes(row);
	row->started_ns = now_ns();
	row->pid = launch_child(row, pair[1]);
	close(pair[1]);
	if (row->pid < 0) {
		row->pid = 0;
		close(pair[0]);
		cannot_spawn(row, "fork");
		return;
	}
	row->ipc = pair[0];
	ev_io_set(&row->on_message, row->ipc, EV_READ);
	ev_io_start(row->rows->loop, &row->on_message);
	if (!row_waits(row))
		row_set_timer(row, row->generation->config->start_ms);
	row_publish(row);
}

static void serve(struct row *row)
{
	ev_timer_stop(row->rows->loop, &row->timer);
	row->was_ready = true;
	if (row->number != ROW_ADMIN)
		row->generation->failed_starts = 0;
	if (row->number == ROW_PROVER)
		row->generation->proven = true;
	if (!row->told && (row->generation->serving || row->generation->trial))
		row_go(row);
}

/* The admin process is to tell that the workers do not serve, not to be why. */
static uint64_t wait_ms(const struct row *row, uint64_t limit_ms)
{
	uint64_t ms = restart_wait(restart_of(row), now_ns() / 1000000, limit_ms);
	bool is_early = row->number == ROW_ADMIN && !row->generation->serving;

	return is_early && ms < ADMIN_AFTER_MS ? ADMIN_AFTER_MS : ms;
}

/* A process of the program before this one has no successor, nor has one whose listeners are closed
 * here. */
static void wait_for_restart(struct row *row)
{
	if (row->generation->foreign || row->generation->retired) {
		row_feed(row, SLOT_DRAIN, NULL);
		return;
	}
	row_set_timer(row, wait_ms(row, RESTART_MAX_MS));
}

static void replace(struct row *row)
{
	row_note_end(row, false);
	row_set_timer(row, HANDOVER_MS);
}

static void terminate(struct row *row)
{
	kill(row->pid, SIGTERM);
	row_set_timer(row, row->generation->config->drain_ms);
}

static void kill_now(struct row *row)
{
	kill(row->pid, SIGKILL);
	row_set_timer(row, KILL_AGAIN_MS);
}

static void forget_row(struct row *row)
{
	ev_timer_stop(row->rows->loop, &row->timer);
	row->generation->rows--;
	row->generation = NULL;
	row_publish(row);
}

static void (*const actions[SLOT_ACTION_COUNT])(struct row *) = {
	[SLOT_REST] = rest,       [SLOT_SPAWN] = spawn,
	[SLOT_SERVE] = serve,     [SLOT_WAIT] = wait_for_restart,
	[SLOT_REPLACE] = replace, [SLOT_TERM] = terminate,
	[SLOT_KILL] = kill_now,   [SLOT_FORGET] = forget_row,
};

/* A worker that ends before its generation serves has failed to start, also when it was ready. */
static bool has_failed(const struct row *row, enum slot_event event, enum slot_state next)
{
	if (row->number == ROW_ADMIN) /* its trouble is nobody else's */
		return false;
	if (row->state == SLOT_STARTING)
		return next == SLOT_FAILING || next == SLOT_BACKOFF;
	return row->state == SLOT_READY && row->number != ROW_PROVER && !row->generation->serving &&
	       (event == SLOT_FAULT || event == SLOT_EXIT);
}

/* For the master to decide on.  Ends are in the log already; before it serves, the master says why
 * not. */
static void note_failure(struct row *row, enum slot_event event, const char *reason)
{
	generation_note_failure(row->generation, reason);
	if (row->number == ROW_PROVER)
		row->generation->refused = true;
	if (row->generation->serving && event != SLOT_EXIT)
		log_error("%s", reason);
}

void row_feed(struct row *row, enum slot_event event, const char *reason)
{
	struct slot_step step = slot_step(row->state, event);

	assert(step.action != SLOT_IMPOSSIBLE);
	if (has_failed(row, event, step.next))
		note_failure(row, event, reason);
	row->state = step.next;
	row_publish(row);
	actions[step.action](row);
}

/* What the master wants. */

bool row_serves(const struct row *row)
{
	return row->state == SLOT_READY || row->state == SLOT_LEAVING;
}

bool row_is_wanted(const struct row *row)
{
	return row->state == SLOT_STARTING || row->state == SLOT_READY ||
	       row->state == SLOT_FAILING || row->state == SLOT_BACKOFF;
}

/* One question at a time: they must not fill the queue of a worker that stands still.  Those of the
 * program before this one may not know it. */
bool row_answers(struct row *row)
{
	bool answers = row->generation->foreign || !row->asked;

	if (!row->generation->foreign && !row->asked)
		row->asked = ipc_send(row->ipc, IPC_PING, NULL, NULL, 0) == 0;
	return answers;
}

void row_drain(struct row *row)
{
	if (row->state != SLOT_EMPTY)
		row_feed(row, SLOT_DRAIN, NULL);
}

/* One that leaves already is asked again: now it has to close what it could have given away. */
void row_stop(struct row *row)
{
	if (row->state == SLOT_DRAINING)
		kill(row->pid, SIGTERM);
	else
		row_drain(row);
}

void row_kill(struct row *row)
{
	row_drain(row);
	if (row->state != SLOT_EMPTY && row->state != SLOT_KILLING)
		row_feed(row, SLOT_TIMER, NULL);
}

void row_go(struct row *row)
{
	if (row->state != SLOT_READY || ipc_send(row->ipc, IPC_GO, NULL, NULL, 0) == 0)
		return;
	if (errno == EPIPE) /* it has died meanwhile */
		return;
	/* Without it the worker would be up and never serve. */
	log_error("%s (%d) cannot be told to serve: %s", row_name(row), (int)row->pid,
		  strerror(errno));
	kill(row->pid, SIGKILL);
}

bool row_waits(const struct row *row)
{
	return row->number < ROW_ADMIN && !row->generation->proven;
}

void row_proven(struct row *row)
{
	if (row->number >= ROW_ADMIN || row->state != SLOT_STARTING)
		return;
	if (ev_is_active(&row->on_message)) /* else its time is over */
		row_set_timer(row, row->generation->config->start_ms);
	if (ipc_send(row->ipc, IPC_PROVEN, NULL, NULL, 0) < 0 && errno != EPIPE)
		kill(row->pid, SIGKILL);
}

/* The admin process answers from the start on, to tell that the others do not. */
bool row_goes(const struct row *row)
{
	return row->generation->serving || row->number == ROW_ADMIN;
}

void row_hurry(struct row *row)
{
	if (row->state == SLOT_BACKOFF)
		row_set_timer(row, wait_ms(row, row->was_ready ? RESTART_SERVED_MS : RESTART_FIRST_MS));
}

void row_farewell(struct row *row)
{
	if (row_serves(row))
		ipc_send(row->ipc, IPC_FAREWELL, NULL, NULL, 0);
}

void row_reopen(struct row *row)
{
	int fds[2] = {log_fd(), row->generation->access_log};

	if (ipc_send(row->ipc, IPC_REOPEN, NULL, fds, fds[1] < 0 ? 1 : 2) < 0)
		log_warn("%s (%d) still writes to the old log files: %s", row_name(row),
			 (int)row->pid, strerror(errno));
}
