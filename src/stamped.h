/* SPDX-License-Identifier: MIT */
/*
 * Reading from sockets whose octets the kernel stamps as they arrive (SO_TIMESTAMPNS): one recvmsg
 * instead of one recv.  TCP only.
 *
 * Trap: what one call brings has one stamp, that of the last segment in it, whatever part of it is
 * read.  And the kernel begins to stamp a moment after the first socket has asked for it: until then
 * there is none.
 */
#ifndef STAMPED_H
#define STAMPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct engine;

/* For a listening socket, whose connections inherit it, or a connection.  -1 with errno. */
int stamped_enable(int fd, bool on);

/* How CLOCK_REALTIME stands to CLOCK_MONOTONIC; before the first stamp is looked at. */
void stamped_init(struct engine *engine);

/*
 * As recv().  *came_ns is when the octets came, not before since_ns (0: not known); as of this turn
 * of the loop where the kernel does not say.
 */
ssize_t stamped_receive(struct engine *engine, int fd, void *to, size_t room, uint64_t since_ns,
			uint64_t *came_ns);

#endif
