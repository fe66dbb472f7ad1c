/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <errno.h>
#include <string.h>

#include "log.h"
#include "master_parts.h"
#include "stats_source.h"

/* Once per cause: a full disk does not fill the log too. */
void master_write_stats(struct master *master)
{
	const struct generation *active = master->active;
	const struct config *config = active ? active->config : NULL;
	struct stats stats;
	int error = 0;

	if (!config || !config->stats_file)
		return;
	scoreboard_put_status(master->rows.scoreboard, &master->status);
	if (stats_source_open(&stats, master->rows.scoreboard, config, active->listeners.fds, NULL) < 0)
		return;
	if (stats_source_write(&stats, config->stats_file, (unsigned)config->stats_mode) < 0)
		error = errno;
	stats_source_close(&stats);
	if (error && error != master->stats_error)
		log_error("stats.file: %s: %s", config->stats_file, strerror(error));
	master->stats_error = error;
}

static void on_stats_timer(struct ev_loop *loop, struct ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	master_write_stats(timer->data);
}

void master_apply_stats(struct master *master, const struct config *config)
{
	ev_timer_stop(master->loop, &master->stats_timer);
	master->stats_error = 0;
	if (!config->stats_file)
		return;
	master_write_stats(master);
	if (config->stats_interval_ms == 0)
		return;
	ev_timer_set(&master->stats_timer, (double)config->stats_interval_ms / 1000,
		     (double)config->stats_interval_ms / 1000);
	ev_timer_start(master->loop, &master->stats_timer);
}

void master_claim_places(struct master *master, const struct generation *new)
{
	struct scoreboard *board = master->rows.scoreboard;
	const struct config *config = new->config;
	unsigned oldest = new->number;

	for (struct generation *generation = master->all; generation; generation = generation->next)
		if (generation->number < oldest)
			oldest = generation->number;
	for (size_t i = 0; i < config->route_count; i++)
		scoreboard_claim_route(board, stats_route_key(&config->routes[i]), new->number, oldest);
	for (size_t i = 0; i < config->listen_count; i++)
		scoreboard_claim_listener(board, stats_listener_key(config->listens[i].address),
					  new->number, oldest);
}

void master_stats_init(struct master *master)
{
	ev_init(&master->stats_timer, on_stats_timer);
	master->stats_timer.data = master;
}
