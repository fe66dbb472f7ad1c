/* SPDX-License-Identifier: MIT */
/*
 * Becoming another program: the one that is now on disk where this one was started from.  A
 * throw-away child runs it first, to test the configuration with it and to hear whether it can go
 * on from here; then the master executes it in its own place.
 *
 * Trap: exec resets handlers of signals to their defaults, and what would end the process then ends
 * it.  All signals must be blocked from before the exec until the new program has its watchers.
 */
#ifndef UPGRADE_H
#define UPGRADE_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "err.h"
#include "upgrade_state.h"

enum { UPGRADE_OUTPUT_MAX = 8192 };

/* Main, once, first of all: keeps the arguments and by which path the program was started. */
int upgrade_init(int argc, char **argv);

/* The path that an upgrade executes. */
const char *upgrade_program(void);

/*
 * Main: what the program before this one has left, or NULL: this one was started anew, unless there
 * is a message in *err.  Nothing of it stays in the environment.
 */
struct upgrade_state *upgrade_take(struct err *err);

/*
 * Main, after the configuration was tested: where this program was started to be asked, whether it
 * can go on from the one that asks, it answers on stdout.  -1: it can't, with a message in *err.
 */
int upgrade_answer(struct err *err);

/* The child that runs the program on disk. */
struct upgrade_check {
	struct ev_loop *loop;
	struct ev_timer timer;
	pid_t pid; /* 0: there is none */
	int output;
	bool late;
	uint64_t timeout_ms;
	struct stat file; /* of the program, before it ran */
};

void upgrade_check_init(struct upgrade_check *check, struct ev_loop *loop);

/* Starts it.  `forget` as in struct spawn.  -1 with a message in *err. */
int upgrade_check_start(struct upgrade_check *check, uint64_t timeout_ms,
			void (*forget)(void *data), void *data, struct err *err);

/*
 * Looks whether it has ended: 1, and then messages in *err say what is wrong with the program, if
 * something is; 0: not yet.
 */
int upgrade_check_reap(struct upgrade_check *check, struct err *err);

/* Ends it; it still is to be reaped. */
void upgrade_check_kill(struct upgrade_check *check);

/* Whether the file is still the one that was checked. */
bool upgrade_check_is_current(const struct upgrade_check *check);

/* A memfd with the text; -1 with errno. */
int upgrade_store(const char *text);

/*
 * Becomes the program, with all signals blocked by the caller.  Returns -1 with errno where that
 * failed, and then everything is as before.
 */
int upgrade_execute(const struct upgrade_state *state);

#endif
