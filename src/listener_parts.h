/* SPDX-License-Identifier: MIT */
/*
 * What the files of the listeners share, and nobody else includes: listener.c (the pool and its
 * sets), listener_open.c (one socket) and listener_store.c (in the service manager's store).
 */
#ifndef LISTENER_PARTS_H
#define LISTENER_PARTS_H

#include "listener.h"

struct listener_pool {
	struct listener *first;
	struct passed passed;
	pid_t owner;
	bool kept; /* for the next instance */
};

/* One entry of the configuration on its way to a listener. */
struct listener_request {
	struct listener_pool *pool;
	const struct listener_set *set; /* entries before `index` are filled in; NULL: failed */
	const struct config_listen *listens;
	size_t index;
	bool admin;
	struct address address;
	struct err *err;
};

/* listener.c */

/* Closes it, and removes its file, unless the next instance is to have it. */
void listener_free(struct listener *l, const struct listener_pool *pool);

/* Makes one of a socket that is open, in the pool.  NULL with errno. */
struct listener *listener_adopt(struct listener_pool *pool, const struct listener_left *left);

/* listener_open.c */

/* Opens the socket of an entry: makes it, or picks it among those that were passed. */
enum listener_result listener_make(struct listener *l, const struct listener_request *r);
enum listener_result listener_pick(struct listener *l, const struct listener_request *r);

/* A message that begins with the entry's key; of errno, with what helps. */
enum listener_result listener_complain(const struct listener_request *r,
				       enum listener_result result, const char *found,
				       const char *expected);
enum listener_result listener_complain_errno(const struct listener_request *r, const char *what);

/* Whether the file of a unix socket is still the one that was made for it. */
bool listener_has_file(const struct listener *l, const char *path);
const char *listener_path(const struct address *address);

bool listener_is_stream(int fd);
bool listener_wants_kernel_clock(const struct config_listen *config);

/* Fills in where the socket is; -1 with errno. */
int listener_find_bound(struct listener *l);

/* listener_store.c */

void listener_store(struct listener *l);

/* The manager drops all that have the name: one that took the place of this one is stored again. */
void listener_unstore(const struct listener *l, const struct listener_pool *pool);

/*
 * Those that the instance before had.  Which configuration wants them is still to be seen; one
 * whose file is gone is of no use to anybody.
 */
void listener_adopt_stored(struct listener_pool *pool);

#endif
