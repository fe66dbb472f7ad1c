/* SPDX-License-Identifier: MIT */
/*
 * The upgrade: the program on disk is proven in a child, then this process becomes it, and goes on
 * with what is left by a reload.  Until the new generation serves, the old processes form a foreign
 * one.
 */
#include "autoconf.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "master_parts.h"
#include "notify.h"
#include "spawn.h"

/* The program that runs does not notice. */
static void fail(struct master *master, const char *why)
{
	master_note_reload(master, why);
	master_write_stats(master);
	for (size_t length; *why; why += length + (why[length] == '\n')) {
		length = strcspn(why, "\n");
		log_error("upgrade failed: %.*s", (int)length, why);
	}
}

/* Proving. */

bool master_upgrade_is_busy(const struct master *master)
{
	return master->check.pid > 0 || master->upgrade_due;
}

void master_upgrade_advance(struct master *master)
{
	const struct generation *active = master->active;
	struct err err;

	if (!master->upgrade_wanted || master_upgrade_is_busy(master) || !active || master->next ||
	    master->reload_wanted)
		return;
	master->upgrade_wanted = false;
	err_init(&err);
	log_info("upgrade: proving %s", upgrade_program());
	if (upgrade_check_start(&master->check, active->config->start_ms, master->rows.forget,
				master->rows.data, &err) < 0)
		fail(master, err.text);
}

/* The exec itself is for outside of the loop, where no callback is under way. */
void master_upgrade_reap(struct master *master)
{
	struct err err;

	err_init(&err);
	if (!upgrade_check_reap(&master->check, &err) || master->stopping)
		return;
	if (err.count > 0) {
		fail(master, err.text);
		return;
	}
	master->upgrade_due = true;
	ev_break(master->loop, EVBREAK_ALL);
}

/* Leaving. */

