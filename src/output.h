/* SPDX-License-Identifier: MIT */
/*
 * Responses on their way to one connection: heads and small bodies are copied together into one
 * buffer, large bodies are referred to, and all of it leaves with one system call.  There is one
 * output per worker; it is empty between two events.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

enum {
	OUTPUT_BUFFER = 65536,
	OUTPUT_COPY_MAX = 8192,   /* a body up to this size is copied */
	OUTPUT_FIELDS_MAX = 16384, /* octets of fields and reason in one response */
	OUTPUT_PIECES_MAX = 1000, /* pieces of one body */
	OUTPUT_IOV = 1024 + OUTPUT_PIECES_MAX + 2,
};

struct output {
	char *buffer;
	size_t used;      /* of buffer */
	size_t len;       /* octets in all pieces */
	int count;        /* of pieces */
	bool refers;      /* a piece is not in the buffer */
	struct iovec *iov;
};

/* 0, or -1: no memory. */
int output_init(struct output *output);
void output_fini(struct output *output);

/* Whether the largest possible response still fits; else send first. */
bool output_has_room(const struct output *output);

/* Copies. */
void output_copy(struct output *output, const void *data, size_t len);

/* Where a head may be written, OUTPUT_FIELDS_MAX + HTTP_HEAD_ROOM octets; then output_wrote(). */
char *output_tail(struct output *output);
void output_wrote(struct output *output, size_t len);

/* Takes a body of `len` octets in pieces: copied when small, referred to when large. */
void output_body(struct output *output, const struct iovec *iov, int count, size_t len);
void output_clear(struct output *output);

/*
 * Sends as much as the kernel takes at once.  Returns the octets sent, fewer than asked for when it
 * takes no more; -1 with errno.  Pieces are advanced.
 */
ssize_t output_send(int fd, struct iovec **iov, int *count);

#endif
