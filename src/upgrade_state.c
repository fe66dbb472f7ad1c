/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "upgrade_state.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

static const char *const counter_names[COUNTER_COUNT] = {
#define COUNTER(field, path, doc) [COUNTER_##field] = #field,
#include "counters.def"
#undef COUNTER
};

struct upgrade_state *upgrade_state_new(void)
{
	struct upgrade_state *state = calloc(1, sizeof *state);

	if (state)
		state->scoreboard = state->give = state->take = state->log = state->access_log =
			state->pidfile.fd = -1;
	return state;
}

void upgrade_state_free(struct upgrade_state *state)
{
	if (!state)
		return;
	for (size_t i = 0; i < state->listener_count; i++)
		free(state->listeners[i].address);
	for (size_t i = 0; i < state->passed_count; i++)
		free(state->passed[i].name);
	free(state->listeners);
	free(state->passed);
	free(state->pidfile.path);
	free(state->program);
	free(state->config);
	free(state);
}

/* Writing.  A part that cannot be made is NULL, and then the whole is. */

/* Messages may have been cut within a character, which JSON does not take. */
static json_t *message(const char *text)
{
	json_t *json = json_string(text);
	char *copy;

	if (json || !(copy = strdup(text)))
		return json;
	for (char *at = copy; *at; at++)
		if ((unsigned char)*at >= 0x80)
			*at = '?';
	json = json_string(copy);
	free(copy);
	return json;
}

static json_t *list(const struct upgrade_state *state, size_t count,
		    json_t *(*one)(const struct upgrade_state *state, size_t i))
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < count; i++)
		if (json_array_append_new(array, one(state, i)) < 0) {
			json_decref(array);
			return NULL;
		}
	return array;
}

static json_t *write_row(const struct upgrade_state *state, size_t i)
{
	const struct upgrade_row *row = &state->rows[i];

	return json_pack("{s:i, s:i, s:i, s:s, s:b, s:i, s:i, s:I, s:I}", "slot", (int)row->slot,
			 "number", (int)row->number, "generation", (int)row->generation, "state",
			 slot_state_name(row->state), "was_ready", (int)row->was_ready, "pid",
			 (int)row->pid, "ipc", row->ipc, "started_ns", (json_int_t)row->started_ns,
			 "left_ms", (json_int_t)row->left_ms);
}

static json_t *write_history(const struct upgrade_state *state, size_t i)
{
	const struct upgrade_history *history = &state->histories[i];

	return json_pack("{s:i, s:I, s:o}", "number", (int)history->number, "restarts",
			 (json_int_t)history->restarts, "last_exit", message(history->last_exit));
}

static json_t *write_listener(const struct upgrade_state *state, size_t i)
{
	const struct upgrade_listener *listener = &state->listeners[i];

	return json_pack("{s:s, s:i, s:b, s:b, s:I, s:I}", "address", listener->address, "fd",
			 listener->fd, "admin", (int)listener->admin, "passed",
			 (int)listener->passed, "dev", (json_int_t)listener->dev, "ino",
			 (json_int_t)listener->ino);
}

static json_t *write_passed(const struct upgrade_state *state, size_t i)
{
	return json_pack("{s:s, s:i}", "name", state->passed[i].name, "fd", state->passed[i].fd);
}

static json_t *write_pidfile(const struct upgrade_state *state)
{
	if (!state->pidfile.path)
		return json_null();
	return json_pack("{s:s, s:i, s:I, s:I}", "path", state->pidfile.path, "fd",
			 state->pidfile.fd, "dev", (json_int_t)state->pidfile.dev, "ino",
			 (json_int_t)state->pidfile.ino);
}

static json_t *write_fds(const struct upgrade_state *state)
{
	return json_pack("{s:i, s:i, s:i, s:i, s:i}", "scoreboard", state->scoreboard, "give",
			 state->give, "take", state->take, "log", state->log, "access_log",
			 state->access_log);
}

static json_t *write_time(const struct timespec *time)
{
	return json_pack("[I, I]", (json_int_t)time->tv_sec, (json_int_t)time->tv_nsec);
}