static char *dump(const struct config *config)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	config_dump(config, out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

static void leave_rows(const struct rows *rows, struct upgrade_state *state)
{
	for (unsigned i = 0; i < SCOREBOARD_SLOTS; i++) {
		const struct row_history *past = &rows->history[i];
		struct upgrade_history *history = &state->histories[state->history_count];

		if (row_describe(&rows->row[i], &state->rows[state->row_count]))
			state->row_count++;
		if (past->restarts == 0 && past->last_exit[0] == '\0')
			continue;
		history->number = i;
		history->restarts = past->restarts;
		memcpy(history->last_exit, past->last_exit, sizeof history->last_exit);
		state->history_count++;
	}
}

/* -1: no memory; then the count says how many are there. */
static int leave_listeners(const struct listener_set *set, struct upgrade_state *state)
{
	for (size_t i = 0; i < set->count; i++) {
		const struct listener *l = set->listeners[i];
		struct upgrade_listener *listener = &state->listeners[state->listener_count];

		listener->address = strdup(l->address);
		if (!listener->address)
			return -1;
		listener->fd = l->fd;
		listener->admin = l->admin;
		listener->passed = l->passed;
		listener->dev = l->dev;
		listener->ino = l->ino;
		state->listener_count++;
	}
	return 0;
}

static int leave_passed(const struct passed *passed, struct upgrade_state *state)
{
	state->passed = calloc(passed->count + 1, sizeof *state->passed);
	for (size_t i = 0; state->passed && i < passed->count; i++) {
		state->passed[i].fd = passed->fds[i].fd;
		state->passed[i].name = strdup(passed->fds[i].name);
		if (!state->passed[i].name)
			return -1;
		state->passed_count++;
	}
	return state->passed ? 0 : -1;
}

static int leave_pidfile(const struct pidfile *pidfile, struct upgrade_state *state)
{
	if (!pidfile->path)
		return 0;
	state->pidfile.path = strdup(pidfile->path);
	state->pidfile.fd = pidfile->fd;
	state->pidfile.dev = pidfile->dev;
	state->pidfile.ino = pidfile->ino;
	return state->pidfile.path ? 0 : -1;
}

/* NULL: no memory. */
static struct upgrade_state *leave(const struct master *master)
{
	const struct generation *active = master->active;
	struct upgrade_state *state = upgrade_state_new();

	if (!state)
		return NULL;
	state->pid = getpid();
	state->program = strdup(upgrade_program());
	state->config = dump(active->config);
	state->scoreboard = master->scoreboard_fd;
	state->give = master->rows.exchange.give;
	state->take = master->rows.exchange.take;
	state->log = log_fd() > STDERR_FILENO ? log_fd() : -1;
	state->access_log = active->access_log;
	state->upgrade_wanted = master->upgrade_wanted;
	state->status = master->status;
	for (int i = 0; i < COUNTER_COUNT; i++)
		state->total[i] =
			scoreboard_total(master->rows.scoreboard, (enum scoreboard_counter)i);
	state->listeners = calloc(active->listeners.count + active->admin_listener.count + 1,
				  sizeof *state->listeners);
	if (state->program && state->config && state->listeners &&
	    leave_listeners(&active->listeners, state) == 0 &&
	    leave_listeners(&active->admin_listener, state) == 0 &&
	    leave_passed(listener_pool_passed(master->pool), state) == 0 &&
	    leave_pidfile(&master->pidfile, state) == 0) {
		leave_rows(&master->rows, state);
		return state;
	}
	upgrade_state_free(state);
	return NULL;
}

/* Does not return when that went well. */
static void become(struct master *master)
{
	struct upgrade_state *state = leave(master);
	struct err err;

	log_info("upgrade: %s takes over", upgrade_program());
	notify_leave();
	if (!state)
		errno = ENOMEM;
	else
		upgrade_execute(state);
	err_init(&err);
	err_add(&err, "%s: %s", upgrade_program(), strerror(errno));
	fail(master, err.text);
	notify_take();
	upgrade_state_free(state);
}

/*
 * Signals that came before they were blocked are acted upon in one more turn of the loop, later
 * ones by the new program.
 */
bool master_upgrade_execute(struct master *master)
{
	sigset_t before;

	if (!master->upgrade_due)
		return false;
	spawn_block_signals(&before);
	ev_run(master->loop, EVRUN_NOWAIT);
	if (!master->stopping && upgrade_check_is_current(&master->check)) {
		become(master);
	} else if (!master->stopping) {
		log_warn("upgrade: %s has changed again", upgrade_program());
		master->upgrade_wanted = true;
	}
	master->upgrade_due = false;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return true;
}

/* Going on. */

/* A new scoreboard begins where the old one, that only old processes know, stands now. */
static int adopt_scoreboard(struct master *master, const struct upgrade_state *left)
{
	struct rows *rows = &master->rows;

	master->scoreboard_fd = left->scoreboard;
	rows->scoreboard = scoreboard_adopt(left->scoreboard);
	if (rows->scoreboard || errno != EPROTO)
		return rows->scoreboard ? 0 : -1;
	log_info("upgrade: statistics are kept in another form now: they begin with the totals");
	master->left_scoreboard_fd = left->scoreboard;
	master->scoreboard_fd = -1;
	rows->scoreboard = scoreboard_open(&master->scoreboard_fd);
	if (!rows->scoreboard)
		return -1;
	for (int i = 0; i < COUNTER_COUNT; i++)
		scoreboard_add(&rows->scoreboard->slot[0].counter[i], left->total[i]);
	return 0;
}

int master_upgrade_open(struct master *master, const struct upgrade_state *left)
{
	master->rows.exchange = (struct exchange){.give = left->give, .take = left->take};
	if (adopt_scoreboard(master, left) < 0 || !(master->pool = listener_pool_new()))
		return -1;
	for (size_t i = 0; i < left->passed_count; i++)
		if (passed_add(listener_pool_passed(master->pool), left->passed[i].fd,
			       left->passed[i].name) < 0)
			return -1;
	return 0;
}

/* What this program does not understand of it, it does by its defaults until the reload. */
static struct config *load_config(const struct upgrade_state *left)
{
	int fd = upgrade_store(left->config);
	struct config *config = NULL;
	char path[32];
	struct err err;

	err_init(&err);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fd >= 0) {
		config = config_load(path, NULL, &err);
		close(fd);
	}
	if (config)
		return config;
	log_warn("upgrade: the old configuration is not understood: %s", err.text);
	return config_load(NULL, NULL, &err);
}

