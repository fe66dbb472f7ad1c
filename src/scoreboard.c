/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "scoreboard.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "slot.h"
#include "stats.h"

enum { VERSION = 4 };

static uint32_t mix(uint32_t hash, const void *data, size_t len)
{
	for (const unsigned char *at = data; len > 0; at++, len--)
		hash = (hash ^ *at) * 16777619u; /* FNV-1a */
	return hash;
}

/* Another one for each layout, as far as it can be told; VERSION says when the meaning has changed.
 */
static uint32_t layout(void)
{
	static const char *const counters[] = {
#define COUNTER(field, path, doc) #field,
#include "counters.def"
#undef COUNTER
	};
	const size_t sizes[] = {
		sizeof(struct scoreboard),
		sizeof(struct scoreboard_slot),
		sizeof(struct scoreboard_latency),
		sizeof(struct master_status),
		offsetof(struct scoreboard, route),
		offsetof(struct scoreboard_slot, active),
		offsetof(struct scoreboard_slot, counter),
		offsetof(struct scoreboard_slot, user),
		offsetof(struct scoreboard_slot, route),
		offsetof(struct scoreboard_slot, listener),
		SCOREBOARD_SLOTS,
		SCOREBOARD_ADMIN,
		HISTOGRAM_BUCKETS,
	};
	uint32_t hash = mix(2166136261u + VERSION, sizes, sizeof(sizes));

	for (size_t i = 0; i < COUNTER_COUNT; i++)
		hash = mix(hash, counters[i], strlen(counters[i]) + 1);
	return hash;
}

