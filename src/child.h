/* SPDX-License-Identifier: MIT */
/*
 * What the master hands to the processes that it forks, and the two entry points of such a child.
 * Main fills the table in, so that the roles need not know each other.
 */
#ifndef CHILD_H
#define CHILD_H

#include <stdbool.h>

#include "config.h"
#include "exchange.h"
#include "handler.h"
#include "scoreboard.h"

/* Everything is borrowed and lives as long as the process. */
struct worker_args {
	const struct config *config;         /* of its generation */
	const struct handler_image *images;  /* one per route of the configuration, in its order */
	const int *listeners;                /* fds, one per config->listens, in its order */
	struct scoreboard *scoreboard;
	unsigned slot;                       /* its own in the scoreboard */
	unsigned number;                     /* of the worker, from 0: wc_worker_id() */
	unsigned generation;
	struct exchange exchange;            /* shared by all workers; -1: none */
	bool stored;                         /* what is in the exchange outlives the server */
	bool passed;                         /* listeners outlive the server, and who waits there */
	bool trial;                          /* until it is told to go on a second time, others of an
						older generation serve beside it */
	bool sole;                           /* all that use the exchange are of this very program */
	bool wait;                           /* until it is told that its handlers are proven */
	bool go;                             /* accepts as soon as it is ready, without being told */
	int ipc;                             /* its end of the pair with the master */
	int access_log;                      /* fd, -1 without one */
	int admin_listener;                  /* fd, -1 without one; its address is config->admin_listen */
	const struct wc_handler *builtin;    /* answers all routes, in the place of images; NULL: none */
};

/* Called right after the fork, with all signals blocked; what they return is the exit code. */
struct child_roles {
	int (*serve)(const struct worker_args *args);
	int (*prove)(const struct worker_args *args);
	int (*admin)(const struct worker_args *args);
};

#endif
