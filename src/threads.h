/* SPDX-License-Identifier: MIT */
/*
 * Threads that handlers start: each gets a stack for signal handlers, and can't begin with faults
 * blocked, so that a fault in it, be it that its own stack is full, is seen (fault.h) and not just
 * the end of the process.
 *
 * The program's pthread_create() comes before the C library's for all that is loaded later; it
 * calls that one.
 */
#ifndef THREADS_H
#define THREADS_H

/* From now on, for the calling process.  Before that, threads start as ever. */
void threads_guard(void);

#endif
