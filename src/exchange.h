/* SPDX-License-Identifier: MIT */
/*
 * The exchange: one SOCK_SEQPACKET pair that all workers share, carrying live connections from one
 * process to another: their descriptors and a small versioned record for each.  A message is not
 * bound to a reader: what one process gives is taken by whichever takes next, also one that starts
 * later.
 *
 * Batches are built and sent without memory allocation, so that a fault handler can do it too.
 *
 * Trap: a connection that was given away must leave the giver's epoll set before the giver sleeps
 * again (EPOLL_CTL_DEL): the taker holds the same open file, so close() alone does not remove it.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "fdpass.h"

enum {
	EXCHANGE_VERSION = 1,
	EXCHANGE_BATCH = 64,          /* connections in a message at most */
	EXCHANGE_MESSAGE_MAX = 65536, /* octets of a message at most */
	EXCHANGE_INLINE_MAX = 8192,   /* payload of a connection; a larger one travels in a memfd */
};

struct exchange {
	int give, take; /* the two ends */
};

enum exchange_state { EXCHANGE_IDLE, EXCHANGE_READING, EXCHANGE_SENDING };

/*
 * What a connection is, besides its socket.  Native byte order: it never leaves the machine.  After
 * an upgrade it comes from programs of older versions: fields are only added at the end, with a new
 * EXCHANGE_VERSION, and zero means what it was before there was the field.
 */
struct exchange_record {
	uint64_t listener;    /* exchange_listener_id() of its listener's address */
	uint64_t received_ns; /* first octet of the request in progress, CLOCK_MONOTONIC; 0: none */
	uint64_t chunk_left;  /* of a chunked body in progress, with the other chunk_ fields */
	uint32_t chunk_overhead;
	uint32_t head_len;     /* of a chunked request in progress: its head; 0 otherwise */
	uint32_t served;       /* requests on this connection so far */
	uint32_t input_len;    /* payload: octets of requests not answered yet, chunks decoded */
	uint32_t output_len;   /* payload, behind it: octets of responses not sent yet */
	uint16_t family, port; /* of the peer */
	uint8_t address[16];
	uint16_t moves; /* how often it was moved, this time included */
	uint8_t state;  /* enum exchange_state */
	uint8_t chunk_state, chunk_digits;
	uint8_t continued;       /* 1: 100 (Continue) was sent */
	uint8_t closing, linger; /* 1: after the output */
	uint8_t in_memfd; /* 1: the payload is in a memfd, the descriptor behind the socket */
	uint8_t replayed; /* 1: the request was pending on a worker that died, and is run again */
	uint16_t rate; /* requests a second when it was given for evenness; 0: unknown */
	uint8_t evened; /* how often it was given for evenness lately, this time included */
};

struct exchange_batch {
	unsigned count; /* connections */
	unsigned fd_count;
	size_t len; /* of data */
	int fds[FDPASS_MAX];
	char data[EXCHANGE_MESSAGE_MAX];
};

/* Opens the pair, with a queue as large as the kernel allows.  -1 with errno. */
int exchange_open(struct exchange *exchange);
void exchange_close(struct exchange *exchange);

/* The same for the same address in every process and version. */
uint64_t exchange_listener_id(const char *address);

/* Whether there can be such a connection: a taker refuses a message with another one. */
bool exchange_is_sound(const struct exchange_record *record);

void exchange_clear(struct exchange_batch *batch);

/*
 * Adds a connection.  `payload` are its input and output, as long as the record says together.
 * False: the batch is full, or there is no memfd for the payload; then nothing was added.
 */
bool exchange_add(struct exchange_batch *batch, int fd, struct exchange_record *record,
		  const struct iovec *payload, int pieces);

/* Sends a batch.  -1 with errno: EAGAIN (full) or ETOOMANYREFS; nothing was sent.  The sockets stay
 * open here. */
int exchange_send(int give, const struct exchange_batch *batch);

/* To walk a batch that was built here as if it had been received. */
void exchange_finish(struct exchange_batch *batch);

/* Closes the memfds of a batch; those of its sockets too if `sockets`. */
void exchange_drop(struct exchange_batch *batch, bool sockets);

/* Takes a batch, which may hold no connection.  1; 0: the exchange is no more; -1 with errno
 * (EAGAIN: nothing there). */
int exchange_receive(int take, struct exchange_batch *batch);

/*
 * How many descriptors the next batch brings, and the rate of its first connection.  It stays where
 * it is, and another process may take it.  0: there is none.
 */
unsigned exchange_peek(int take, uint64_t *rate);

/*
 * Whether a received batch is of a newer version than this program knows.  Then who gave it has
 * others to take it, and this one can put it back as it came, and must take no more.  -1 with
 * errno: it could not be put back.
 */
bool exchange_is_newer(const struct exchange_batch *batch);
int exchange_put_back(int give, struct exchange_batch *batch);

/* How many connections the sender has put into a received batch, also where not all came; 0: it is
 * not understood. */
unsigned exchange_count(const struct exchange_batch *batch);

/* One connection of a received batch. */
struct exchange_item {
	int fd;    /* the socket; the caller's from now on */
	int memfd; /* -1: none */
	struct exchange_record record;
	const char *payload; /* inline; NULL when it is in the memfd */
};

/* Adds a connection of a received batch to another one, as it came.  False: that one is full. */
bool exchange_forward(struct exchange_batch *batch, const struct exchange_item *item);

/*
 * Walks a received batch; start with *at = *next_fd = 0.  1: *item is the next connection, checked;
 * 0: no more; -1: the rest of the batch is not understood (a newer version, or damaged) or did not
 * come (no free descriptors).
 */
int exchange_next(const struct exchange_batch *batch, size_t *at, unsigned *next_fd,
		  struct exchange_item *item);

/* For a batch that nobody will take: sends each client the octets that are due, as far as they go
 * out at once.  How many got all of theirs. */
unsigned exchange_send_output(const struct exchange_batch *batch);

#endif
