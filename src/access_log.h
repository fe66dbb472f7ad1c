/* SPDX-License-Identifier: MIT */
/*
 * The access log of a worker: lines are gathered and written together, whole, without ever
 * waiting; what can't be written is dropped and counted.
 */
#ifndef ACCESS_LOG_H
#define ACCESS_LOG_H

#include <stddef.h>

struct access_log;
struct conn;
struct engine;
struct request;

/* Writes to `fd`, which it owns from now on.  NULL: no memory. */
struct access_log *access_log_open(struct engine *engine, int fd);

/* Flushes and closes. */
void access_log_close(struct access_log *log);

/* What is gathered, by one bare call: for a fault handler. */
void access_log_rescue(struct access_log *log);

/* Another fd from now on; what is gathered still goes to the one before. */
void access_log_reopen(struct access_log *log, int fd);

/* A response has been put together: `bytes` is the length of its body. */
void access_log_add(struct access_log *log, const struct conn *conn, const struct request *request,
		    int status, size_t bytes);

#endif
