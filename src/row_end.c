/* SPDX-License-Identifier: MIT */
/* The end of a process: what of it goes into the log, the statistics and the reason of a failure. */
#include "autoconf.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"
#include "row_parts.h"

static void describe(int status, char *text, size_t size)
{
	int number = WTERMSIG(status);
	const char *name = WIFSIGNALED(status) ? sigabbrev_np(number) : NULL;

	if (WIFEXITED(status))
		snprintf(text, size, "exit code %d", WEXITSTATUS(status));
	else if (name)
		snprintf(text, size, "killed by SIG%s%s", name,
			 WCOREDUMP(status) ? ", core dumped" : "");
	else
		snprintf(text, size, "killed by signal %d%s", number,
			 WCOREDUMP(status) ? ", core dumped" : "");
}

static bool is_crash(int status)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};

	for (size_t i = 0; WIFSIGNALED(status) && i < sizeof faults / sizeof *faults; i++)
		if (faults[i] == WTERMSIG(status))
			return true;
	return false;
}

/* Who ended as it was asked to leaves the end of the one before to be seen. */
static void note_last_exit(struct row *row, int status, const char *how)
{
	struct row_history *history = &row->rows->history[row->number];
	bool asked = row->state == SLOT_DRAINING || row->state == SLOT_KILLING;

	if (asked && !is_crash(status))
		return;
	snprintf(history->last_exit, sizeof history->last_exit, "%.60s%s%.*s", how,
		 row->fault ? ": " : "", SCOREBOARD_EXIT_MAX - 64, row->fault ? row->fault : "");
	rows_publish_history(row->rows, row->number);
}

/* Whatever it died of in the end.  A hang is counted by who found it. */
static bool has_crashed(const struct row *row, int status)
{
	static const char hang[] = "hang";

	if (row->fault && strncmp(row->fault, hang, sizeof hang - 1) == 0)
		return false;
	return is_crash(status) || row->fault;
}

/* Its connections went with it: they are counted, and their share of the limit is free again. */
static void account(struct row *row, int status, const char *how)
{
	struct scoreboard_slot *slot = row_slot(row), *own = row->rows->scoreboard->slot;

	if (row->number != ROW_ADMIN)
		scoreboard_add(&own->counter[COUNTER_lost], atomic_load(&slot->active));
	if (row->number != ROW_ADMIN && has_crashed(row, status))
		scoreboard_add(&own->counter[COUNTER_crash], 1);
	row_clear_slot(row);
	note_last_exit(row, status, how);
	free(row->fault);
	row->fault = NULL;
}

/* A process that was asked to leave, and a proving child that has told its outcome, end as they
 * should. */
static void log_end(const struct row *row, int status, const char *how)
{
	bool asked = row->state == SLOT_DRAINING || row->state == SLOT_KILLING;
	bool is_worker = row->number != ROW_PROVER && !row_waits(row);
	enum log_level level = LOG_ERROR;

	if (asked || status == 0 || (row->number == ROW_PROVER && WIFEXITED(status)))
		level = is_worker ? LOG_INFO : LOG_DEBUG;
	log_line(level, "%s (%d) ended: %s, generation %u, after %.3f s", row_name(row),
		 (int)row->pid, how, row->generation->number, (double)row_alive_ms(row) / 1000);
}

void row_on_exit(struct row *row, int status)
{
	char how[128], reason[ROW_CULPRIT_MAX + 256], culprit[ROW_CULPRIT_MAX + 64];

	row_read_last_words(row);
	describe(status, how, sizeof how);
	log_end(row, status, how);
	account(row, status, how);
	if (row->number == ROW_PROVER && is_crash(status)) {
		row_name_culprit(row, culprit, sizeof culprit);
		snprintf(reason, sizeof reason, "%s crashed %s: %s", culprit,
			 row_proving_step(row), how);
	} else if (row->number == ROW_PROVER && row->state == SLOT_STARTING) {
		row_name_culprit(row, culprit, sizeof culprit);
		snprintf(reason, sizeof reason, "%s ended the process %s: %s", culprit,
			 row_proving_step(row), how);
	} else {
		snprintf(reason, sizeof reason, "%s (%d) ended%s: %s", row_name(row),
			 (int)row->pid, row->generation->trial ? "" : " before it served", how);
	}
	ev_io_stop(row->rows->loop, &row->on_message);
	close(row->ipc);
	row->pid = 0;
	if (slot_step(row->state, SLOT_EXIT).next == SLOT_BACKOFF)
		row_note_end(row, status == 0);
	row_feed(row, SLOT_EXIT, reason);
}
