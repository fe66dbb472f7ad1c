/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "master.h"

#include <errno.h>
#include <ev.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "generation.h"
#include "log.h"
#include "master_status.h"
#include "pidfile.h"
#include "restart.h"
#include "row.h"
#include "watchdog.h"
#include "stats_source.h"

/* Where a new generation is on its way. */
enum stage { STAGE_LOADED, STAGE_PROVING, STAGE_PROVEN, STAGE_STARTING };

enum { SIGNAL_COUNT = 9, WORKERS_MAX = SCOREBOARD_ADMIN - 2 };

struct master {
	struct master_options options;
	struct ev_loop *loop;
	struct ev_signal signals[SIGNAL_COUNT];
	struct ev_prepare look;
	struct ev_timer stats_timer; /* stats.interval */
	int stats_error;             /* errno of the last time it could not be written; 0: it could */
	int scoreboard_fd;
	struct listener_pool *pool;
	struct pidfile pidfile;

	struct generation *all;    /* also the retired ones that still have processes */
	struct generation *active; /* NULL: none serves yet */
	struct generation *next;   /* NULL: none is on its way */
	enum stage stage;          /* of next */
	bool reload_wanted;
	bool stopping;
	bool log_is_file; /* not stderr */
	enum master_exit exit_code;
	struct master_status status;
	struct watchdog watchdog;
	struct rows rows;
};

static void each_row(struct master *master, const struct generation *generation,
		     void (*act)(struct row *))
{
	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++) {
		struct row *row = &master->rows.row[i];

		if (row->state != SLOT_EMPTY && (!generation || row->generation == generation))
			act(row);
	}
}

/* The same for admin processes, which are in rows of their own. */
static void each_admin(struct master *master, const struct generation *generation,
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

static unsigned count_rows(const struct master *master, const struct generation *generation,
			   enum slot_state state)
{
	unsigned count = 0;

	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++)
		count += master->rows.row[i].generation == generation &&
			 master->rows.row[i].state == state;
	return count;
}

