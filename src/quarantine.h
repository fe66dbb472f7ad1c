/* SPDX-License-Identifier: MIT */
/*
 * Requests that crash their workers, sent again and again.  One that did so twice in a row, without
 * an answer of its handler in between, is kept from it for a while.  Then a single one is let
 * through, to see.
 *
 * In shared memory, for all workers; written by fault handlers too: no locks, no allocation.  Who
 * comes in between two steps of another process may lose a crash or an entry, never an innocent
 * request.  What a crashing handler has scribbled here is forgotten.
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

#define QUARANTINE_LENGTH_MAX_NS 3600000000000ull

/* Nothing is remembered for longer than this: what says so was never written here. */
#define QUARANTINE_MEMORY_NS ((2ull << QUARANTINE_DOUBLINGS) * QUARANTINE_LENGTH_MAX_NS)

/* The octets of a request, its head with all fields and its body; to the same generation. */
struct quarantine_request {
	struct wc_span head, body;
	unsigned generation;
};

struct quarantine_entry {
	_Atomic uint64_t print; /* of the request; 0: free */
	_Atomic uint64_t size;  /* of the request */
	_Atomic uint64_t noted_ns; /* the last crash that counted */
	_Atomic uint64_t until_ns, forget_ns; /* kept back until; remembered until */
	_Atomic uint64_t length_ns;
	_Atomic uint32_t crashes; /* in a row */
};

struct quarantine {
	_Atomic uint64_t forget_ns; /* the latest of all */
	struct quarantine_entry entry[QUARANTINE_ENTRIES];
};

/* Whether that is a time until which something is remembered. */
static inline bool quarantine_is_due(uint64_t forget_ns, uint64_t now_ns)
{
	return forget_ns - now_ns - 1 < QUARANTINE_MEMORY_NS;
}

/* Whether there is any request to look for: else nobody needs a print. */
static inline bool quarantine_is_used(const struct quarantine *quarantine, uint64_t now_ns)
{
	return quarantine_is_due(
		atomic_load_explicit(&quarantine->forget_ns, memory_order_relaxed), now_ns);
}

/* Whether one of that size is remembered. */
bool quarantine_has_size(const struct quarantine *quarantine,
			 const struct quarantine_request *request, uint64_t now_ns);

/* The same for the same request to the same generation.  Never 0. */
uint64_t quarantine_print(const struct quarantine_request *request);

/*
 * A request has crashed its worker; began_ns: when its handler was called.  Crashes of requests that
 * were at work when one was noted count as that one.  It is kept back for length_ns when it is due,
 * twice as long after each further crash, up to 16 times.
 */
void quarantine_note_crash(struct quarantine *quarantine, uint64_t print, uint64_t size,
			   uint64_t began_ns, uint64_t now_ns, uint64_t length_ns);

/* 0, or until when the request is to be kept from its handler. */
uint64_t quarantine_holds(struct quarantine *quarantine, uint64_t print, uint64_t now_ns);

/* Its handler has answered it: it is innocent. */
void quarantine_clear(struct quarantine *quarantine, uint64_t print);

/* Forgets all. */
void quarantine_reset(struct quarantine *quarantine);

#endif
