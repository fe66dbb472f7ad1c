/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "master.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "loop.h"
#include "master_parts.h"
#include "spawn.h"

#define RETRY_S 1. /* between reloads while nobody serves after an upgrade */

void master_each_row(struct master *master, const struct generation *generation,
		     void (*act)(struct row *))
{
	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++) {
		struct row *row = &master->rows.row[i];

		if (row->state != SLOT_EMPTY && (!generation || row->generation == generation))
			act(row);
	}
}

/* The same for admin processes, which are in rows of their own. */
void master_each_admin(struct master *master, const struct generation *generation,
		       void (*act)(struct row *))
{
	for (unsigned i = SCOREBOARD_ADMIN; i < SCOREBOARD_SLOTS; i++) {
		struct row *row = &master->rows.row[i];

		if (row->state != SLOT_EMPTY && (!generation || row->generation == generation))
			act(row);
	}
}
static bool has_admin(const struct master *master, const struct generation *generation)
{
	for (unsigned i = SCOREBOARD_ADMIN; i < SCOREBOARD_SLOTS; i++)
		if (master->rows.row[i].generation == generation &&
		    row_is_wanted(&master->rows.row[i]))
			return true;
	return false;
}
unsigned master_count_rows(const struct master *master, const struct generation *generation,
			   enum slot_state state)
{
	unsigned count = 0;

	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++)
		count += master->rows.row[i].generation == generation &&
			 master->rows.row[i].state == state;
	return count;
}
void master_start_admin(struct master *master, struct generation *generation)
{
	if (generation_admin_fd(generation) >= 0 && !has_admin(master, generation))
		rows_start(&master->rows, generation, ROW_ADMIN);
}
uint64_t master_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
/* Keeping it running. */

void master_fill(struct master *master, struct generation *generation)
{
	bool present[SCOREBOARD_SLOTS] = {false};

	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++) {
		struct row *row = &master->rows.row[i];

		if (row->generation == generation && row_is_wanted(row))
			present[row->number] = true;
	}
	for (unsigned i = 0; i < generation->workers; i++)
		if (!present[i])
			rows_start(&master->rows, generation, i);
}

/* A foreign generation gets no more. */
static void fill(struct master *master)
{
	if (master->active->foreign)
		return;
	master_fill(master, master->active);
	master_start_admin(master, master->active);
}

static void on_retry(struct ev_loop *loop, struct ev_timer *timer, int events)
{
	struct master *master = timer->data;

	(void)loop, (void)events;
	master->reload_wanted = true;
}

/*
 * All workers of the program before this one are gone, and the reload after the upgrade failed:
 * nobody will serve without another one.
 */
static void retry(struct master *master)
{
	if (!master->next && !master->reload_wanted && !ev_is_active(&master->retry))
		ev_timer_start(master->loop, &master->retry);
}

/* A recycled worker serves until the one in its place does, or there is no room for one. */
static void relieve(struct master *master)
{
	struct generation *active = master->active;
	bool relieved[SCOREBOARD_SLOTS] = {false}, coming[SCOREBOARD_SLOTS] = {false};

	if (active->foreign) /* nobody takes its place before the reload */
		return;
	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++) {
		const struct row *row = &master->rows.row[i];

		if (row->generation != active || !row_is_wanted(row))
			continue;
		coming[row->number] = true;
		relieved[row->number] |= row->state == SLOT_READY;
	}
	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++) {
		struct row *row = &master->rows.row[i];

		if (row->generation != active || row->state != SLOT_LEAVING ||
		    (coming[row->number] && !relieved[row->number]))
			continue;
		scoreboard_add(&master->rows.scoreboard->slot[0].counter[COUNTER_recycle], 1);
		row_drain(row);
	}
}

/* Of those that could not even start, one goes on trying at the shortest pause, not all. */
static void hurry_one(struct row *trying, bool coming)
{
	if (trying && !coming)
		row_hurry(trying);
}

/*
 * While half of the workers or more are away, those that have served are back within the shortest
 * pause: a client that crashes one after the other must not leave the rest without any.
 */
static void hurry(struct master *master)
{
	struct generation *active = master->active;
	struct row *trying = NULL;
	unsigned ready = master_count_rows(master, active, SLOT_READY);
	unsigned coming = master_count_rows(master, active, SLOT_STARTING);
	unsigned failing = master_count_rows(master, active, SLOT_FAILING);

	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++) {
		struct row *row = &master->rows.row[i];

		if (row->generation != active || row->state != SLOT_BACKOFF)
			continue;
		if (!row->was_ready)
			trying = trying ? trying : row;
		else if (ready + coming++ <= active->workers / 2)
			row_hurry(row);
	}
	if (ready == 0)
		hurry_one(trying, coming + failing > 0);
}