static struct generation *find_generation(struct master *master, const struct upgrade_state *left,
					  unsigned number)
{
	struct generation *generation;
	struct config *config;

	for (generation = master->all; generation; generation = generation->next)
		if (generation->number == number)
			return generation;
	config = load_config(left);
	generation = config ? generation_adopt(number, config, master->pool) : NULL;
	if (!generation)
		return NULL;
	generation->retired = number != left->status.generation;
	generation->next = master->all;
	master->all = generation;
	return generation;
}

static int adopt_listeners(struct master *master, struct generation *generation,
			   const struct upgrade_state *left)
{
	struct listener_left *all = calloc(left->listener_count + 1, sizeof *all);
	size_t public = 0;
	int result = -1;

	if (!all)
		return -1;
	for (size_t i = 0; i < left->listener_count; i++) {
		const struct upgrade_listener *l = &left->listeners[i];

		all[i] = (struct listener_left){.address = l->address,
						.fd = l->fd,
						.admin = l->admin,
						.passed = l->passed,
						.dev = (dev_t)l->dev,
						.ino = (ino_t)l->ino};
		public += !l->admin;
	}
	if (listener_set_adopt(&generation->listeners, master->pool, all, public) == 0 &&
	    listener_set_adopt(&generation->admin_listener, master->pool, all + public,
			       left->listener_count - public) == 0)
		result = 0;
	free(all);
	return result;
}

static int adopt_rows(struct master *master, const struct upgrade_state *left)
{
	for (size_t i = 0; i < left->history_count; i++) {
		const struct upgrade_history *past = &left->histories[i];
		struct row_history *history = &master->rows.history[past->number];

		history->restarts = past->restarts;
		memcpy(history->last_exit, past->last_exit, sizeof history->last_exit);
	}
	for (size_t i = 0; i < left->row_count; i++) {
		const struct upgrade_row *row = &left->rows[i];
		struct generation *generation = find_generation(master, left, row->generation);

		if (!generation)
			return -1;
		rows_adopt(&master->rows, generation, row);
	}
	return 0;
}

static int adopt_pidfile(struct master *master, const struct upgrade_state *left)
{
	if (!left->pidfile.path)
		return 0;
	master->pidfile = (struct pidfile){.path = strdup(left->pidfile.path),
					   .fd = left->pidfile.fd,
					   .dev = (dev_t)left->pidfile.dev,
					   .ino = (ino_t)left->pidfile.ino};
	return master->pidfile.path ? 0 : -1;
}

int master_upgrade_adopt(struct master *master, const struct upgrade_state *left)
{
	struct generation *active;

	if (left->log >= 0)
		log_take(left->log);
	active = find_generation(master, left, left->status.generation);
	if (!active || adopt_listeners(master, active, left) < 0 || adopt_rows(master, left) < 0 ||
	    adopt_pidfile(master, left) < 0)
		return -1;
	active->workers = left->status.workers;
	active->access_log = left->access_log;
	master->active = active;
	master->status = left->status;
	master->upgrade_wanted = left->upgrade_wanted;
	master->log_is_file = active->config->log_path != NULL;
	log_set_level((enum log_level)active->config->log_level);
	watchdog_set(&master->watchdog, active->config, NULL);
	log_info("upgraded: %s goes on with %zu processes", PACKAGE_STRING, left->row_count);
	return 0;
}
