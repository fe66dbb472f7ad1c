/* SPDX-License-Identifier: MIT */
/* What the master knows of itself and tells the statistics.  Written by the master only. */
#ifndef MASTER_STATUS_H
#define MASTER_STATUS_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum master_state { MASTER_STARTING, MASTER_SERVING, MASTER_RELOADING, MASTER_STOPPING };

enum { MASTER_STATUS_ERROR_MAX = 2048 };

struct master_status {
	enum master_state state;
	pid_t pid;
	unsigned generation;   /* that serves; 0: none yet */
	unsigned workers;      /* that are wanted */
	struct timespec started; /* CLOCK_REALTIME */
	uint64_t started_ns;     /* CLOCK_MONOTONIC */
	uint64_t reload_count;   /* reloads that were done */
	uint64_t reload_failed;
	uint64_t reopen_count, reopen_failed; /* of the log files */
	struct timespec reload_last; /* of either kind; zero: none */
	char reload_error[MASTER_STATUS_ERROR_MAX]; /* of the last reload, cut; empty: it was fine */
};

#endif
