/* SPDX-License-Identifier: MIT */
/*
 * The role of the master: supervises, reloads, stops.  It never loads a handler and never reads a
 * byte of a client.
 */
#ifndef MASTER_H
#define MASTER_H

#include <stdbool.h>

#include "child.h"
#include "upgrade_state.h"

enum master_exit {
	MASTER_OK = 0,
	MASTER_FAILED = 1,      /* at run time */
	MASTER_CONFIG = 2,      /* configuration or handlers */
	MASTER_CANNOT_BIND = 3,
	MASTER_CRASH_LOOP = 4,  /* workers can't be started */
};

struct master_options {
	const char *path;       /* of the configuration, absolute; NULL: the defaults */
	char *const *overrides; /* ended by NULL */
	const struct upgrade_state *left; /* by the program before this one; NULL: started anew */
	bool test;              /* only load and prove: no listener, log or pid file is opened */
};

/*
 * Runs until the server has stopped, and no child is left.  To be called with signals blocked;
 * those that came meanwhile are acted upon.  Why a server did not start is on stderr.  Returns an
 * enum master_exit.
 * In children it does not return.
 */
int master_main(const struct master_options *options, const struct child_roles *roles);

#endif