static json_t *write_status(const struct master_status *status)
{
	return json_pack("{s:i, s:i, s:o, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "generation",
			 (int)status->generation, "workers", (int)status->workers, "started",
			 write_time(&status->started), "started_ns",
			 (json_int_t)status->started_ns, "reload_count",
			 (json_int_t)status->reload_count, "reload_failed",
			 (json_int_t)status->reload_failed, "reopen_count",
			 (json_int_t)status->reopen_count, "reopen_failed",
			 (json_int_t)status->reopen_failed, "reload_last",
			 write_time(&status->reload_last), "reload_error",
			 message(status->reload_error));
}

static json_t *write_totals(const struct upgrade_state *state)
{
	json_t *totals = json_object();

	for (size_t i = 0; totals && i < COUNTER_COUNT; i++)
		if (json_object_set_new(totals, counter_names[i],
					json_integer((json_int_t)state->total[i])) < 0) {
			json_decref(totals);
			return NULL;
		}
	return totals;
}

char *upgrade_state_write(const struct upgrade_state *state)
{
	json_t *root = json_pack(
		"{s:i, s:i, s:s, s:s, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
		(int)UPGRADE_STATE_VERSION, "pid", (int)state->pid, "program", state->program,
		"config", state->config, "fds", write_fds(state), "pidfile", write_pidfile(state),
		"upgrade_wanted", (int)state->upgrade_wanted, "status",
		write_status(&state->status), "total", write_totals(state), "rows",
		list(state, state->row_count, write_row), "history",
		list(state, state->history_count, write_history), "listeners",
		list(state, state->listener_count, write_listener), "passed",
		list(state, state->passed_count, write_passed));
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	return text;
}

/* Reading: 0, or -1 with what is wrong in *error. */

static int complain(json_error_t *error, const char *text)
{
	snprintf(error->text, sizeof error->text, "%s", text);
	return -1;
}

static int read_slot_state(const char *name, enum slot_state *state)
{
	for (int i = 0; i < SLOT_STATE_COUNT; i++)
		if (strcmp(slot_state_name((enum slot_state)i), name) == 0) {
			*state = (enum slot_state)i;
			return 0;
		}
	return -1;
}

static int read_row(struct upgrade_state *state, json_t *json, json_error_t *error)
{
	struct upgrade_row *row = &state->rows[state->row_count];
	int slot, number, generation, was_ready, pid;
	json_int_t started_ns, left_ms;
	const char *name;

	if (state->row_count == SCOREBOARD_SLOTS)
		return complain(error, "too many rows");
	if (json_unpack_ex(json, error, 0, "{s:i, s:i, s:i, s:s, s:b, s:i, s:i, s:I, s:I}", "slot",
			   &slot, "number", &number, "generation", &generation, "state", &name,
			   "was_ready", &was_ready, "pid", &pid, "ipc", &row->ipc, "started_ns",
			   &started_ns, "left_ms", &left_ms) < 0)
		return -1;
	if (slot < 1 || slot >= SCOREBOARD_SLOTS || number < 0 || number >= SCOREBOARD_SLOTS ||
	    generation < 0 || pid < 1 || row->ipc < 0 || read_slot_state(name, &row->state) < 0)
		return complain(error, "a row that can't be");
	row->slot = (unsigned)slot;
	row->number = (unsigned)number;
	row->generation = (unsigned)generation;
	row->was_ready = was_ready;
	row->pid = pid;
	row->started_ns = (uint64_t)started_ns;
	row->left_ms = (uint64_t)left_ms;
	state->row_count++;
	return 0;
}

static int read_history(struct upgrade_state *state, json_t *json, json_error_t *error)
{
	struct upgrade_history *history = &state->histories[state->history_count];
	const char *last_exit;
	json_int_t restarts;
	int number;

	if (state->history_count == SCOREBOARD_SLOTS)
		return complain(error, "too much history");
	if (json_unpack_ex(json, error, 0, "{s:i, s:I, s:s}", "number", &number, "restarts",
			   &restarts, "last_exit", &last_exit) < 0)
		return -1;
	if (number < 0 || number >= SCOREBOARD_SLOTS)
		return complain(error, "a history that can't be");
	history->number = (unsigned)number;
	history->restarts = (uint64_t)restarts;
	snprintf(history->last_exit, sizeof history->last_exit, "%s", last_exit);
	state->history_count++;
	return 0;
}

