/* SPDX-License-Identifier: MIT */
/*
 * Messages between the master and one child over a SOCK_SEQPACKET pair.  One message is one
 * packet; the end of the pair's other side is how each learns that the other has died.
 * Both ends are close-on-exec and non-blocking.
 */
#ifndef IPC_H
#define IPC_H

#include <stddef.h>
#include <stdint.h>

enum ipc_type {
	IPC_READY = 1, /* child: loaded, initialised, can serve (proving child: all proven) */
	IPC_FAILED,    /* child: can't get ready; text says why */
	IPC_FAULT,     /* child: is dying of a fault; text says of what */
	IPC_RECYCLE,   /* child: wants to be replaced; text says why */
	IPC_GO,        /* master: begin to accept */
	IPC_REOPEN,    /* master: log files reopened; fds: log, access log (as far as configured) */
	IPC_PING,      /* master: say that your loop turns */
	IPC_PONG,      /* child: it does */
	IPC_FAREWELL,  /* master: let each connection end with its next answer */
	IPC_PROVEN,    /* master: the handlers are, load them */
};

enum { IPC_TEXT_MAX = 8192, IPC_FDS_MAX = 4 };

struct ipc_message {
	uint32_t type;          /* enum ipc_type */
	uint32_t fd_count;
	int fds[IPC_FDS_MAX];   /* received fds belong to the receiver, close-on-exec */
	size_t text_len;
	char text[IPC_TEXT_MAX]; /* terminated */
};

/* pair[0] for the master, pair[1] for the child.  -1 with errno. */
int ipc_open(int pair[2]);

/* Sends one message.  -1 with errno (EAGAIN: the peer does not read; EPIPE: it is gone). */
int ipc_send(int fd, enum ipc_type type, const char *text, const int *fds, unsigned fd_count);

/* 1: *message is one message; 0: the peer is gone; -1 with errno (EAGAIN: nothing there). */
int ipc_receive(int fd, struct ipc_message *message);

#endif
