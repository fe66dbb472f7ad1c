/* SPDX-License-Identifier: MIT */
/* All rows together. */
#include "autoconf.h"

#include <sys/wait.h>

#include "row_parts.h"

void rows_init(struct rows *rows)
{
	for (unsigned i = 0; i < SCOREBOARD_SLOTS; i++) {
		struct row *row = &rows->row[i];

		*row = (struct row){.rows = rows, .slot = i, .state = SLOT_EMPTY, .ipc = -1};
		row_watch_init(row);
	}
}

unsigned rows_free(const struct rows *rows)
{
	unsigned count = 0;

	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++)
		count += rows->row[i].state == SLOT_EMPTY;
	return count;
}

/*
 * The lowest free row for a worker, the highest for a proving child: its counters go to slots where
 * they are not in the way.
 */
static struct row *find_free(struct rows *rows, unsigned number)
{
	unsigned first = number == ROW_ADMIN ? SCOREBOARD_ADMIN : 1;
	unsigned end = number == ROW_ADMIN ? SCOREBOARD_SLOTS : SCOREBOARD_ADMIN;
	struct row *found = NULL;

	for (unsigned i = first; i < end; i++)
		if (rows->row[i].state == SLOT_EMPTY && (number == ROW_PROVER || !found))
			found = &rows->row[i];
	return found;
}

int rows_start(struct rows *rows, struct generation *generation, unsigned number)
{
	struct row *row = find_free(rows, number);

	if (!row)
		return -1;
	row->generation = generation;
	row->number = number;
	row->was_ready = generation->restart[number]
				 .served; /* one that crashed is replaced in another row */
	generation->rows++;
	row_feed(row, SLOT_START, NULL);
	rows_publish_history(rows, number);
	return 0;
}

bool row_describe(const struct row *row, struct upgrade_row *left)
{
	struct ev_loop *loop = row->rows->loop;

	if (row->pid == 0)
		return false;
	*left = (struct upgrade_row){
		.slot = row->slot,
		.number = row->number,
		.generation = row->generation->number,
		.state = row->state,
		.was_ready = row->was_ready,
		.pid = row->pid,
		.ipc = row->ipc,
		.started_ns = row->started_ns,
	};
	if (ev_is_active(&row->timer)) {
		double ms = ev_timer_remaining(loop, (struct ev_timer *)&row->timer) * 1000;

		left->left_ms = ms < 1 ? 1 : (uint64_t)ms;
	}
	return true;
}

void rows_adopt(struct rows *rows, struct generation *generation, const struct upgrade_row *left)
{
	struct row *row = &rows->row[left->slot];

	row->number = left->number;
	row->generation = generation;
	row->state = left->state;
	row->was_ready = left->was_ready;
	row->pid = left->pid;
	row->ipc = left->ipc;
	row->started_ns = left->started_ns;
	generation->rows++;
	ev_io_set(&row->on_message, row->ipc, EV_READ);
	ev_io_start(rows->loop, &row->on_message);
	if (left->left_ms > 0)
		row_set_timer(row, left->left_ms);
	atomic_store(&row_slot(row)->used, 1);
	row_publish(row);
	rows_publish_history(rows, row->number);
}

void rows_reap(struct rows *rows)
{
	int status;

	/* By pid: children that a library started are not ours to wait for. */
	for (unsigned i = 1; i < SCOREBOARD_SLOTS; i++) {
		struct row *row = &rows->row[i];

		if (row->pid > 0 && waitpid(row->pid, &status, WNOHANG) == row->pid)
			row_on_exit(row, status);
	}
}