static void sweep(struct master *master)
{
	struct generation **link = &master->all, *generation;

	while ((generation = *link)) {
		if (generation->retired && generation->rows == 0) {
			*link = generation->next;
			if (generation == master->active)
				master->active = NULL;
			if (generation == master->next)
				master->next = NULL;
			generation_free(generation);
		} else {
			link = &generation->next;
		}
	}
}

/* The workers have gone: the admin process, which told of it, goes too. */
static void end_stop(struct master *master)
{
	master_each_admin(master, NULL, row_drain);
	for (unsigned i = SCOREBOARD_ADMIN; i < SCOREBOARD_SLOTS; i++)
		if (master->rows.row[i].state != SLOT_EMPTY)
			return;
	master_write_stats(master);
	ev_break(master->loop, EVBREAK_ALL);
}

/* Before each wait for events: whatever has changed, all is looked at, so that nothing is missed.
 */
static void on_look(struct ev_loop *loop, struct ev_prepare *prepare, int events)
{
	struct master *master = prepare->data;
	bool delayed = ev_is_active(&master->stop_delay);

	(void)events;
	loop_hear_signals(loop);
	if (!master->stopping)
		master_reload_advance(master);
	if (!master->stopping)
		master_upgrade_advance(master);
	if (master->active && (!master->stopping || delayed)) {
		fill(master);
		relieve(master);
		if (!master->active->foreign)
			hurry(master);
		else if (master_count_rows(master, master->active, SLOT_READY) == 0)
			retry(master);
	}
	scoreboard_put_status(master->rows.scoreboard, &master->status);
	if (master->stopping && !delayed && rows_free(&master->rows) == SCOREBOARD_ADMIN - 1 &&
	    master->check.pid == 0)
		end_stop(master);
	sweep(master);
}

/* Signals. */

static void on_reload(struct master *master)
{
	master->reload_wanted = true;
}

static void on_child(struct master *master)
{
	rows_reap(&master->rows);
	master_upgrade_reap(master);
}

static void reopen_row(struct row *row)
{
	if (row->pid > 0)
		row_reopen(row);
}

static void on_reopen(struct master *master)
{
	const struct generation *any = master->active ? master->active : master->next;
	const char *path = any ? any->config->log_path : NULL;
	bool failed = path && log_open(path) < 0;

	if (failed)
		log_error("log.path: %s: %s: the old log stays", path, strerror(errno));
	for (struct generation *generation = master->all; generation; generation = generation->next)
		if (generation_reopen(generation) < 0) {
			log_error("access_log.path: %s: %s: the old log stays",
				  generation->config->access_log_path, strerror(errno));
			failed = true;
		}
	*(failed ? &master->status.reopen_failed : &master->status.reopen_count) += 1;
	master_each_row(master, NULL, reopen_row);
	master_each_admin(master, NULL, reopen_row);
	log_info("log files reopened");
	master_write_stats(master);
}

static void on_upgrade(struct master *master)
{
	master->upgrade_wanted = true;
}

static void resize(struct master *master, unsigned workers)
{
	struct generation *active = master->active;

	if (!active || active->foreign || master->stopping || workers == 0 ||
	    workers > MASTER_WORKERS_MAX / 2)
		return;
	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++) {
		struct row *row = &master->rows.row[i];

		if (row->generation == active && (row_is_wanted(row) || row_serves(row)) &&
		    row->number >= workers)
			row_drain(row);
	}
	active->workers = master->status.workers = workers;
	log_info("%u workers, until the next reload", workers);
}

static void on_more(struct master *master)
{
	resize(master, master->status.workers + 1);
}

static void on_fewer(struct master *master)
{
	resize(master, master->status.workers - 1);
}

static const struct {
	int number;
	void (*act)(struct master *);
} signals[MASTER_SIGNALS] = {
	{SIGTERM, master_on_term}, {SIGQUIT, master_on_quit}, {SIGINT, master_on_int},
	{SIGHUP, on_reload},       {SIGUSR1, on_reopen},      {SIGUSR2, on_upgrade},
	{SIGTTIN, on_more},        {SIGTTOU, on_fewer},       {SIGCHLD, on_child},
};

static void on_signal(struct ev_loop *loop, struct ev_signal *watcher, int events)
{
	struct master *master = watcher->data;

	(void)loop;
	(void)events;
	signals[watcher - master->signals].act(master);
}

static void start_watchers(struct master *master)
{
	for (size_t i = 0; i < MASTER_SIGNALS; i++) {
		ev_signal_init(&master->signals[i], on_signal, signals[i].number);
		master->signals[i].data = master;
		ev_signal_start(master->loop, &master->signals[i]);
	}
	master_stats_init(master);
	master_notify_start(master);
	master_stop_init(master);
	ev_timer_init(&master->retry, on_retry, RETRY_S, 0.);
	master->retry.data = master;
	ev_prepare_init(&master->look, on_look);
	master->look.data = master;
	ev_prepare_start(master->loop, &master->look);
}

