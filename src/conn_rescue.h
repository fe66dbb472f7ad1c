/* SPDX-License-Identifier: MIT */
/*
 * Hands the connections of a dying worker over.  Runs in a signal handler, wherever the process was interrupted: it walks the
 * connections' memory and no list, checks what it reads, allocates nothing.
 */
#ifndef CONN_RESCUE_H
#define CONN_RESCUE_H

struct engine;

/*
 * The request whose handler was running is answered with `status`, requests pending with their handlers with 500, or left to be run
 * again where the handler allows it; everything else goes on elsewhere.  What can't be given is counted as lost
 * by the master, by the slot's count of open connections.
 */
void conn_rescue_all(struct engine *engine, int status);

/* From the handler of a second fault: gives up the connection at hand, if there is one. */
void conn_rescue_skip(void);

#endif