static void each_line(const char *text, void (*print)(const char *line, int length))
{
	for (size_t length; *text; text += length + (text[length] == '\n')) {
		length = strcspn(text, "\n");
		print(text, (int)length);
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Statistics. */

/* Once per cause: a full disk does not fill the log too. */
static void write_stats(struct master *master)
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
	write_stats(timer->data);
}

static void apply_stats(struct master *master, const struct config *config)
{
	ev_timer_stop(master->loop, &master->stats_timer);
	master->stats_error = 0;
	if (!config->stats_file)
		return;
	write_stats(master);
	if (config->stats_interval_ms == 0)
		return;
	ev_timer_set(&master->stats_timer, (double)config->stats_interval_ms / 1000,
		     (double)config->stats_interval_ms / 1000);
	ev_timer_start(master->loop, &master->stats_timer);
}

/* Each route and listener of a new generation is counted where it was before, if it was there. */
static void claim_places(struct master *master, const struct generation *new)
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

/* Stopping. */

static void stop(struct master *master, void (*end)(struct row *))
{
	master->stopping = true;
	master->status.state = MASTER_STOPPING;
	atomic_store(&master->rows.scoreboard->stopping, 1);
	each_row(master, NULL, end);
	if (end == row_kill) /* else it answers until the workers have gone */
		each_admin(master, NULL, row_kill);
	/* The workers have the listeners still, and take what is in their queues. */
	for (struct generation *generation = master->all; generation; generation = generation->next)
		generation_retire(generation);
}

static void on_stop(struct master *master)
{
	stop(master, master->stopping ? row_kill : row_stop);
}

static void on_stop_now(struct master *master)
{
	stop(master, row_kill);
}

/* A new generation: loaded, proven, started, and only then put in the place of the old one. */

static void log_reload_failed(const char *line, int length)
{
	log_error("reload failed: %.*s", length, line);
}

static void warn_line(const char *line, int length)
{
	log_warn("%.*s", length, line);
}

static void log_error_line(const char *line, int length)
{
	log_error("%.*s", length, line);
}

static void print_line(const char *line, int length)
{
	fprintf(stderr, "whitecap: %.*s\n", length, line);
}

static void discard_next(struct master *master)
{
	if (!master->next)
		return;
	each_row(master, master->next, row_drain);
	each_admin(master, master->next, row_drain);
	generation_retire(master->next);
	master->next = NULL;
}

static void fail_start(struct master *master, const char *why, enum master_exit code)
{
	each_line(why, print_line);
	if (master->log_is_file)
		each_line(why, log_error_line);
	master->exit_code = code;
	stop(master, row_kill);
}

static void note_reload(struct master *master, const char *error)
{
	struct master_status *status = &master->status;

	*(error ? &status->reload_failed : &status->reload_count) += 1;
	clock_gettime(CLOCK_REALTIME, &status->reload_last);
	snprintf(status->reload_error, sizeof status->reload_error, "%s", error ? error : "");
	status->state = MASTER_SERVING;
}

/* Whatever went wrong: the generation that serves does not notice. */
static void fail(struct master *master, const char *why, enum master_exit code)
{
	why = why && *why ? why : "out of memory";
	if (!master->active) {
		fail_start(master, why, code);
		return;
	}
	each_line(why, log_reload_failed);
	note_reload(master, why);
	discard_next(master);
}

/* Only the first configuration's: a pid file stays where it is, and the log changes with the generation. */
static int open_first(struct master *master, const struct config *config, struct err *err)
{
	if (master->active || master->options.test)
		return 0;
	if (log_open(config->log_path) < 0) {
		err_add(err, "log.path: %s: %s", config->log_path ? config->log_path : "stderr",
			strerror(errno));
		return -1;
	}
	master->log_is_file = config->log_path != NULL;
	log_set_level((enum log_level)config->log_level);
	return pidfile_open(&master->pidfile, config->pidfile, err);
}

static void load(struct master *master)
{
	static const enum master_exit codes[] = {
		[GENERATION_INVALID] = MASTER_CONFIG,
		[GENERATION_CANNOT_BIND] = MASTER_CANNOT_BIND,
	};
	unsigned number = master->active ? master->active->number + 1 : 1;
	struct config *config;
	enum generation_result result;
	struct err err;

	master->reload_wanted = false;
	err_init(&err);
	config = config_load(master->options.path, master->options.overrides, &err);
	if (!config) {
		fail(master, err.text, MASTER_CONFIG);
		return;
	}
	each_line(config->warnings.text, master->options.test ? print_line : warn_line);
	if (open_first(master, config, &err) < 0) {
		config_free(config);
		fail(master, err.text, MASTER_FAILED);
		return;
	}
	result = generation_open(&master->next, number, config, master->pool, &err);
	if (result != GENERATION_OK) {
		fail(master, err.text, codes[result]);
		return;
	}
	claim_places(master, master->next);
	master->next->next = master->all;
	master->all = master->next;
	master->stage = STAGE_LOADED;
	if (master->active)
		master->status.state = MASTER_RELOADING;
}

static bool is_kept(const struct generation *old, const struct listener *listener)
{
	for (size_t i = 0; old && i < old->listeners.count; i++)
		if (old->listeners.listeners[i] == listener)
			return true;
	return false;
}

static void apply_listeners(const struct generation *old, struct generation *new)
{
	if (listener_set_apply(&new->listeners, new->config->listens) < 0)
		log_warn("backlog or mode of a listener cannot be changed: %s", strerror(errno));
	for (size_t i = 0; i < new->listeners.count; i++)
		if (!is_kept(old, new->listeners.listeners[i]))
			log_info("listening on %s", new->listeners.listeners[i]->bound);
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void apply_log(struct master *master, const struct generation *old,
		      const struct generation *new)
{
	const char *path = new->config->log_path;

	log_set_level((enum log_level)new->config->log_level);
	if (!old || is_same_text(path, old->config->log_path))
		return;
	if (log_open(path) < 0)
		log_error("log.path: %s: %s: the old log stays", path ? path : "stderr",
			  strerror(errno));
	else
		each_row(master, new, row_reopen);
}

static void retire(struct master *master, struct generation *generation)
{
	each_row(master, generation, row_drain);
	each_admin(master, generation, row_drain);
	generation_retire(generation);
}

/* All workers of the new generation are ready: from here on nothing can fail. */
static void commit(struct master *master)
{
	struct generation *old = master->active, *new = master->next;

	master->active = new;
	master->next = NULL;
	new->serving = true;
	apply_log(master, old, new);
	apply_listeners(old, new);
	each_row(master, new, row_go);
	watchdog_set(&master->watchdog, new->config);
	if (old)
		retire(master, old);
	master->status.generation = new->number;
	master->status.workers = new->workers;
	master->status.state = MASTER_SERVING;
	log_info("serving: %u workers, generation %u", new->workers, new->number);
	if (old) {
		note_reload(master, NULL);
		log_info("reload done: generation %u", new->number);
	}
	apply_stats(master, new->config);
}

static void prove(struct master *master)
{
	if (rows_start(&master->rows, master->next, ROW_PROVER) == 0)
		master->stage = STAGE_PROVING;
}

static void on_proving(struct master *master)
{
	struct generation *next = master->next;

	if (next->failed_starts > 0) {
		fail(master, next->reason, MASTER_CONFIG);
		return;
	}
	if (!next->proven)
		return;
	each_row(master, next, row_drain);
	master->stage = STAGE_PROVEN;
	if (master->options.test) {
		master->exit_code = MASTER_OK;
		stop(master, row_drain);
	}
}

static void start_admin(struct master *master, struct generation *generation)
{
	if (generation_admin_fd(generation) >= 0 && !has_admin(master, generation))
		rows_start(&master->rows, generation, ROW_ADMIN);
}

/* Old generations that still drain may leave too few rows: then it waits for them. */
static void start_workers(struct master *master)
{
	struct generation *next = master->next;

	if (master->active && master->active->workers + next->workers > WORKERS_MAX) {
		fail(master, "workers: there is no room for so many of the old and the new generation",
		     MASTER_CONFIG);
		return;
	}
	if (rows_free(&master->rows) < next->workers)
		return;
	for (unsigned i = 0; i < next->workers; i++)
		rows_start(&master->rows, next, i);
	if (!master->active)
		start_admin(master, next);
	master->stage = STAGE_STARTING;
}

static void on_starting(struct master *master)
{
	struct generation *next = master->next;
	unsigned tolerated = master->active ? 0 : RESTART_CRASH_LOOP - 1;

	if (next->failed_starts > tolerated)
		fail(master, next->reason, MASTER_CRASH_LOOP);
	else if (count_rows(master, next, SLOT_READY) == next->workers)
		commit(master);
}

static void advance(struct master *master)
{
	static void (*const steps[])(struct master *) = {
		[STAGE_LOADED] = prove,
		[STAGE_PROVING] = on_proving,
		[STAGE_PROVEN] = start_workers,
		[STAGE_STARTING] = on_starting,
	};

	enum stage before;

	do {
		if (!master->next && master->reload_wanted)
			load(master);
		if (!master->next)
			return;
		before = master->stage;
		steps[before](master);
	} while (!master->stopping && (!master->next || master->stage != before));
}

/* Keeping it running. */

/* A worker for each number, in place of those that are dying too. */
static void fill(struct master *master)
{
	struct generation *active = master->active;
	bool present[SCOREBOARD_SLOTS] = {false};

	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++) {
		struct row *row = &master->rows.row[i];

		if (row->generation == active && row_is_wanted(row))
			present[row->number] = true;
	}
	for (unsigned i = 0; i < active->workers; i++)
		if (!present[i])
			rows_start(&master->rows, active, i);
	start_admin(master, active);
}

/*
 * Nobody serves: workers that did are back within the shortest pause.  Of those that could not even
 * start, one goes on trying at that pace, not all.
 */
static void hurry(struct master *master)
{
	struct generation *active = master->active;
	struct row *trying = NULL;
	bool coming = count_rows(master, active, SLOT_STARTING) > 0 ||
		      count_rows(master, active, SLOT_FAILING) > 0;

	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++) {
		struct row *row = &master->rows.row[i];

		if (row->generation != active || row->state != SLOT_BACKOFF)
			continue;
		if (row->was_ready)
			row_hurry(row);
		else if (!trying)
			trying = row;
		coming |= row->was_ready;
	}
	if (trying && !coming)
		row_hurry(trying);
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
	each_admin(master, NULL, row_drain);
	for (unsigned i = SCOREBOARD_ADMIN; i < SCOREBOARD_SLOTS; i++)
		if (master->rows.row[i].state != SLOT_EMPTY)
			return;
	write_stats(master);
	ev_break(master->loop, EVBREAK_ALL);
}

