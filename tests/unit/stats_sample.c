/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "stats_sample.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "slot.h"

static struct config_route route = {.path = SAMPLE_PATH, .handler = SAMPLE_HANDLER};
static struct config_listen listens[] = {{.address = "127.0.0.1:0", .backlog = 4096}};
static struct config config = {
	.routes = &route, .route_count = 1, .listens = listens, .listen_count = 1};

struct scoreboard *stats_sample_board(const struct stats *stats)
{
	return (struct scoreboard *)(uintptr_t)stats->board;
}

void stats_sample_open(struct stats *stats)
{
	/* Mapped, as the real one: most of it is never touched. */
	struct scoreboard *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (board == MAP_FAILED)
		abort();
	*stats = (struct stats){
		.board = board,
		.config = &config,
		.status = {.state = MASTER_SERVING, .pid = 1, .started_ns = 1000000000},
		.now_ns = 3500000000,
		.listeners = calloc(1, sizeof *stats->listeners),
		.usage = calloc(SCOREBOARD_SLOTS, sizeof *stats->usage),
	};
	stats->listeners[0] = (struct stats_listener){.address = "127.0.0.1:8080", .backlog = 4096};
	board->route[0].key = stats_route_key(&route);
	board->listener[0].key = stats_listener_key(listens[0].address);
	board->end = 2;
	board->slot[1].used = 1;
	board->slot[1].pid = 4711;
	board->slot[1].state = SLOT_READY;
	board->slot[1].generation = 1;
}

void stats_sample_close(struct stats *stats)
{
	munmap(stats_sample_board(stats), sizeof *stats->board);
	free(stats->listeners);
	free(stats->usage);
}