static int read_listener(struct upgrade_state *state, json_t *json, json_error_t *error)
{
	struct upgrade_listener *listener = &state->listeners[state->listener_count];
	json_int_t dev, ino;
	const char *address;
	int admin, passed;

	if (json_unpack_ex(json, error, 0, "{s:s, s:i, s:b, s:b, s:I, s:I}", "address", &address,
			   "fd", &listener->fd, "admin", &admin, "passed", &passed, "dev", &dev,
			   "ino", &ino) < 0)
		return -1;
	if (listener->fd < 0 || !(listener->address = strdup(address)))
		return complain(error, "a listener that can't be");
	listener->admin = admin;
	listener->passed = passed;
	listener->dev = (uint64_t)dev;
	listener->ino = (uint64_t)ino;
	state->listener_count++;
	return 0;
}

static int read_passed(struct upgrade_state *state, json_t *json, json_error_t *error)
{
	struct upgrade_passed *passed = &state->passed[state->passed_count];
	const char *name;

	if (json_unpack_ex(json, error, 0, "{s:s, s:i}", "name", &name, "fd", &passed->fd) < 0)
		return -1;
	if (passed->fd < 0 || !(passed->name = strdup(name)))
		return complain(error, "a passed socket that can't be");
	state->passed_count++;
	return 0;
}

static int read_lists(struct upgrade_state *state, json_t *root, json_error_t *error)
{
	static const struct {
		const char *key;
		int (*read)(struct upgrade_state *state, json_t *json, json_error_t *error);
	} lists[] = {
		{"rows", read_row},
		{"history", read_history},
		{"listeners", read_listener},
		{"passed", read_passed},
	};

	state->listeners = calloc(json_array_size(json_object_get(root, "listeners")) + 1,
				  sizeof *state->listeners);
	state->passed = calloc(json_array_size(json_object_get(root, "passed")) + 1,
			       sizeof *state->passed);
	if (!state->listeners || !state->passed)
		return complain(error, "out of memory");
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		json_t *array = json_object_get(root, lists[i].key);

		if (!json_is_array(array))
			return complain(error, "a list is missing");
		for (size_t j = 0; j < json_array_size(array); j++)
			if (lists[i].read(state, json_array_get(array, j), error) < 0)
				return -1;
	}
	return 0;
}

static int read_pidfile(struct upgrade_state *state, json_t *json, json_error_t *error)
{
	json_int_t dev, ino;
	const char *path;

	if (json_is_null(json))
		return 0;
	if (json_unpack_ex(json, error, 0, "{s:s, s:i, s:I, s:I}", "path", &path, "fd",
			   &state->pidfile.fd, "dev", &dev, "ino", &ino) < 0)
		return -1;
	state->pidfile.dev = (uint64_t)dev;
	state->pidfile.ino = (uint64_t)ino;
	state->pidfile.path = strdup(path);
	return state->pidfile.path ? 0 : complain(error, "out of memory");
}

static int read_fds(struct upgrade_state *state, json_t *json, json_error_t *error)
{
	if (json_unpack_ex(json, error, 0, "{s:i, s:i, s:i, s:i, s:i}", "scoreboard",
			   &state->scoreboard, "give", &state->give, "take", &state->take, "log",
			   &state->log, "access_log", &state->access_log) < 0)
		return -1;
	if (state->scoreboard < 0 || state->give < 0 || state->take < 0)
		return complain(error, "a descriptor is missing");
	return 0;
}

