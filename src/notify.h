/* SPDX-License-Identifier: MIT */
/*
 * Words to the service manager (NOTIFY_SOCKET, see sd_notify(3)).  Without one, all of this does
 * nothing.
 *
 * Master only: the manager takes messages of the main process alone.  Nothing of it stays in the
 * environment, so that neither workers nor what they start can speak in its name.
 */
#ifndef NOTIFY_H
#define NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Main, before the first fork: takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and FDSTORE or
 * WHITECAP_FDSTORE, which say that the manager stores descriptors, out of the environment.
 */
void notify_take(void);

/* Puts them back, for the program that is executed in the place of this one. */
void notify_leave(void);

bool notify_is_on(void);

/* Within which WATCHDOG=1 is expected; 0: it is not. */
uint64_t notify_watchdog_us(void);

/* Whether the manager keeps descriptors for the next instance. */
bool notify_has_store(void);

/* Sends assignments, one a line; a descriptor goes along unless it is -1.  -1 with errno. */
int notify_send(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Waits until the manager has read all that was sent before, but no longer than that. */
void notify_flush(int ms);

#endif
