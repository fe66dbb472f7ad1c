/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "quarantine.h"

#include <stddef.h>

/* FNV-1a, eight octets at a time; the shift brings what the upper ones differ in down. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 1099511628211u;
	return hash ^ hash >> 32;
}

static uint64_t mix_span(uint64_t hash, struct wc_span span)
{
	uint64_t word;
	size_t at = 0;

	for (; span.len - at >= sizeof word; at += sizeof word) {
		memcpy(&word, span.ptr + at, sizeof word);
		hash = mix(hash, word);
	}
	word = 0;
	if (at < span.len)
		memcpy(&word, span.ptr + at, span.len - at);
	return mix(mix(hash, word), span.len);
}

static uint64_t size_of(const struct quarantine_request *request)
{
	return request->head.len + request->body.len;
}

uint64_t quarantine_print(const struct quarantine_request *request)
{
	uint64_t hash = mix(14695981039346656037u, request->generation);

	hash = mix_span(mix_span(hash, request->head), request->body);
	return hash ? hash : 1;
}

static bool is_remembered(const struct quarantine_entry *entry, uint64_t now_ns)
{
	return quarantine_is_due(atomic_load(&entry->forget_ns), now_ns);
}

bool quarantine_has_size(const struct quarantine *quarantine,
			 const struct quarantine_request *request, uint64_t now_ns)
{
	for (size_t i = 0; i < QUARANTINE_ENTRIES; i++)
		if (atomic_load_explicit(&quarantine->entry[i].size, memory_order_relaxed) ==
			    size_of(request) &&
		    is_remembered(&quarantine->entry[i], now_ns))
			return true;
	return false;
}

static struct quarantine_entry *find(struct quarantine *quarantine, uint64_t print)
{
	for (size_t i = 0; i < QUARANTINE_ENTRIES; i++)
		if (atomic_load(&quarantine->entry[i].print) == print)
			return &quarantine->entry[i];
	return NULL;
}

/* 0: not remembered. */
static uint64_t left_of(const struct quarantine_entry *entry, uint64_t now_ns)
{
	return is_remembered(entry, now_ns) ? atomic_load(&entry->forget_ns) - now_ns : 0;
}

/* The place of the one that will be forgotten first. */
static struct quarantine_entry *find_oldest(struct quarantine *quarantine, uint64_t now_ns)
{
	struct quarantine_entry *oldest = &quarantine->entry[0];

	for (size_t i = 1; i < QUARANTINE_ENTRIES; i++)
		if (left_of(&quarantine->entry[i], now_ns) < left_of(oldest, now_ns))
			oldest = &quarantine->entry[i];
	return oldest;
}

/* One that is not remembered begins anew. */
static struct quarantine_entry *remember(struct quarantine *quarantine, uint64_t print,
					 uint64_t size, uint64_t now_ns)
{
	struct quarantine_entry *entry = find(quarantine, print);

	if (entry && is_remembered(entry, now_ns))
		return entry;
	if (!entry)
		entry = find_oldest(quarantine, now_ns);
	atomic_store(&entry->print, 0); /* nobody finds it half written */
	atomic_store(&entry->size, size);
	atomic_store(&entry->noted_ns, 0);
	atomic_store(&entry->until_ns, 0);
	atomic_store(&entry->crashes, 0);
	atomic_store(&entry->print, print);
	return entry;
}

static void remember_until(struct quarantine *quarantine, uint64_t forget_ns, uint64_t now_ns)
{
	uint64_t latest = atomic_load(&quarantine->forget_ns);

	while ((latest < forget_ns || !quarantine_is_due(latest, now_ns)) &&
	       !atomic_compare_exchange_weak(&quarantine->forget_ns, &latest, forget_ns))
		;
}

void quarantine_note_crash(struct quarantine *quarantine, uint64_t print, uint64_t size,
			   uint64_t began_ns, uint64_t now_ns, uint64_t length_ns)
{
	struct quarantine_entry *entry = remember(quarantine, print, size, now_ns);
	uint64_t noted = atomic_load(&entry->noted_ns), until = now_ns;
	uint32_t crashes, doublings;

	if (began_ns < noted || !atomic_compare_exchange_strong(&entry->noted_ns, &noted, now_ns))
		return;
	crashes = atomic_fetch_add(&entry->crashes, 1) + 1;
	if (crashes >= QUARANTINE_CRASHES) {
		doublings = crashes - QUARANTINE_CRASHES;
		until += length_ns
			 << (doublings < QUARANTINE_DOUBLINGS ? doublings : QUARANTINE_DOUBLINGS);
		atomic_store(&entry->length_ns, until - now_ns);
		atomic_store(&entry->until_ns, until);
	}
	atomic_store(&entry->forget_ns, until + length_ns);
	remember_until(quarantine, until + length_ns, now_ns);
}

/* One whose time is over takes the others' time with it: they wait for what becomes of it. */
uint64_t quarantine_holds(struct quarantine *quarantine, uint64_t print, uint64_t now_ns)
{
	struct quarantine_entry *entry = find(quarantine, print);
	uint64_t until, next;

	if (!entry || !is_remembered(entry, now_ns) ||
	    atomic_load(&entry->crashes) < QUARANTINE_CRASHES)
		return 0;
	until = atomic_load(&entry->until_ns);
	next = now_ns + atomic_load(&entry->length_ns);
	if (now_ns < until)
		return until;
	return atomic_compare_exchange_strong(&entry->until_ns, &until, next) ? 0 : until;
}

void quarantine_clear(struct quarantine *quarantine, uint64_t print)
{
	struct quarantine_entry *entry = find(quarantine, print);

	if (entry) {
		atomic_store(&entry->print, 0);
		atomic_store(&entry->size, 0);
	}
}

void quarantine_reset(struct quarantine *quarantine)
{
	for (size_t i = 0; i < QUARANTINE_ENTRIES; i++) {
		atomic_store(&quarantine->entry[i].print, 0);
		atomic_store(&quarantine->entry[i].forget_ns, 0);
	}
	atomic_store(&quarantine->forget_ns, 0);
}
