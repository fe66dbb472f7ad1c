/* SPDX-License-Identifier: MIT */
/*
 * A worker that has served limits.worker_requests, or holds limits.worker_memory, asks the master
 * for another one in its place.  It goes on serving until it is told to leave.  One per worker.
 */
#ifndef RECYCLER_H
#define RECYCLER_H

struct engine;
struct recycler;

/* NULL: no memory. */
struct recycler *recycler_new(struct engine *engine);
void recycler_free(struct recycler *recycler);

/* After each turn of the loop. */
void recycler_look(struct recycler *recycler);

#endif
