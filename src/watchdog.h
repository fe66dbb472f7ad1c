/* SPDX-License-Identifier: MIT */
/*
 * Looks after workers whose handlers do not return within their time: such a worker is told to
 * answer 504, to hand its connections over and to die; one that does not listen is killed.  It
 * looks four times within the shortest timeout, and not at all where no handler has one.  Master
 * only.
 */
#ifndef WATCHDOG_H
#define WATCHDOG_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "row.h"

struct watchdog {
	struct rows *rows;
	ev_timer timer;
	struct watched {
		pid_t pid;
		uint64_t turn, since_ns; /* the turn seen last, and since when */
		bool told;
	} watched[SCOREBOARD_SLOTS];
};

void watchdog_init(struct watchdog *watchdog, struct rows *rows);

/* A generation with this configuration serves from now on, and a canary with the other one (NULL:
 * none). */
void watchdog_set(struct watchdog *watchdog, const struct config *config,
		  const struct config *other);
void watchdog_stop(struct watchdog *watchdog);

#endif
