/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "admin_window.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 64 };

/* A timer that is late by this much still makes the window of its length. */
#define TOLERANCE_NS 50000000u

struct sample {
	uint64_t at_ns;
	uint64_t counter[COUNTER_COUNT];
	struct histogram_sum latency;
};

struct admin_window {
	size_t next, count; /* of the ring */
	struct sample sample[SAMPLES];
};

struct admin_window *admin_window_new(void)
{
	return calloc(1, sizeof(struct admin_window));
}

void admin_window_free(struct admin_window *window)
{
	free(window);
}

static void take(struct sample *sample, const struct stats *stats)
{
	memset(sample, 0, sizeof *sample);
	sample->at_ns = stats->now_ns;
	for (size_t i = 0; i < COUNTER_COUNT; i++)
		sample->counter[i] = stats_counter(stats, (enum scoreboard_counter)i);
	stats_add_all(stats, &sample->latency);
}

void admin_window_sample(struct admin_window *window, const struct stats *stats)
{
	take(&window->sample[window->next], stats);
	window->next = (window->next + 1) % SAMPLES;
	if (window->count < SAMPLES)
		window->count++;
}

/* The youngest sample of at least that age, else the oldest; NULL: there is none. */
static const struct sample *find(const struct admin_window *window, uint64_t now_ns,
				 unsigned seconds)
{
	const struct sample *found = NULL;

	for (size_t i = 1; i <= window->count; i++) {
		found = &window->sample[(window->next + SAMPLES - i) % SAMPLES];
		if (now_ns - found->at_ns + TOLERANCE_NS >= seconds * 1000000000ull)
			break;
	}
	return found;
}

static void fill(struct stats_window *window, const struct sample *now, const struct sample *then)
{
	window->span_s = (double)(now->at_ns - then->at_ns) / 1e9;
	window->latency = now->latency;
	histogram_subtract(&window->latency, &then->latency);
	for (size_t i = 0; i < COUNTER_COUNT; i++)
		window->counter[i] = now->counter[i] - then->counter[i];
}

void admin_window_fill(const struct admin_window *window, const struct stats *stats,
		       struct stats_window *windows)
{
	static const unsigned lengths[STATS_WINDOWS] = {1, 10, 60};
	static struct sample now;

	take(&now, stats);
	memset(windows, 0, STATS_WINDOWS * sizeof *windows);
	for (size_t i = 0; i < STATS_WINDOWS; i++) {
		const struct sample *then = find(window, now.at_ns, lengths[i]);

		windows[i].seconds = lengths[i];
		if (then && now.at_ns > then->at_ns)
			fill(&windows[i], &now, then);
	}
}
