/* SPDX-License-Identifier: MIT */
/* A new generation: loaded, proven, started, and only then put in the place of the old one. */
#include "autoconf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "master_parts.h"
#include "restart.h"

static void each_line(const char *text, void (*print)(const char *line, int length))
{
	for (size_t length; *text; text += length + (text[length] == '\n')) {
		length = strcspn(text, "\n");
		print(text, (int)length);
	}
}
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
	master_canary_end(master);
	if (master->next->trial)
		watchdog_set(&master->watchdog, master->active->config, NULL);
	master_each_row(master, master->next, row_drain);
	master_each_admin(master, master->next, row_drain);
	generation_retire(master->next);
	master->next = NULL;
}

static void fail_start(struct master *master, const char *why, enum master_exit code)
{
	each_line(why, print_line);
	if (master->log_is_file)
		each_line(why, log_error_line);
	master->exit_code = code;
	master->leaving = master->rows.stored; /* for another attempt */
	master_stop(master, row_kill);
}

void master_note_reload(struct master *master, const char *error)
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
	master_note_reload(master, why);
	master_notify_ready(master);
	discard_next(master);
	master_write_stats(master);
}

/* Only the first configuration's: a pid file stays where it is, and the log changes with the
 * generation. */
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
	if (master->active)
		master_notify_reloading();
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
	/* One that was refused had the same number. */
	quarantine_reset(&master->rows.scoreboard->quarantine);
	master_claim_places(master, master->next);
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
		log_warn("backlog, mode or clock of a listener cannot be changed: %s", strerror(errno));
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

	log_set_level((enum log_level) new->config->log_level);
	if (!old || is_same_text(path, old->config->log_path))
		return;
	if (log_open(path) < 0)
		log_error("log.path: %s: %s: the old log stays", path ? path : "stderr",
			  strerror(errno));
	else
		master_each_row(master, new, row_reopen);
}

static void retire(struct master *master, struct generation *generation)
{
	master_each_row(master, generation, row_drain);
	master_each_admin(master, generation, row_drain);
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
	master_each_row(master, new, row_go);
	master_each_admin(master, new, row_hurry);
	watchdog_set(&master->watchdog, new->config, NULL);
	if (old)
		retire(master, old);
	master->status.generation = new->number;
	master->status.workers = new->workers;
	master->status.state = MASTER_SERVING;
	log_info("serving: %u worker%s, generation %u", new->workers, new->workers == 1 ? "" : "s",
		 new->number);
	if (old) {
		master_note_reload(master, NULL);
		log_info("reload done: generation %u", new->number);
	}
	master_store_listeners(master, new);
	master_notify_ready(master);
	master_apply_stats(master, new->config);
}

/* While nobody serves, the workers start meanwhile, as far as they can without the handlers. */
static void prove(struct master *master)
{
	if (rows_start(&master->rows, master->next, ROW_PROVER) < 0)
		return;
	master->stage = STAGE_PROVING;
	if (!master->active && !master->options.test)
		master_fill(master, master->next);
}

static void drain_prover(struct row *row)
{
	if (row->number == ROW_PROVER)
		row_drain(row);
}

static void on_proving(struct master *master)
{
	struct generation *next = master->next;

	if (next->refused) {
		fail(master, next->reason, next->unable ? MASTER_FAILED : MASTER_CONFIG);
		return;
	}
	if (!next->proven)
		return;
	master_each_row(master, next, drain_prover);
	master_each_row(master, next, row_proven);
	master->stage = STAGE_PROVEN;
	if (master->options.test) {
		master->exit_code = MASTER_OK;
		master_stop(master, row_drain);
	}
}

/* Old generations that still drain may leave too few rows: then it waits for them. */
static void start_workers(struct master *master)
{
	struct generation *next = master->next;

	if (master->active && master->active->workers + next->workers > MASTER_WORKERS_MAX) {
		fail(master,
		     "workers: there is no room for so many of the old and the new generation",
		     MASTER_CONFIG);
		return;
	}
	if (master->active && rows_free(&master->rows) < next->workers)
		return;
	next->trial = master->active && master_canary_is_wanted(master);
	if (next->trial)
		watchdog_set(&master->watchdog, master->active->config, next->config);
	if (next->trial)
		rows_start(&master->rows, next, 0);
	else
		master_fill(master, next);
	if (!master->active)
		master_start_admin(master, next);
	master->stage = next->trial ? STAGE_CANARY : STAGE_STARTING;
}

static void on_canary(struct master *master)
{
	char why[MASTER_CANARY_WHY_MAX];
	enum master_canary_state state = master_canary_look(master, why);

	if (state == MASTER_CANARY_WORSE) {
		fail(master, why, MASTER_FAILED);
	} else if (state == MASTER_CANARY_GOOD) {
		master_canary_end(master);
		master->next->trial = false;
		master->stage = STAGE_STARTING;
	}
}

static void on_starting(struct master *master)
{
	struct generation *next = master->next;
	unsigned tolerated = master->active ? 0 : RESTART_CRASH_LOOP - 1;

	if (next->failed_starts > tolerated)
		fail(master, next->reason, MASTER_CRASH_LOOP);
	else if (master_count_rows(master, next, SLOT_READY) == next->workers)
		commit(master);
	else
		master_fill(master, next); /* one that was ready may have crashed, and another one
					      got ready since */
}

void master_reload_advance(struct master *master)
{
	static void (*const steps[])(struct master *) = {
		[STAGE_LOADED] = prove,
		[STAGE_PROVING] = on_proving,
		[STAGE_PROVEN] = start_workers,
		[STAGE_CANARY] = on_canary,
		[STAGE_STARTING] = on_starting,
	};

	enum master_stage before;

	do {
		if (!master->next && master->reload_wanted && !master_upgrade_is_busy(master))
			load(master);
		if (!master->next)
			return;
		before = master->stage;
		steps[before](master);
	} while (!master->stopping && (!master->next || master->stage != before));
}
