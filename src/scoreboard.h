/* SPDX-License-Identifier: MIT */
/*
 * Statistics in shared memory: one slot per process, its counters written by that process only and
 * read by everyone. Counters only ever grow: a process that takes a slot over counts on from where
 * the one before it ended, so that totals survive deaths and reloads.
 *
 * The memory is a memfd, mapped by the master before it forks.
 */
#ifndef SCOREBOARD_H
#define SCOREBOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "histogram.h"
#include "master_status.h"
#include "quarantine.h"

enum {
	SCOREBOARD_SLOTS = 256, /* slot 0 is the master's, then come the workers' */
	SCOREBOARD_ADMIN = 254, /* from here on those of admin processes, which no total counts */
	SCOREBOARD_ROUTES =
		96, /* of all generations that live, and of past ones as far as there is room */
	SCOREBOARD_LISTENERS = 96,     /* the same */
	SCOREBOARD_USER_COUNTERS = 64, /* handlers' own, per slot */
	SCOREBOARD_EXIT_MAX = 384,     /* what is told of a process's end, with the NUL */
	SCOREBOARD_NAME_MAX = 32,      /* with the NUL */
};

#define SCOREBOARD_MOVE_GAP_NS 1000000000ull /* without a moved connection: then a move is over */

enum scoreboard_counter {
#define COUNTER(field, path, doc) COUNTER_##field,
#include "counters.def"
#undef COUNTER
	COUNTER_COUNT
};

struct wc_counter {
	_Atomic uint64_t value;
};

struct scoreboard_user_counter {
	struct wc_counter counter;
	char name[SCOREBOARD_NAME_MAX];  /* of the counter; empty: free */
	char route[SCOREBOARD_NAME_MAX]; /* path of its route, cut */
};

struct scoreboard_route {
	_Atomic uint64_t requests, responses[6]; /* by the status's first digit */
	_Atomic uint64_t shed, late;
};

struct scoreboard_listener {
	_Atomic uint64_t accept;
};

/*
 * Which place among a slot's routes or listeners is whose, so that a route counts on where it
 * counted before a reload, whatever its place in the configuration.  Written by the master.
 */
struct scoreboard_place {
	_Atomic uint64_t key;        /* stats_route_key(), stats_listener_key(); 0: free */
	_Atomic uint32_t generation; /* the last one that has it */
};

/* Times of one route: from a request's arrival to its response handed to the kernel, and inside the
 * handler. */
struct scoreboard_times {
	struct histogram latency, handler;
};

/* Apart from the slots, which are looked through often.  Memory that nobody touched costs nothing.
 */
struct scoreboard_latency {
	struct histogram lag; /* of the loop: how long one round of events took */
	struct scoreboard_times
		route[SCOREBOARD_ROUTES + 1]; /* the last: requests without a route */
};

enum proving_step { PROVING_LOAD, PROVING_INIT, PROVING_FINI };

struct scoreboard_slot {
	/* Written by the master. */
	_Alignas(64) _Atomic int32_t pid;   /* 0: nobody */
	_Atomic uint32_t generation, state; /* state: enum slot_state */
	_Atomic uint32_t number;            /* of the worker */
	_Atomic uint64_t started_ns;        /* CLOCK_MONOTONIC */
	_Atomic uint64_t restarts;          /* of the worker with that number */
	_Atomic uint64_t hang_turn;         /* the turn that it was told to give up */
	_Atomic uint32_t used; /* 1: there was a process; until then all else is zero */
	char last_exit[SCOREBOARD_EXIT_MAX]; /* text, empty: none; the master writes it between two
						processes */

	/* Written by the process. */
	_Alignas(64) _Atomic uint64_t
		active;        /* connections open (gauge); the master clears it after a death */
	_Atomic uint64_t busy; /* of them, inside a request (gauge) */
	_Atomic uint64_t accepting; /* 1: takes new connections */
	_Atomic uint32_t
		proving; /* of a proving child: the route whose handler is at work, from 1 */
	_Atomic uint32_t proving_step; /* enum proving_step */
	_Atomic uint64_t move_began_ns, move_ended_ns; /* its last move, CLOCK_MONOTONIC; 0: none */
	_Atomic uint64_t move_count;                   /* connections that it gave in it */
	_Atomic uint64_t turn; /* odd: inside a handler or callback, another number each time */
	_Atomic uint64_t turn_limit_ms; /* that it may take; 0: any time */
	_Atomic uint64_t counter[COUNTER_COUNT];
	struct scoreboard_user_counter user[SCOREBOARD_USER_COUNTERS];
	struct scoreboard_route route[SCOREBOARD_ROUTES];
	struct scoreboard_listener listener[SCOREBOARD_LISTENERS];
};