static int read_status(struct master_status *status, json_t *json, json_error_t *error)
{
	json_int_t started[2], last[2], started_ns, count, failed, reopened, reopen_failed;
	int generation, workers;
	const char *text;

	if (json_unpack_ex(json, error, 0,
			   "{s:i, s:i, s:[I, I], s:I, s:I, s:I, s:I, s:I, s:[I, I], s:s}",
			   "generation", &generation, "workers", &workers, "started", &started[0],
			   &started[1], "started_ns", &started_ns, "reload_count", &count,
			   "reload_failed", &failed, "reopen_count", &reopened, "reopen_failed",
			   &reopen_failed, "reload_last", &last[0], &last[1], "reload_error",
			   &text) < 0)
		return -1;
	if (generation < 1 || workers < 1)
		return complain(error, "a server that does not serve");
	*status = (struct master_status){
		.state = MASTER_SERVING,
		.generation = (unsigned)generation,
		.workers = (unsigned)workers,
		.started = {.tv_sec = (time_t)started[0], .tv_nsec = (long)started[1]},
		.started_ns = (uint64_t)started_ns,
		.reload_count = (uint64_t)count,
		.reload_failed = (uint64_t)failed,
		.reopen_count = (uint64_t)reopened,
		.reopen_failed = (uint64_t)reopen_failed,
		.reload_last = {.tv_sec = (time_t)last[0], .tv_nsec = (long)last[1]},
	};
	snprintf(status->reload_error, sizeof status->reload_error, "%s", text);
	return 0;
}

/* By name: a program that counts something else too, or no more, has another order. */
static void read_totals(struct upgrade_state *state, json_t *json)
{
	for (size_t i = 0; i < COUNTER_COUNT; i++)
		state->total[i] =
			(uint64_t)json_integer_value(json_object_get(json, counter_names[i]));
}

static int read_root(struct upgrade_state *state, json_t *root, json_error_t *error)
{
	const char *program, *config;
	int version, pid, wanted;
	json_t *fds, *pidfile, *status, *total;

	if (json_unpack_ex(root, error, 0, "{s:i}", "version", &version) < 0)
		return -1;
	if (version < 1 || version > UPGRADE_STATE_VERSION)
		return complain(error, "another version");
	if (json_unpack_ex(root, error, 0, "{s:i, s:s, s:s, s:o, s:o, s:b, s:o, s:o}", "pid", &pid,
			   "program", &program, "config", &config, "fds", &fds, "pidfile", &pidfile,
			   "upgrade_wanted", &wanted, "status", &status, "total", &total) < 0)
		return -1;
	state->pid = pid;
	state->upgrade_wanted = wanted;
	state->program = strdup(program);
	state->config = strdup(config);
	if (!state->program || !state->config)
		return complain(error, "out of memory");
	if (read_fds(state, fds, error) < 0 || read_pidfile(state, pidfile, error) < 0 ||
	    read_status(&state->status, status, error) < 0)
		return -1;
	state->status.pid = pid;
	read_totals(state, total);
	return read_lists(state, root, error);
}

struct upgrade_state *upgrade_state_read(const char *text, size_t len, struct err *err)
{
	struct upgrade_state *state = upgrade_state_new();
	json_error_t error = {.text = "out of memory"};
	json_t *root = memory_parse_json(text, len, JSON_REJECT_DUPLICATES, &error);

	if (!root || !state || read_root(state, root, &error) < 0) {
		err_add(err, "the state of the server is not understood: %s", error.text);
		upgrade_state_free(state);
		state = NULL;
	}
	json_decref(root);
	return state;
}

static void visit(int fd, void (*act)(int fd))
{
	if (fd >= 0)
		act(fd);
}

void upgrade_state_each_fd(const struct upgrade_state *state, void (*act)(int fd))
{
	const int fds[] = {state->scoreboard, state->give,       state->take,
			   state->log,        state->access_log, state->pidfile.fd};

	for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
		visit(fds[i], act);
	for (size_t i = 0; i < state->row_count; i++)
		visit(state->rows[i].ipc, act);
	for (size_t i = 0; i < state->listener_count; i++)
		visit(state->listeners[i].fd, act);
	for (size_t i = 0; i < state->passed_count; i++)
		visit(state->passed[i].fd, act);
}
