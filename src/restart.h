/* SPDX-License-Identifier: MIT */
/*
 * When a process that ended is started again.  The first time at once, then after 100 ms, doubling
 * to 10 s; a process that stayed up for 60 s starts the count anew.  Pure; all times are in ms of
 * one clock that never goes back.
 */
#ifndef RESTART_H
#define RESTART_H

#include <stdbool.h>
#include <stdint.h>

enum {
	RESTART_FIRST_MS = 100,
	RESTART_SERVED_MS =
		5, /* of one that has served, while no other one does: clients wait for it */
	RESTART_MAX_MS = 10000,
	RESTART_STABLE_MS = 60000,
	RESTART_CLEAN_MS = 1000, /* who left by itself after that long has not failed */
	RESTART_CRASH_LOOP = 5,  /* failed starts in a row: a server that never served gives up */
};

/* One worker's history.  All zero: it never ended. */
struct restart {
	unsigned failures;
	bool served; /* the process that ended last had got ready */
	uint64_t ended_ms, due_ms;
};

/* The process has ended after alive_ms; clean: with exit code 0. */
void restart_note_end(struct restart *restart, uint64_t now_ms, uint64_t alive_ms, bool clean);

/* Time until the next start, which is at most limit_ms after the end.  RESTART_MAX_MS: as long as
 * it takes. */
uint64_t restart_wait(const struct restart *restart, uint64_t now_ms, uint64_t limit_ms);

#endif
