/* SPDX-License-Identifier: MIT */
/*
 * Requests that crash their workers, sent again and again.  One that did so twice in a row, without
 * an answer of its handler in between, is kept from it for a while.  Then a single one is let
 * through, to see.
 *
 * In shared memory, for all workers; written by fault handlers too: no locks, no allocation.  Who
 * comes in between two steps of another process may lose a crash or an entry, never an innocent
 * request.
 */
#ifndef QUARANTINE_H
#define QUARANTINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "span.h"

enum {
	QUARANTINE_ENTRIES = 16, /* requests that are remembered: the last ones that crashed */
	QUARANTINE_CRASHES = 2,  /* in a row, and the request is kept back */
	QUARANTINE_DOUBLINGS = 4,
};

struct quarantine_entry {
	_Atomic uint64_t print;               /* of the request; 0: free */
	_Atomic uint64_t until_ns, forget_ns; /* kept back until; remembered until */
	_Atomic uint64_t length_ns;
	_Atomic uint32_t crashes; /* in a row */
};

struct quarantine {
	_Atomic uint64_t forget_ns; /* the latest of all */
	struct quarantine_entry entry[QUARANTINE_ENTRIES];
};

/* Whether there is any request to look for: else nobody needs a print. */
static inline bool quarantine_is_used(const struct quarantine *quarantine, uint64_t now_ns)
{
	return now_ns < atomic_load_explicit(&quarantine->forget_ns, memory_order_relaxed);
}

/* The same for the same request to the same generation.  Header fields do not count.  Never 0. */
uint64_t quarantine_print(unsigned generation, struct wc_span method, struct wc_span target,
			  struct wc_span body);

/* The request has crashed its worker.  It is kept back for length_ns when it is due, twice as long
 * after each further crash, up to 16 times. */
void quarantine_note_crash(struct quarantine *quarantine, uint64_t print, uint64_t now_ns,
			   uint64_t length_ns);

/* Whether the request is to be kept from its handler. */
bool quarantine_holds(struct quarantine *quarantine, uint64_t print, uint64_t now_ns);

/* Its handler has answered it: it is innocent. */
void quarantine_clear(struct quarantine *quarantine, uint64_t print);

#endif