/*
 * Stopping the watchers before the loop is what lets the child watch the same signals: libev ties
 * each to one loop.
 */
static void stop_watchers(void *data)
{
	struct master *master = data;

	for (size_t i = 0; i < MASTER_SIGNALS; i++)
		ev_signal_stop(master->loop, &master->signals[i]);
	ev_prepare_stop(master->loop, &master->look);
	ev_timer_stop(master->loop, &master->retry);
	ev_timer_stop(master->loop, &master->stop_delay);
	ev_timer_stop(master->loop, &master->notify.timer);
	watchdog_stop(&master->watchdog);
	ev_loop_destroy(master->loop);
	master->loop = NULL;
}

static int open_new(struct master *master)
{
	struct rows *rows = &master->rows;

	clock_gettime(CLOCK_REALTIME, &master->status.started);
	master->status.started_ns = master_now_ns();
	master->status.pid = getpid();
	rows->scoreboard = scoreboard_open(&master->scoreboard_fd);
	if (!rows->scoreboard)
		return -1;
	if (master->options.test)
		return exchange_open(&rows->exchange);
	master->pool = listener_pool_new();
	return master->pool ? master_store_open(master) : -1;
}

/* libev's own way is to abort.  Without a master nothing goes on, and workers do without it for a
 * while. */
static void *wait_for_memory(void *ptr, long size)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	void *memory = NULL;

	if (size == 0)
		free(ptr);
	else
		while (!(memory = realloc(ptr, (size_t)size)))
			nanosleep(&pause, NULL);
	return memory;
}

/* A loop of its own, not the default one: that one would reap children which are not ours. */
static int open_all(struct master *master, const struct child_roles *roles)
{
	const struct upgrade_state *left = master->options.left;
	struct rows *rows = &master->rows;

	ev_set_allocator(wait_for_memory);
	master->loop = ev_loop_new(EVFLAG_NOINOTIFY | EVFLAG_NOENV);
	rows->loop = master->loop;
	if (master->loop)
		loop_guard_signals(master->loop);
	watchdog_init(&master->watchdog, rows);
	if (!master->loop || (left ? master_upgrade_open(master, left) : open_new(master)) < 0) {
		fprintf(stderr, "whitecap: cannot start: %s\n", strerror(errno));
		return -1;
	}
	rows->roles = roles;
	rows->sole = !left;
	rows->forget = stop_watchers;
	rows->data = master;
	rows_init(rows);
	upgrade_check_init(&master->check, master->loop);
	if (left && master_upgrade_adopt(master, left) < 0) {
		log_error("cannot go on after the upgrade: %s", strerror(errno));
		return -1;
	}
	log_count_in(&rows->scoreboard->slot[0].counter[COUNTER_log_dropped]);
	return 0;
}

static void close_all(struct master *master)
{
	if (master->loop)
		stop_watchers(master);
	log_count_in(NULL);
	if (master->rows.scoreboard)
		scoreboard_close(master->rows.scoreboard, master->scoreboard_fd);
	if (master->pool)
		listener_pool_free(master->pool);
	exchange_close(&master->rows.exchange);
	pidfile_close(&master->pidfile);
}

static void serve(struct master *master)
{
	sigset_t none;

	master->rows.scoreboard->slot[0].pid = getpid();
	privs_raise_files();
	if (privs_reduce() < 0)
		log_warn("cannot give up rights that are not needed: %s", strerror(errno));
	start_watchers(master);
	master_store_begin(master);
	master->reload_wanted = true;
	if (master->active)
		master_apply_stats(master, master->active->config);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	rows_reap(&master->rows); /* who ended before there was somebody to hear of it */
	do
		ev_run(master->loop, 0);
	while (master_upgrade_execute(master));
	spawn_block_signals(NULL); /* one more of them must not change the exit code */
	master_answer_leftovers(master);
	master_store_end(master);
	if (!master->options.test && master->exit_code == MASTER_OK)
		log_info("stopped");
}

int master_main(const struct master_options *options, const struct child_roles *roles)
{
	struct master *master = calloc(1, sizeof *master);
	int code = MASTER_FAILED;

	if (!master) {
		perror("whitecap");
		return code;
	}
	master->options = *options;
	master->exit_code = options->test ? MASTER_FAILED : MASTER_OK;
	master->scoreboard_fd = master->left_scoreboard_fd = -1;
	master->rows.exchange = (struct exchange){-1, -1};
	master->pidfile.fd = -1;
	log_set_role("master");
	if (open_all(master, roles) == 0) {
		serve(master);
		code = master->exit_code;
	}
	close_all(master);
	free(master);
	return code;
}