/* Before each wait for events: whatever has changed, all is looked at, so that nothing is missed. */
static void on_look(struct ev_loop *loop, struct ev_prepare *prepare, int events)
{
	struct master *master = prepare->data;

	(void)loop;
	(void)events;
	if (!master->stopping)
		advance(master);
	if (!master->stopping && master->active) {
		fill(master);
		if (count_rows(master, master->active, SLOT_READY) == 0)
			hurry(master);
	}
	scoreboard_put_status(master->rows.scoreboard, &master->status);
	if (master->stopping && rows_free(&master->rows) == SCOREBOARD_ADMIN - 1)
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

	if (path && log_open(path) < 0)
		log_error("log.path: %s: %s: the old log stays", path, strerror(errno));
	for (struct generation *generation = master->all; generation; generation = generation->next)
		if (generation_reopen(generation) < 0)
			log_error("access_log.path: %s: %s: the old log stays",
				  generation->config->access_log_path, strerror(errno));
	each_row(master, NULL, reopen_row);
	each_admin(master, NULL, reopen_row);
	log_info("log files reopened");
	write_stats(master);
}

static void on_upgrade(struct master *master)
{
	(void)master;
	log_warn("SIGUSR2: the upgrade is not there yet");
}

static void resize(struct master *master, unsigned workers)
{
	struct generation *active = master->active;

	if (!active || master->stopping || workers == 0 || workers > WORKERS_MAX / 2)
		return;
	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++) {
		struct row *row = &master->rows.row[i];

		if (row->generation == active && row_is_wanted(row) && row->number >= workers)
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
} signals[SIGNAL_COUNT] = {
	{SIGTERM, on_stop},   {SIGQUIT, on_stop},   {SIGINT, on_stop_now},
	{SIGHUP, on_reload},  {SIGUSR1, on_reopen}, {SIGUSR2, on_upgrade},
	{SIGTTIN, on_more},   {SIGTTOU, on_fewer},  {SIGCHLD, on_child},
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
	for (size_t i = 0; i < SIGNAL_COUNT; i++) {
		ev_signal_init(&master->signals[i], on_signal, signals[i].number);
		master->signals[i].data = master;
		ev_signal_start(master->loop, &master->signals[i]);
	}
	ev_init(&master->stats_timer, on_stats_timer);
	master->stats_timer.data = master;
	ev_prepare_init(&master->look, on_look);
	master->look.data = master;
	ev_prepare_start(master->loop, &master->look);
}

