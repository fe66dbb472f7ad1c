/* SPDX-License-Identifier: MIT */
/*
 * The statistics in Prometheus' text format, version 0.0.4.  Durations are in seconds; a
 * histogram's bounds hold to within 3 %.  "worker" is a slot of the scoreboard: its counters never
 * fall, whoever has it.
 */
#ifndef PROMETHEUS_H
#define PROMETHEUS_H

#include <stdio.h>

#include "stats.h"

/* Errors of the stream are the caller's to look for. */
void prometheus_write(FILE *out, const struct stats *stats);

#endif
