/* SPDX-License-Identifier: MIT */
/*
 * Hands the connections of a dying worker over.  Runs in a signal handler, wherever the process was
 * interrupted: it walks the connections' memory and no list, checks what it reads, allocates
 * nothing.
 */
#ifndef CONN_RESCUE_H
#define CONN_RESCUE_H

struct engine;
struct fault_cause;

/*
 * The request whose handler was running is answered 500, or 504 if it hangs; requests pending with
 * their handlers 500, or they are left to be run again where the handler allows it; everything else
 * goes on elsewhere.  What can't be given is counted as lost by the master, by the slot's count of
 * open connections.
 */
void conn_rescue_all(struct engine *engine, const struct fault_cause *cause);

/* Sends what conn_rescue_all() has not sent yet, also when that was left by a jump; the answers 500
 * and 504 only if the crash before this one was long enough ago. */
void conn_rescue_end(void);

/* How many connections the exchange has not taken, and with which errno the last of them. */
unsigned conn_rescue_unsent(int *error);

/* Waits, two seconds at most, until those may go too. */
void conn_rescue_answer(void);

/* From the handler of a second fault: gives up the connection at hand, if there is one. */
void conn_rescue_skip(void);

#endif
