/* SPDX-License-Identifier: MIT */
/*
 * Octets and descriptors over a unix socket in one message (SCM_RIGHTS).  Neither call blocks,
 * whatever the flags of the socket are; interrupted calls are repeated.
 */
#ifndef FDPASS_H
#define FDPASS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { FDPASS_MAX = 253 }; /* the kernel's SCM_MAX_FD: descriptors per message */

/* What a message brought besides its octets. */
struct fdpass_extra {
	size_t fd_count;
	bool fds_cut;    /* the surplus is closed already: no room, or no free descriptor */
	bool octets_cut; /* the message was longer than the iovecs */
};

/*
 * Sends one message; the descriptors stay open here.  At least one octet is needed.
 * The number of octets sent, or -1 with errno (EAGAIN: the queue is full; EPIPE: the peer is gone;
 * ETOOMANYREFS: too many descriptors of this user are under way).
 */
ssize_t fdpass_send(int fd, const struct iovec *iov, size_t iov_count, const int *fds,
		    size_t fd_count);

/*
 * Receives one message, and up to `room` descriptors, which are close-on-exec and the caller's to
 * close.  The number of octets, 0 at the end, or -1 with errno; *extra is always set.
 */
ssize_t fdpass_receive(int fd, const struct iovec *iov, size_t iov_count, int *fds, size_t room,
		       struct fdpass_extra *extra);

#endif
