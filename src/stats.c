/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "stats.h"

#include <string.h>

#define FNV_OFFSET 14695981039346656037u
#define FNV_PRIME 1099511628211u

/* FNV-1a over a text and its NUL. */
static uint64_t mix(uint64_t hash, const char *text)
{
	do
		hash = (hash ^ (unsigned char)*text) * FNV_PRIME;
	while (*text++);
	return hash;
}

uint64_t stats_route_key(const struct config_route *route)
{
	uint64_t hash = mix(mix(FNV_OFFSET, route->path), route->handler);

	for (char *const *method = route->methods; method && *method; method++)
		hash = mix(hash, *method);
	return hash ? hash : 1;
}

uint64_t stats_listener_key(const char *address)
{
	uint64_t hash = mix(FNV_OFFSET, address);

	return hash ? hash : 1;
}

static uint64_t load(const _Atomic uint64_t *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

int stats_find(const struct scoreboard_place *places, size_t count, uint64_t key)
{
	for (size_t i = 0; i < count; i++)
		if (load(&places[i].key) == key)
			return (int)i;
	return -1;
}

bool stats_is_shown(const struct scoreboard_slot *slot)
{
	return atomic_load_explicit(&slot->state, memory_order_relaxed) != 0;
}

/* Slots that nobody had are passed over: to read them would give them memory. */
static bool is_used(const struct scoreboard_slot *slot)
{
	return atomic_load_explicit(&slot->used, memory_order_relaxed) != 0;
}

uint64_t stats_counter(const struct stats *stats, enum scoreboard_counter counter)
{
	return stats_gauge(stats, offsetof(struct scoreboard_slot, counter[counter]));
}

uint64_t stats_gauge(const struct stats *stats, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < scoreboard_end(stats->board); i++) {
		const struct scoreboard_slot *slot = &stats->board->slot[i];

		if (i == 0 || is_used(slot))
			sum += load((const _Atomic uint64_t *)((const char *)slot + offset));
	}
	return sum;
}

static void add(_Atomic uint64_t *sum, const _Atomic uint64_t *value)
{
	scoreboard_add(sum, load(value));
}

void stats_route(const struct stats *stats, int place, struct scoreboard_route *sum)
{
	memset(sum, 0, sizeof *sum);
	for (unsigned i = 1; place >= 0 && i < scoreboard_end(stats->board); i++) {
		const struct scoreboard_slot *slot = &stats->board->slot[i];
		const struct scoreboard_route *route = &slot->route[place];

		if (!is_used(slot))
			continue;
		add(&sum->requests, &route->requests);
		add(&sum->shed, &route->shed);
		add(&sum->late, &route->late);
		for (size_t j = 0; j < sizeof sum->responses / sizeof *sum->responses; j++)
			add(&sum->responses[j], &route->responses[j]);
	}
}

uint64_t stats_accepts(const struct stats *stats, int place)
{
	if (place < 0)
		return 0;
	return stats_gauge(stats, offsetof(struct scoreboard_slot, listener[place].accept));
}

void stats_add_slot(const struct stats *stats, unsigned slot, struct histogram_sum *latency)
{
	const struct scoreboard_latency *own = &stats->board->latency[slot];

	for (size_t i = 0; i < SCOREBOARD_ROUTES; i++)
		if (load(&stats->board->route[i].key))
			histogram_add(latency, &own->route[i].latency);
	histogram_add(latency, &own->route[SCOREBOARD_ROUTES].latency);
}

void stats_add_route(const struct stats *stats, int place, struct histogram_sum *latency,
		     struct histogram_sum *handler)
{
	for (unsigned i = 1; place >= 0 && i < scoreboard_end(stats->board); i++) {
		if (!is_used(&stats->board->slot[i]))
			continue;
		histogram_add(latency, &stats->board->latency[i].route[place].latency);
		histogram_add(handler, &stats->board->latency[i].route[place].handler);
	}
}

void stats_add_all(const struct stats *stats, struct histogram_sum *latency)
{
	for (unsigned i = 0; i < scoreboard_end(stats->board); i++)
		if (i == 0 || is_used(&stats->board->slot[i]))
			stats_add_slot(stats, i, latency);
}

void stats_add_lag(const struct stats *stats, struct histogram_sum *lag)
{
	for (unsigned i = 1; i < scoreboard_end(stats->board); i++)
		if (is_used(&stats->board->slot[i]))
			histogram_add(lag, &stats->board->latency[i].lag);
}

struct name {
	char text[SCOREBOARD_NAME_MAX];
	uint64_t sum;
};

struct names {
	size_t count;
	struct name name[SCOREBOARD_USER_COUNTERS];
};

static void count_name(struct names *names, const struct scoreboard_user_counter *counter)
{
	size_t i = 0;

	while (i < names->count &&
	       strncmp(names->name[i].text, counter->name, SCOREBOARD_NAME_MAX - 1) != 0)
		i++;
	if (i == SCOREBOARD_USER_COUNTERS)
		return;
	if (i == names->count) {
		memcpy(names->name[i].text, counter->name, SCOREBOARD_NAME_MAX - 1);
		names->count++;
	}
	names->name[i].sum += load(&counter->counter.value);
}

void stats_user_counters(const struct stats *stats, const char *path,
			 void (*show)(void *data, const char *name, uint64_t value), void *data)
{
	struct names names = {0};

	for (unsigned i = 1; i < scoreboard_end(stats->board); i++) {
		const struct scoreboard_slot *slot = &stats->board->slot[i];

		for (size_t j = 0; is_used(slot) && j < SCOREBOARD_USER_COUNTERS; j++)
			if (slot->user[j].name[0] &&
			    strncmp(slot->user[j].route, path, SCOREBOARD_NAME_MAX - 1) == 0)
				count_name(&names, &slot->user[j]);
	}
	for (size_t i = 0; i < names.count; i++)
		show(data, names.name[i].text, names.name[i].sum);
}

static const struct scoreboard_slot *last_mover(const struct stats *stats)
{
	const struct scoreboard_slot *last = &stats->board->slot[1];

	for (unsigned i = 2; i < scoreboard_end(stats->board); i++)
		if (load(&stats->board->slot[i].move_ended_ns) > load(&last->move_ended_ns))
			last = &stats->board->slot[i];
	return last;
}

/* One process may take what another has long finished giving: what is near in time belongs
 * together. */
void stats_last_move(const struct stats *stats, struct stats_move *move)
{
	const struct scoreboard_slot *last = last_mover(stats);
	uint64_t began_ns = load(&last->move_began_ns);

	*move = (struct stats_move){.began_ns = began_ns, .ended_ns = load(&last->move_ended_ns)};
	for (unsigned i = 1; i < scoreboard_end(stats->board); i++) {
		const struct scoreboard_slot *slot = &stats->board->slot[i];

		if (load(&slot->move_ended_ns) == 0 ||
		    load(&slot->move_ended_ns) + SCOREBOARD_MOVE_GAP_NS < began_ns)
			continue;
		move->count += load(&slot->move_count);
		if (load(&slot->move_began_ns) < move->began_ns)
			move->began_ns = load(&slot->move_began_ns);
	}
}

const char *stats_state_name(enum master_state state)
{
	static const char *const names[] = {
		[MASTER_STARTING] = "starting",
		[MASTER_SERVING] = "serving",
		[MASTER_RELOADING] = "reloading",
		[MASTER_STOPPING] = "stopping",
	};

	return names[state];
}
