/* SPDX-License-Identifier: MIT */
/*
 * Descriptors passed by the service manager (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES; see
 * sd_listen_fds(3)).
 */
#ifndef PASSED_H
#define PASSED_H

#include <stddef.h>

struct passed_fd {
	int fd;
	char *name;
};

struct passed {
	struct passed_fd *fds;
	size_t count;
};

/*
 * Takes what was passed to this process out of the environment, in which nothing of it stays;
 * the descriptors become close-on-exec.  What was meant for another process is left alone.
 */
void passed_take(struct passed *passed);

/* Adds one that the program before this one has taken.  -1 with errno. */
int passed_add(struct passed *passed, int fd, const char *name);

/*
 * Takes the first one out of the list whose name begins like that: its descriptor, and its name, to
 * be freed.  -1: there is none.
 */
int passed_pick(struct passed *passed, const char *prefix, char **name);

/* Frees the list; the descriptors stay open. */
void passed_free(struct passed *passed);

#endif
