/* SPDX-License-Identifier: MIT */
/*
 * Forks a child that has nothing of its parent but what it is meant to have.  Signals are blocked
 * from before the fork until the child unblocks what it handles, so that none is lost and none runs
 * a handler of the parent's.
 *
 * Trap: what a child ignores (INT, HUP, USR1, USR2, TTIN, TTOU, PIPE, XFSZ) and blocks stays so in
 * programs that it executes.
 */
#ifndef SPAWN_H
#define SPAWN_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

struct spawn {
	void (*forget)(void *data); /* in the child, first: gives up loops and watchers of the parent */
	int (*run)(void *data);     /* then this; what it returns is the exit code */
	void *data;
	const int *keep;            /* fds that stay open besides 0 to 2; -1 is skipped */
	size_t keep_count;
	const char *title;          /* "worker 3": what ps shows after the program's name */
};

/* The child's pid, or -1 with errno.  Returns in the parent only, with its signal mask kept. */
pid_t spawn_child(const struct spawn *spawn);

/* Blocks every signal but those of a fault; the mask before goes to *before (NULL: nowhere). */
void spawn_block_signals(sigset_t *before);

/* Main, once: where the program's arguments are, which a title overwrites; and no signal is ignored
 * that whoever started the program ignored. */
void spawn_init(int argc, char **argv);

#endif
