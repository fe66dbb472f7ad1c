/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "launch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "ipc.h"
#include "log.h"
#include "spawn.h"

struct launch {
	struct row *row;
	int ipc;
	pid_t master;
};

static void forget(void *data)
{
	struct rows *rows = ((struct launch *)data)->row->rows;

	rows->forget(rows->data);
}

static int give_up(const struct launch *launch, const char *reason)
{
	ipc_send(launch->ipc, IPC_FAILED, reason, NULL, 0);
	return EXIT_FAILURE;
}

static bool any_passed(const struct listener_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->listeners[i]->passed)
			return true;
	return false;
}

static int run_role(const struct launch *launch)
{
	const struct row *row = launch->row;
	const struct generation *generation = row->generation;
	const struct child_roles *roles = row->rows->roles;
	struct worker_args args = {
		.config = generation->config,
		.images = generation->images,
		.listeners = generation->listeners.fds,
		.scoreboard = row->rows->scoreboard,
		.slot = row->slot,
		.number = row->number == ROW_PROVER ? 0 : row->number,
		.generation = generation->number,
		.exchange =
			row->number == ROW_PROVER ? (struct exchange){-1, -1} : row->rows->exchange,
		.stored = row->rows->stored,
		.passed = any_passed(&generation->listeners),
		.trial = generation->trial,
		.sole = row->rows->sole,
		.wait = row_waits(row),
		.go = row_goes(row),
		.ipc = launch->ipc,
		.access_log = generation->access_log,
		.admin_listener =
			row->number == ROW_ADMIN ? generation_admin_fd(generation) : -1,
	};

	if (row->number == ROW_ADMIN)
		return roles->admin(&args);
	return row->number == ROW_PROVER ? roles->prove(&args) : roles->serve(&args);
}

/*
 * A worker outlives the master to finish its work: it sees the end of the ipc pair.  A proving
 * child has none, and may hang where it sees nothing.
 */
static bool is_orphan(const struct launch *launch)
{
	return launch->row->number == ROW_PROVER && privs_die_with_parent(launch->master) < 0;
}

static int run(void *data)
{
	const struct launch *launch = data;
	const struct row *row = launch->row;
	struct err err;

	log_set_role(row_name(row));
	log_set_level((enum log_level)row->generation->config->log_level);
	log_count_in(&row->rows->scoreboard->slot[row->slot].counter[COUNTER_log_dropped]);
	err_init(&err);
	if (privs_drop(&row->generation->privs, &err) < 0)
		return give_up(launch, err.text);
	if (is_orphan(launch))
		return EXIT_FAILURE;
	return run_role(launch);
}

static int *fds_to_keep(const struct row *row, int ipc, size_t *count)
{
	const struct generation *generation = row->generation;
	size_t listeners = generation->listeners.count;
	int *keep = calloc(listeners + generation->image_count + 6, sizeof *keep);
	size_t n = 0;

	if (!keep)
		return NULL;
	keep[n++] = ipc;
	keep[n++] = log_fd();
	keep[n++] = generation->access_log;
	if (row->number == ROW_ADMIN)
		keep[n++] = generation_admin_fd(generation);
	if (row->number != ROW_PROVER) {
		keep[n++] = row->rows->exchange.give;
		keep[n++] = row->rows->exchange.take;
	}
	for (size_t i = 0; i < listeners; i++)
		keep[n++] = generation->listeners.fds[i];
	for (size_t i = 0; i < generation->image_count && row->number != ROW_ADMIN; i++)
		keep[n++] = generation->images[i].fd;
	*count = n;
	return keep;
}

pid_t launch_child(struct row *row, int ipc)
{
	struct launch launch = {.row = row, .ipc = ipc, .master = getpid()};
	struct spawn spawn = {
		.forget = forget, .run = run, .data = &launch, .title = row_name(row)};
	int *keep = fds_to_keep(row, ipc, &spawn.keep_count);
	pid_t pid;
	int error;

	if (!keep)
		return -1;
	spawn.keep = keep;
	pid = spawn_child(&spawn);
	error = errno;
	free(keep);
	errno = error;
	return pid;
}
