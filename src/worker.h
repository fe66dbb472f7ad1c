/* SPDX-License-Identifier: MIT */
/* The role of a worker process: accepts connections, reads requests, runs handlers, sends answers.
 */
#ifndef WORKER_H
#define WORKER_H

#include "child.h"

/* Serves until told to stop (TERM, QUIT, or the master's death).  Returns the exit code. */
int worker_main(const struct worker_args *args);

/*
 * The proving child: loads, inits and finis every handler, and reports IPC_READY or IPC_FAILED.
 * Returns the exit code.
 */
int worker_prove(const struct worker_args *args);

/* The admin process: serves its listener with the handler that is built in.  Returns the exit code.
 */
int worker_admin(const struct worker_args *args);

#endif