struct scoreboard {
	/* The first three stay where they are in every version. */
	uint32_t version, slots; /* version: of the layout, names of counters included */
	_Atomic uint32_t
		stopping; /* 1: the whole server stops; nobody takes what a worker gives away */
	_Atomic uint32_t status_turn; /* odd: the status is being written */
	_Atomic uint32_t end; /* workers' slots from here on were never used */
	struct master_status status;
	struct scoreboard_place route[SCOREBOARD_ROUTES], listener[SCOREBOARD_LISTENERS];
	/* Of crashes that follow each other, CLOCK_MONOTONIC; written by the workers. */
	_Alignas(64) _Atomic uint64_t crash_ns; /* when the last one is answered; 0: none */
	_Atomic uint64_t storm_ns;              /* until then newcomers come in one by one, */
	_Atomic uint64_t newcomer_ns;           /* the next one not before this */
	_Alignas(64) struct quarantine quarantine;
	_Alignas(64) struct scoreboard_slot slot[SCOREBOARD_SLOTS];
	_Alignas(4096) struct scoreboard_latency latency[SCOREBOARD_SLOTS];
};

/* The first slot that no worker has ever had.  A look at it would cost pages of memory. */
static inline unsigned scoreboard_end(const struct scoreboard *scoreboard)
{
	return atomic_load_explicit(&scoreboard->end, memory_order_relaxed);
}

/* Master: the slot is used from now on. */
static inline void scoreboard_extend(struct scoreboard *scoreboard, unsigned slot)
{
	if (slot < SCOREBOARD_ADMIN && slot >= scoreboard_end(scoreboard))
		atomic_store(&scoreboard->end, slot + 1);
}

/* Adds to a counter that this process alone writes: a plain load, add and store. */
static inline void scoreboard_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* A process moves connections now, and gives so many of them away. */
static inline void scoreboard_note_move(struct scoreboard_slot *slot, uint64_t now_ns,
					uint64_t given)
{
	if (now_ns - atomic_load_explicit(&slot->move_ended_ns, memory_order_relaxed) >
	    SCOREBOARD_MOVE_GAP_NS) {
		atomic_store_explicit(&slot->move_began_ns, now_ns, memory_order_relaxed);
		atomic_store_explicit(&slot->move_count, 0, memory_order_relaxed);
	}
	scoreboard_add(&slot->move_count, given);
	atomic_store_explicit(&slot->move_ended_ns, now_ns, memory_order_relaxed);
}

/* Maps a new scoreboard, all zero; *fd is its memfd (close-on-exec).  NULL with errno. */
struct scoreboard *scoreboard_open(int *fd);
void scoreboard_close(struct scoreboard *scoreboard, int fd);

/* Maps the scoreboard of another program.  NULL with errno; EPROTO: its layout is another one. */
struct scoreboard *scoreboard_adopt(int fd);

/* Tells those who use a scoreboard of any layout that the whole server stops. */
void scoreboard_stop(int fd);

/*
 * Master: gives the key a place for this generation.  A place is taken from another key only
 * when no generation from `oldest` on has it; then its counters begin at 0.
 */
void scoreboard_claim_route(struct scoreboard *scoreboard, uint64_t key, unsigned generation,
			    unsigned oldest);
void scoreboard_claim_listener(struct scoreboard *scoreboard, uint64_t key, unsigned generation,
			       unsigned oldest);

/* Master: shows its status to the others, who see it whole. */
void scoreboard_put_status(struct scoreboard *scoreboard, const struct master_status *status);
void scoreboard_get_status(const struct scoreboard *scoreboard, struct master_status *status);

/* Whether half of this generation's workers or more are away: they have crashed, and are not back
 * yet. */
bool scoreboard_is_thin(const struct scoreboard *scoreboard, unsigned generation);

/* Sums over all slots but those of admin processes. */
uint64_t scoreboard_total(const struct scoreboard *scoreboard, enum scoreboard_counter counter);
uint64_t scoreboard_active(const struct scoreboard *scoreboard);

#endif
