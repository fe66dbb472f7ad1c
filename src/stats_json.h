/* SPDX-License-Identifier: MIT */
/* The statistics as JSON, as whitecap-stats(7) describes it. */
#ifndef STATS_JSON_H
#define STATS_JSON_H

#include <stdio.h>

#include "stats.h"

/* One line.  Errors of the stream are the caller's to look for. */
void stats_json_write(FILE *out, const struct stats *stats);

#endif
