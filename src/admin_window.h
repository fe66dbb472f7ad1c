/* SPDX-License-Identifier: MIT */
/* What the counters were in the last 60 seconds: a sample each second, for rates and recent
 * percentiles. */
#ifndef ADMIN_WINDOW_H
#define ADMIN_WINDOW_H

#include "stats.h"

struct admin_window;

/* NULL: no memory. */
struct admin_window *admin_window_new(void);
void admin_window_free(struct admin_window *window);

/* To be called once a second. */
void admin_window_sample(struct admin_window *window, const struct stats *stats);

/* Fills in windows[STATS_WINDOWS] as of now. */
void admin_window_fill(const struct admin_window *window, const struct stats *stats,
		       struct stats_window *windows);

#endif
