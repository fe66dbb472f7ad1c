/* SPDX-License-Identifier: MIT */
/*
 * Fills in what the statistics take from outside the scoreboard: the clock, the listeners' queues
 * and each process's use of CPU and memory, as the kernel tells them.
 */
#ifndef STATS_SOURCE_H
#define STATS_SOURCE_H

#include "stats.h"

/*
 * Borrows board, config and windows (NULL: none).  fds: one listening socket per config->listens,
 * NULL: they are closed.  0, or -1: no memory.
 */
int stats_source_open(struct stats *stats, const struct scoreboard *board,
		      const struct config *config, const int *fds, struct stats_window *windows);
void stats_source_close(struct stats *stats);

/*
 * Writes the statistics to a file, which others see whole or not at all: made under another name in
 * its directory, then renamed.  0, or -1 with errno.
 */
int stats_source_write(const struct stats *stats, const char *path, unsigned mode);

/* The statistics as text, to be freed, with a NUL behind *len.  NULL with errno. */
char *stats_source_text(const struct stats *stats, void (*write)(FILE *, const struct stats *),
			size_t *len);

#endif