static struct scoreboard *map(int fd)
{
	struct scoreboard *scoreboard =
		mmap(NULL, sizeof(*scoreboard), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (scoreboard == MAP_FAILED)
		return NULL;
	/* To dump it fills its holes: some 350 MB of memory, and as much in each core. */
	madvise(scoreboard, sizeof(*scoreboard), MADV_DONTDUMP);
	return scoreboard;
}

struct scoreboard *scoreboard_adopt(int fd)
{
	struct scoreboard *scoreboard;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return NULL;
	if (st.st_size != (off_t)sizeof(*scoreboard)) {
		errno = EPROTO;
		return NULL;
	}
	scoreboard = map(fd);
	if (scoreboard == NULL ||
	    (scoreboard->version == layout() && scoreboard->slots == SCOREBOARD_SLOTS))
		return scoreboard;
	munmap(scoreboard, sizeof(*scoreboard));
	errno = EPROTO;
	return NULL;
}

void scoreboard_stop(int fd)
{
	const uint32_t stopping = 1;

	if (pwrite(fd, &stopping, sizeof(stopping), offsetof(struct scoreboard, stopping)) < 0)
		return; /* then they stop as if others went on, which takes them longer */
}

struct scoreboard *scoreboard_open(int *fd)
{
	struct scoreboard *scoreboard = NULL;
	int memory = memfd_create("whitecap-scoreboard", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (memory < 0)
		return NULL;
	/* Sealed in its size: a process that shrank it would kill all others by SIGBUS. */
	if (ftruncate(memory, sizeof(*scoreboard)) == 0 &&
	    fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		scoreboard = map(memory);
	if (scoreboard == NULL) {
		int error = errno;

		close(memory);
		errno = error;
		return NULL;
	}
	scoreboard->version = layout();
	scoreboard->slots = SCOREBOARD_SLOTS;
	scoreboard->end = 1;
	*fd = memory;
	return scoreboard;
}

void scoreboard_close(struct scoreboard *scoreboard, int fd)
{
	if (scoreboard != NULL)
		munmap(scoreboard, sizeof(*scoreboard));
	if (fd >= 0)
		close(fd);
}

/* A place for a new key: a free one, else the one that was longest not in use; -1: all are in use.
 */
static int find_room(const struct scoreboard_place *places, size_t count, unsigned oldest)
{
	int found = -1;

	for (size_t i = 0; i < count; i++) {
		if (places[i].key == 0)
			return (int)i;
		if (places[i].generation < oldest &&
		    (found < 0 || places[i].generation < places[found].generation))
			found = (int)i;
	}
	return found;
}

/* The place that is to be cleared, or -1: the key has been there before, or finds no room. */
static int claim(struct scoreboard_place *places, size_t count, uint64_t key, unsigned generation,
		 unsigned oldest)
{
	int place = stats_find(places, count, key), taken = -1;

	if (place < 0)
		place = taken = find_room(places, count, oldest);
	if (place < 0)
		return -1;
	places[place].generation = generation;
	places[place].key = key;
	return taken;
}

/* Durations of a route that is gone stay in the totals: they go to the master's, which nobody else
 * writes. */
static void retire_times(struct scoreboard *scoreboard, struct scoreboard_times *times)
{
	struct scoreboard_times *rest = &scoreboard->latency[0].route[SCOREBOARD_ROUTES];

	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		scoreboard_add(&rest->latency.bucket[i], times->latency.bucket[i]);
		scoreboard_add(&rest->handler.bucket[i], times->handler.bucket[i]);
	}
	memset(times, 0, sizeof *times);
}

/* Workers' slots, then those of admin processes. */
static unsigned next_used(const struct scoreboard *scoreboard, unsigned slot)
{
	return slot + 1 == scoreboard_end(scoreboard) ? SCOREBOARD_ADMIN : slot + 1;
}

void scoreboard_claim_route(struct scoreboard *scoreboard, uint64_t key, unsigned generation,
			    unsigned oldest)
{
	int place = claim(scoreboard->route, SCOREBOARD_ROUTES, key, generation, oldest);

	for (unsigned i = 0; place >= 0 && i < SCOREBOARD_SLOTS; i = next_used(scoreboard, i)) {
		struct scoreboard_slot *slot = &scoreboard->slot[i];

		if (!slot->used)
			continue;
		memset(&slot->route[place], 0, sizeof slot->route[place]);
		retire_times(scoreboard, &scoreboard->latency[i].route[place]);
	}
}

void scoreboard_claim_listener(struct scoreboard *scoreboard, uint64_t key, unsigned generation,
			       unsigned oldest)
{
	int place = claim(scoreboard->listener, SCOREBOARD_LISTENERS, key, generation, oldest);

	for (unsigned i = 0; place >= 0 && i < SCOREBOARD_SLOTS; i = next_used(scoreboard, i))
		if (scoreboard->slot[i].used)
			scoreboard->slot[i].listener[place].accept = 0;
}

void scoreboard_put_status(struct scoreboard *scoreboard, const struct master_status *status)
{
	uint32_t turn = scoreboard->status_turn;

	atomic_store_explicit(&scoreboard->status_turn, turn + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	scoreboard->status = *status;
	atomic_store_explicit(&scoreboard->status_turn, turn + 2, memory_order_release);
}

void scoreboard_get_status(const struct scoreboard *scoreboard, struct master_status *status)
{
	uint32_t turn;

	/* Bounded: a master that died in the middle would leave an odd number behind. */
	for (int i = 0; i < 1000; i++) {
		turn = atomic_load_explicit(&scoreboard->status_turn, memory_order_acquire);
		*status = scoreboard->status;
		atomic_thread_fence(memory_order_acquire);
		if (turn % 2 == 0 &&
		    turn == atomic_load_explicit(&scoreboard->status_turn, memory_order_relaxed))
			break;
	}
	status->reload_error[sizeof status->reload_error - 1] = '\0';
}

/* Here, or to be here soon. */
static bool is_wanted(const struct scoreboard_slot *slot, unsigned generation)
{
	uint32_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);

	return (state == SLOT_STARTING || state == SLOT_READY || state == SLOT_BACKOFF) &&
	       atomic_load_explicit(&slot->generation, memory_order_relaxed) == generation;
}

bool scoreboard_is_thin(const struct scoreboard *scoreboard, unsigned generation)
{
	uint64_t here = 0, wanted = 0;

	for (unsigned i = 1; i < scoreboard_end(scoreboard); i++) {
		const struct scoreboard_slot *slot = &scoreboard->slot[i];

		if (!is_wanted(slot, generation))
			continue;
		wanted++;
		here += atomic_load_explicit(&slot->accepting, memory_order_relaxed);
	}
	return here * 2 <= wanted;
}

uint64_t scoreboard_total(const struct scoreboard *scoreboard, enum scoreboard_counter counter)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < scoreboard_end(scoreboard); i++)
		sum += atomic_load_explicit(&scoreboard->slot[i].counter[counter],
					    memory_order_relaxed);
	return sum;
}

uint64_t scoreboard_active(const struct scoreboard *scoreboard)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < scoreboard_end(scoreboard); i++)
		sum += atomic_load_explicit(&scoreboard->slot[i].active, memory_order_relaxed);
	return sum;
}
