/* SPDX-License-Identifier: MIT */
/*
 * Listening sockets.  The master owns them all in one pool; a set has those of one generation.
 * A socket whose address the next generation has again stays the very same one, so that no
 * connection in its queue is lost; it is closed with the last set that has it.
 *
 * Sockets are non-blocking and close-on-exec.  Accepted TCP connections inherit TCP_NODELAY and
 * the keep-alive settings, so a worker has nothing to set.
 *
 * Master only.  A child uses the fds, and calls nothing here.
 */
#ifndef LISTENER_H
#define LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "address.h"
#include "config.h"
#include "err.h"
#include "passed.h"

struct listener_pool;

struct listener {
	char *address; /* as configured */
	char *bound;   /* where it is: "127.0.0.1:34567", with the port that the kernel chose */
	int fd;

	/* Of the module. */
	struct address where;
	bool admin;  /* not one of the public ones */
	bool passed; /* by the service manager: neither closed nor removed here */
	bool stored; /* the service manager has it too, for the next instance */
	dev_t dev;   /* of a unix socket's file */
	ino_t ino;
	unsigned refs; /* sets that have it; none: the instance before had it */
	struct listener *next;
};

struct listener_set {
	size_t count;
	struct listener **listeners; /* in the order of the configuration */
	int *fds;                    /* of the same */
};

enum listener_result {
	LISTENER_OK,
	LISTENER_INVALID,     /* a mistake in the configuration */
	LISTENER_CANNOT_BIND, /* the system refused: in use, no right, no such address */
};

/*
 * Takes the sockets of LISTEN_FDS, also those that the instance before this one had stored.  To be
 * called before the first fork.
 */
struct listener_pool *listener_pool_new(void);

/* What was passed to this process, or to the program before it. */
struct passed *listener_pool_passed(struct listener_pool *pool);

/* Frees a pool without sets. */
void listener_pool_free(struct listener_pool *pool);

/* Has the service manager store the sockets of a set, and forget those that no set has. */
void listener_pool_store(struct listener_pool *pool, const struct listener_set *set);

/* From now on what is closed here stays for the next instance: stored, and with its unix sockets'
 * files. */
void listener_pool_keep(struct listener_pool *pool);

/*
 * Opens all or nothing; on failure *set is empty, *err has a message for each mistake, beginning
 * with its key ("listen[1].address"), and everything is as it was.  Sockets that another set has
 * too keep its mode, backlog and clock until listener_set_apply().
 */
enum listener_result listener_set_open(struct listener_set *set, struct listener_pool *pool,
				       const struct config_listen *listens, size_t count,
				       struct err *err);

/* The same for the one socket of admin.listen. */
enum listener_result listener_set_open_admin(struct listener_set *set, struct listener_pool *pool,
					     const struct config_listen *listen, struct err *err);

/*
 * Gives kept sockets the backlog, mode and clock of this configuration: once its generation serves.
 * -1 with errno when one could not be changed; the others are.
 */
int listener_set_apply(struct listener_set *set, const struct config_listen *listens);

/* A socket that the program before this one has opened: the fields of struct listener. */
struct listener_left {
	const char *address;
	int fd;
	bool admin, passed;
	dev_t dev;
	ino_t ino;
};

/* Makes a set of them, with which they belong to the pool.  -1 with errno; then the set is empty.
 */
int listener_set_adopt(struct listener_set *set, struct listener_pool *pool,
		       const struct listener_left *left, size_t count);

/* Gives back a set, also an empty one; its sockets close unless another set has them. */
void listener_set_close(struct listener_set *set, struct listener_pool *pool);

#endif
