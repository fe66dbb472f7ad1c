/* SPDX-License-Identifier: MIT */
/* Statistics for the tests of what writes them out. */
#ifndef STATS_SAMPLE_H
#define STATS_SAMPLE_H

#include "stats.h"

/* A route's path and a handler's name that need escaping. */
#define SAMPLE_PATH "/bid\"\\\n\x7f\xff"
#define SAMPLE_HANDLER "/opt/b\xc3\xa9.so"

/* One worker in slot 1, one route, one listener; all counters zero. */
void stats_sample_open(struct stats *stats);
void stats_sample_close(struct stats *stats);

/* The scoreboard behind it, to be changed. */
struct scoreboard *stats_sample_board(const struct stats *stats);

#endif
