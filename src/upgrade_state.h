/* SPDX-License-Identifier: MIT */
/*
 * What a master tells the program that takes its place by exec: a JSON text, with descriptors as
 * the numbers that they keep.  Pure.
 *
 * Unknown keys are passed over, so a newer program may add some; what an older one could not do
 * without raises the version.
 */
#ifndef UPGRADE_STATE_H
#define UPGRADE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"
#include "master_status.h"
#include "scoreboard.h"
#include "slot.h"

enum { UPGRADE_STATE_VERSION = 1 };

/* A process of the master's. */
struct upgrade_row {
	unsigned slot;
	unsigned number;      /* as struct row's */
	unsigned generation;
	enum slot_state state;
	bool was_ready;
	pid_t pid;
	int ipc;
	uint64_t started_ns;  /* CLOCK_MONOTONIC */
	uint64_t left_ms;     /* until its deadline; 0: it has none */
};

struct upgrade_history {
	unsigned number;
	uint64_t restarts;
	char last_exit[128];
};

/* As struct listener's. */
struct upgrade_listener {
	char *address;
	int fd;
	bool admin, passed;
	uint64_t dev, ino;
};

/* As struct passed_fd. */
struct upgrade_passed {
	char *name;
	int fd;
};

struct upgrade_state {
	pid_t pid;                  /* of the master: before and after */
	char *program;              /* the path that was executed */
	char *config;               /* in effect, as config_dump() prints it */
	int scoreboard, give, take; /* fds; -1: none, of all that follow too */
	int log, access_log;
	struct {
		char *path; /* NULL: none */
		int fd;
		uint64_t dev, ino;
	} pidfile;
	bool upgrade_wanted;           /* one more, after this one */
	struct master_status status;
	uint64_t total[COUNTER_COUNT]; /* where the scoreboard can't be read */

	size_t row_count, history_count, listener_count, passed_count;
	struct upgrade_row rows[SCOREBOARD_SLOTS];
	struct upgrade_history histories[SCOREBOARD_SLOTS];
	struct upgrade_listener *listeners; /* the public ones in the order of the configuration */
	struct upgrade_passed *passed;
};

/* A new state without anything; NULL: no memory. */
struct upgrade_state *upgrade_state_new(void);
void upgrade_state_free(struct upgrade_state *state);

/* The text, to be freed; NULL: no memory, or a path that is no UTF-8. */
char *upgrade_state_write(const struct upgrade_state *state);

/* NULL with a message in *err. */
struct upgrade_state *upgrade_state_read(const char *text, size_t len, struct err *err);

/* Calls it for each descriptor of the state. */
void upgrade_state_each_fd(const struct upgrade_state *state, void (*act)(int fd));

#endif