/*
 * Stopping the watchers before the loop is what lets the child watch the same signals: libev ties each to one loop.
 */
static void stop_watchers(void *data)
{
	struct master *master = data;

	for (size_t i = 0; i < SIGNAL_COUNT; i++)
		ev_signal_stop(master->loop, &master->signals[i]);
	ev_prepare_stop(master->loop, &master->look);
	watchdog_stop(&master->watchdog);
	ev_loop_destroy(master->loop);
	master->loop = NULL;
}

/* A loop of its own, not the default one: that one would reap children which are not ours. */
static int open_all(struct master *master, const struct child_roles *roles)
{
	struct rows *rows = &master->rows;

	master->loop = ev_loop_new(EVFLAG_NOINOTIFY | EVFLAG_NOENV);
	rows->scoreboard = scoreboard_open(&master->scoreboard_fd);
	if (!master->options.test)
		master->pool = listener_pool_new();
	if (!master->loop || !rows->scoreboard || (!master->pool && !master->options.test) ||
	    exchange_open(&rows->exchange) < 0) {
		fprintf(stderr, "whitecap: cannot start: %s\n", strerror(errno));
		return -1;
	}
	rows->loop = master->loop;
	rows->roles = roles;
	rows->forget = stop_watchers;
	rows->data = master;
	rows_init(rows);
	watchdog_init(&master->watchdog, rows);
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

	clock_gettime(CLOCK_REALTIME, &master->status.started);
	master->status.started_ns = now_ns();
	master->status.pid = getpid();
	master->rows.scoreboard->slot[0].pid = getpid();
	privs_raise_files();
	start_watchers(master);
	master->reload_wanted = true;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	ev_run(master->loop, 0);
	if (!master->options.test && master->exit_code == MASTER_OK)
		log_info("stopped");
}

int master_main(const struct master_options *options, const struct child_roles *roles)
{
	struct master *master = calloc(1, sizeof *master);
	int code = MASTER_FAILED;

	if (!master)
		return code;
	master->options = *options;
	master->exit_code = options->test ? MASTER_FAILED : MASTER_OK;
	master->scoreboard_fd = -1;
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
