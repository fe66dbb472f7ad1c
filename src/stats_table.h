/* SPDX-License-Identifier: MIT */
/* The statistics as a table for people, from their JSON. */
#ifndef STATS_TABLE_H
#define STATS_TABLE_H

#include <jansson.h>
#include <stdio.h>

/*
 * Control octets in texts are not printed as they are.  `lines`: no more than so many, 0: all.
 * Each line but the last ends in a newline.
 */
void stats_table_print(FILE *out, const json_t *stats, unsigned lines);

#endif
