/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "quarantine.h"

#include <stddef.h>

static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
	for (const unsigned char *at = data; len > 0; at++, len--)
		hash = (hash ^ *at) * 1099511628211u; /* FNV-1a */
	return hash;
}

uint64_t quarantine_print(unsigned generation, struct wc_span method, struct wc_span target,
			  struct wc_span body)
{
	uint64_t hash = mix(14695981039346656037u, &generation, sizeof generation);

	hash = mix(mix(hash, method.ptr, method.len), " ", 1);
	hash = mix(mix(hash, target.ptr, target.len), " ", 1);
	hash = mix(hash, body.ptr, body.len);
	return hash ? hash : 1;
}

static bool is_remembered(const struct quarantine_entry *entry, uint64_t now_ns)
{
	return now_ns < atomic_load(&entry->forget_ns);
}

static struct quarantine_entry *find(struct quarantine *quarantine, uint64_t print)
{
	for (size_t i = 0; i < QUARANTINE_ENTRIES; i++)
		if (atomic_load(&quarantine->entry[i].print) == print)
			return &quarantine->entry[i];
	return NULL;
}

/* The place of the one that will be forgotten first. */
static struct quarantine_entry *find_oldest(struct quarantine *quarantine)
{
	struct quarantine_entry *oldest = &quarantine->entry[0];

	for (size_t i = 1; i < QUARANTINE_ENTRIES; i++)
		if (atomic_load(&quarantine->entry[i].forget_ns) < atomic_load(&oldest->forget_ns))
			oldest = &quarantine->entry[i];
	return oldest;
}

/* One that is not remembered begins anew. */
static struct quarantine_entry *remember(struct quarantine *quarantine, uint64_t print,
					 uint64_t now_ns)
{
	struct quarantine_entry *entry = find(quarantine, print);

	if (entry && is_remembered(entry, now_ns))
		return entry;
	if (!entry)
		entry = find_oldest(quarantine);
	atomic_store(&entry->print, 0); /* nobody finds it half written */
	atomic_store(&entry->until_ns, 0);
	atomic_store(&entry->crashes, 0);
	atomic_store(&entry->print, print);
	return entry;
}

static void raise_to(_Atomic uint64_t *latest, uint64_t value)
{
	uint64_t seen = atomic_load(latest);

	while (seen < value && !atomic_compare_exchange_weak(latest, &seen, value))
		;
}

void quarantine_note_crash(struct quarantine *quarantine, uint64_t print, uint64_t now_ns,
			   uint64_t length_ns)
{
	struct quarantine_entry *entry = remember(quarantine, print, now_ns);
	uint64_t until = now_ns;
	uint32_t crashes, doublings;

	crashes = atomic_fetch_add(&entry->crashes, 1) + 1;
	if (crashes >= QUARANTINE_CRASHES) {
		doublings = crashes - QUARANTINE_CRASHES;
		until += length_ns
			 << (doublings < QUARANTINE_DOUBLINGS ? doublings : QUARANTINE_DOUBLINGS);
		atomic_store(&entry->length_ns, until - now_ns);
		atomic_store(&entry->until_ns, until);
	}
	atomic_store(&entry->forget_ns, until + length_ns);
	raise_to(&quarantine->forget_ns, until + length_ns);
}

/* One whose time is over takes the others' time with it: they wait for what becomes of it. */
bool quarantine_holds(struct quarantine *quarantine, uint64_t print, uint64_t now_ns)
{
	struct quarantine_entry *entry = find(quarantine, print);
	uint64_t until;

	if (!entry || !is_remembered(entry, now_ns) ||
	    atomic_load(&entry->crashes) < QUARANTINE_CRASHES)
		return false;
	until = atomic_load(&entry->until_ns);
	return now_ns < until ||
	       !atomic_compare_exchange_strong(&entry->until_ns, &until,
					       now_ns + atomic_load(&entry->length_ns));
}

void quarantine_clear(struct quarantine *quarantine, uint64_t print)
{
	struct quarantine_entry *entry = find(quarantine, print);

	if (entry)
		atomic_store(&entry->print, 0);
}
