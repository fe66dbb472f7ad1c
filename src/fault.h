/* SPDX-License-Identifier: MIT */
/*
 * What a worker still does when it crashes, or is told that it hangs: it answers the request that
 * did it, hands all connections over to other workers, reports, and dies by the signal that it got.
 *
 * The work is done in the signal handler, on a stack of its own, with async-signal-safe calls only.
 * A fault in another thread, and a signal from outside, find the main thread sound: it first ends
 * the turn of the loop that it is at, if that does not take long, so that no request is cut in two.
 */
#ifndef FAULT_H
#define FAULT_H

#include <signal.h>

struct engine;

/* Sent by the master to a worker whose handler does not return; in the worker also from thread to
 * thread. */
#define FAULT_SIGNAL SIGRTMAX

/* Main, once, before any fork: loads what a backtrace needs, for all workers. */
void fault_prepare(void);

/* Installs the handlers for the calling process, whose main thread this is.  -1 with errno. */
int fault_install(struct engine *engine);

/* From now on exit() is no mistake of a handler's. */
void fault_allow_exit(void);

/* At the end of a turn in which engine->fault_due was set.  Does not return. */
void fault_now(void);

#endif
