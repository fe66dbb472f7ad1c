/* SPDX-License-Identifier: MIT */
/*
 * The supervised processes, one a row.  A row's index is its slot in the scoreboard; rows of
 * several generations stand side by side.  Callbacks turn facts into events, slot_step() decides,
 * and one array of actions makes the system calls.  What goes beyond one row (generations,
 * replacements) is the master's, who looks at all rows after each turn of the loop.  Master only.
 */
#ifndef ROW_H
#define ROW_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "child.h"
#include "generation.h"
#include "scoreboard.h"
#include "slot.h"
#include "upgrade_state.h"

/* The numbers of those who are no workers; workers count from 0. */
enum {
	ROW_ADMIN = SCOREBOARD_ADMIN, /* in rows of its own, SCOREBOARD_ADMIN and above */
	ROW_PROVER = SCOREBOARD_SLOTS - 1,
};

struct row {
	struct rows *rows;
	unsigned slot;
	enum slot_state state;

	/* As long as it is not empty: */
	unsigned number; /* of the worker, or ROW_PROVER */
	struct generation *generation;
	bool asked;     /* IPC_PING, and has not answered yet */
	bool told;      /* to serve, when it was started */
	bool was_ready; /* its process, or the last one if there is none */
	pid_t pid;      /* 0: no process */
	int ipc;
	uint64_t started_ns; /* CLOCK_MONOTONIC */
	char *fault;         /* what it said when it crashed; NULL: nothing */
	struct ev_io on_message;
	struct ev_timer timer;
};

/* What is shown of a worker's past, by its number: it goes with the number from row to row. */
struct row_history {
	uint64_t restarts;
	char last_exit[SCOREBOARD_EXIT_MAX];
};

struct rows {
	struct ev_loop *loop;
	struct scoreboard *scoreboard;
	const struct child_roles *roles;
	struct exchange exchange;   /* that all workers share; kept open by the master */
	bool stored;                /* the service manager keeps it for the next instance */
	bool sole;                  /* all that give and take are of this program */
	void (*forget)(void *data); /* in a child: stop the master's watchers */
	void *data;
	struct row row[SCOREBOARD_SLOTS]; /* row 0 stays empty: that slot is the master's */
	struct row_history history[SCOREBOARD_SLOTS];
};

/* The fields before row[] are the caller's to set. */
void rows_init(struct rows *rows);

/* Looks for processes that have ended.  Other children of the master are left alone. */
void rows_reap(struct rows *rows);

/* Has a process started for a worker, a proving child or ROW_ADMIN, in a free row.  -1: there is
 * none. */
int rows_start(struct rows *rows, struct generation *generation, unsigned number);
unsigned rows_free(const struct rows *rows);

/* For the program that takes this one's place: false where there is no process. */
bool row_describe(const struct row *row, struct upgrade_row *left);

/* Goes on with a process that the program before this one has started. */
void rows_adopt(struct rows *rows, struct generation *generation, const struct upgrade_row *left);

/* "worker 3", for logs; lives until the next call. */
const char *row_name(const struct row *row);

/* Whether a process is there, or is to be.  One that is to be replaced does not count. */
bool row_is_wanted(const struct row *row);

/* Whether its process is up, and nobody has told it to go. */
bool row_serves(const struct row *row);

/* Whether its loop has turned since the last call, which is asked for at each. */
bool row_answers(struct row *row);

void row_drain(struct row *row); /* it may finish its work */
void row_stop(struct row *row);  /* it may finish its work, but nobody goes on after it */
void row_kill(struct row *row);  /* it may not */
void row_go(struct row *row);    /* its generation serves */
void row_hurry(struct row *row); /* it is waited for: shorten its pause, if it is in one */

/* It serves on, but each of its connections ends with its next answer. */
void row_farewell(struct row *row);

/* Whether it is a worker whose handlers are being proven: it loads none until it is told. */
bool row_waits(const struct row *row);
void row_proven(struct row *row);

/* Of one that serves without being told to. */
bool row_goes(const struct row *row);

/* Hands over log files that were opened anew. */
void row_reopen(struct row *row);

#endif
