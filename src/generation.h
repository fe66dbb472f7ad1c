/* SPDX-License-Identifier: MIT */
/*
 * A generation: one configuration with all that its workers need: the listeners, private copies of
 * its handler files, its access log, and who its workers are.  Master only.
 *
 * It lives until it is retired and no process of it is left.
 */
#ifndef GENERATION_H
#define GENERATION_H

#include <stdbool.h>

#include "config.h"
#include "err.h"
#include "handler.h"
#include "listener.h"
#include "privs.h"
#include "restart.h"
#include "scoreboard.h"

enum generation_result {
	GENERATION_OK,
	GENERATION_INVALID, /* configuration or handlers */
	GENERATION_CANNOT_BIND,
};

struct generation {
	unsigned number;
	struct generation *next; /* in the master's list */
	struct config *config;
	struct listener_pool *pool; /* of the listeners; NULL: a test, nothing is opened */
	struct listener_set listeners;
	struct config_listen admin_listen;  /* of admin_listener, as of a public one */
	struct listener_set admin_listener; /* empty without one */
	struct handler_image *images;       /* one per route */
	size_t image_count;
	struct privs privs;
	int access_log; /* -1: none */

	unsigned workers; /* wanted */
	unsigned rows;    /* that refer to it */
	bool proven;      /* its handlers */
	bool unable;      /* for want of a process or a descriptor it can't be tried */
	bool refused;     /* its handlers are not fit to serve: the reason says why, and stays */
	bool serving;     /* its workers may accept */
	bool trial;       /* its first worker may too, beside those of the old one */
	bool retired;
	bool foreign;           /* of the program before this one: its processes can only leave */
	unsigned failed_starts; /* in a row */
	char *reason;           /* of the last one */
	struct restart
		restart[SCOREBOARD_SLOTS]; /* by number of the worker; the last is the prover's */
};

/*
 * Opens everything that a loaded configuration names, which the generation takes over in every
 * case.  Nothing that is in use changes. On failure *generation stays as it is and *err has all
 * messages.
 */
enum generation_result generation_open(struct generation **generation, unsigned number,
				       struct config *config, struct listener_pool *pool,
				       struct err *err);

/*
 * The generation of processes that the program before this one has started.  It takes over their
 * configuration in every case.  NULL with errno.
 */
struct generation *generation_adopt(unsigned number, struct config *config,
				    struct listener_pool *pool);

/* Gives the fds of listeners and handlers back: no worker of it will be started any more. */
void generation_retire(struct generation *generation);
void generation_free(struct generation *generation);

/* The socket of its admin process; -1: it has none. */
int generation_admin_fd(const struct generation *generation);

/* A start failed: the text is kept. */
void generation_note_failure(struct generation *generation, const char *reason);

/* Opens the access log anew.  -1 with errno, and then goes on with the old one. */
int generation_reopen(struct generation *generation);

#endif
