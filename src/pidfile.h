/* SPDX-License-Identifier: MIT */
/*
 * The pid file of the master.  The lock on it, not the number in it, says whether a server lives:
 * what a dead one left behind is harmless.
 */
#ifndef PIDFILE_H
#define PIDFILE_H

#include <sys/types.h>

#include "err.h"

struct pidfile {
	char *path; /* NULL: none */
	int fd;     /* close-on-exec; the lock belongs to it, and goes with its last copy */
	dev_t dev;
	ino_t ino;
};

/*
 * Makes, locks and writes the file.  A path of NULL gives an empty *pidfile.
 * 0, or -1 with a message in *err; then *pidfile is empty.
 */
int pidfile_open(struct pidfile *pidfile, const char *path, struct err *err);

/* The process that holds the file's lock.  -1 with a message: no server runs by it. */
pid_t pidfile_find(const char *path, struct err *err);

/* Master, at a clean stop: removes the file if it is still the one that was made; unlocks it. */
void pidfile_close(struct pidfile *pidfile);

#endif
