/* SPDX-License-Identifier: MIT */
/* Variables that are meant for this process alone. */
#ifndef ENVIRONMENT_H
#define ENVIRONMENT_H

/*
 * Takes a variable out of the environment: neither programs that are executed later nor readers of
 * /proc/PID/environ find it.  Its value, to be freed; NULL: it is not set, or there is no memory.
 */
char *environment_take(const char *name);

#endif
