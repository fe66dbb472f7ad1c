/* SPDX-License-Identifier: MIT */
/*
 * whitecap reload, stop, upgrade, reopen: a signal to the master, then its outcome, which the
 * statistics tell.  Without an admin listener or a statistics file only the end of a process can be
 * seen.
 */
#include "autoconf.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "master.h"
#include "pidfile.h"

enum {
	LOOK_MS = 50,
	PATIENCE_MS = 15000,
	COMM_MAX = 15, /* octets of a name that the kernel keeps */
};

/* A server, held by a descriptor, so that its number can't become another process's. */
struct server {
	const struct config *config;
	pid_t pid;
	int fd;
};

static int fail(const char *what)
{
	fprintf(stderr, "whitecap: %s\n", what);
	return MASTER_FAILED;
}

/* Whether it may be a master: workers are called "whitecap: worker 0" and so on.  Where /proc does
 * not tell, it is taken for one. */
static bool is_master(pid_t pid)
{
	char path[64], name[32] = "", title[16] = "";
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
	if (!(file = fopen(path, "r")))
		return true;
	if (fgets(name, sizeof name, file))
		name[strcspn(name, "\n")] = '\0';
	fclose(file);
	snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
	if ((file = fopen(path, "r"))) {
		if (!fgets(title, sizeof title, file))
			title[0] = '\0';
		fclose(file);
	}
	return (strcmp(name, "whitecap") == 0 ||
		strncmp(name, program_invocation_short_name, COMM_MAX) == 0) &&
	       strncmp(title, "whitecap: ", 10) != 0;
}

static int open_server(struct server *server, const struct command_options *options)
{
	struct err err;

	err_init(&err);
	*server = (struct server){.config = options->config, .pid = options->pid, .fd = -1};
	if (!server->pid && !options->config->pidfile)
		return fail("which server? say -p PID, or have a pidfile in the configuration");
	if (!server->pid)
		server->pid = pidfile_find(options->config->pidfile, &err);
	if (server->pid < 0)
		return fail(err.text);
	server->fd = (int)syscall(SYS_pidfd_open, server->pid, 0);
	if (server->fd >= 0 && is_master(server->pid))
		return 0;
	if (server->fd >= 0) {
		fprintf(stderr, "whitecap: process %d is no master of whitecap\n",
			(int)server->pid);
		close(server->fd);
		return MASTER_FAILED;
	}
	fprintf(stderr, "whitecap: process %d: %s\n", (int)server->pid, strerror(errno));
	return MASTER_FAILED;
}

/* Waits for so long at most.  Whether it has ended. */
static bool has_ended(const struct server *server, int ms)
{
	struct pollfd ended = {.fd = server->fd, .events = POLLIN};

	return poll(&ended, 1, ms) > 0;
}

static int send_signal(const struct server *server, int number)
{
	if (syscall(SYS_pidfd_send_signal, server->fd, number, NULL, 0) == 0)
		return 0;
	fprintf(stderr, "whitecap: process %d: %s\n", (int)server->pid, strerror(errno));
	return -1;
}

static json_int_t count(const json_t *stats, const char *group, const char *name)
{
	return json_integer_value(json_object_get(json_object_get(stats, group), name));
}

/* Statistics of this very server; NULL: there are none, or they are another one's. */
static json_t *look(const struct server *server)
{
	struct err err;
	json_t *stats;

	err_init(&err);
	stats = command_read_stats(server->config, &err);
	if (!stats || json_integer_value(json_object_get(stats, "pid")) == server->pid)
		return stats;
	json_decref(stats);
	return NULL;
}

static json_int_t ends(const json_t *stats, const char *group)
{
	return count(stats, group, "count") + count(stats, group, "failed");
}

/* Statistics that tell of one more end of what `group` counts; NULL: none came, with a message. */
static json_t *wait_for(const struct server *server, const char *group, json_int_t before, int ms)
{
	for (; ms > 0; ms -= LOOK_MS) {
		json_t *stats;

		if (has_ended(server, LOOK_MS)) {
			fail("the server has ended; its log says why");
			return NULL;
		}
		stats = look(server);
		if (stats && ends(stats, group) > before)
			return stats;
		json_decref(stats);
	}
	fail("the server has not told the outcome in time; its log may");
	return NULL;
}

static bool is_underway(const json_t *stats)
{
	const char *state = json_string_value(json_object_get(stats, "state"));

	return state && (strcmp(state, "reloading") == 0 || strcmp(state, "starting") == 0);
}

/* Statistics while no reload is on its way, whose end would be taken for that of ours.  NULL: there
 * are none. */
static json_t *look_before(const struct server *server, int ms)
{
	json_t *stats = look(server);

	for (; stats && is_underway(stats) && ms > 0; ms -= LOOK_MS) {
		if (has_ended(server, LOOK_MS))
			break;
		json_decref(stats);
		stats = look(server);
	}
	return stats;
}

/* The signal, and what it led to.  NULL: *code is the exit code. */
static json_t *ask(const struct command_options *options, int number, const char *group, int ms,
		   bool *failed, int *code)
{
	struct server server;
	json_t *before, *after = NULL;

	*code = open_server(&server, options);
	if (*code)
		return NULL;
	*code = MASTER_FAILED;
	before = look_before(&server, ms);
	if (before && strcmp(group, "reload") == 0 && is_underway(before)) {
		fail("another reload is on its way still (a canary?): its outcome would be taken for "
		     "that of this one");
	} else if (send_signal(&server, number) == 0) {
		if (before)
			after = wait_for(&server, group, ends(before, group), ms);
		else
			fail("the signal is sent; its outcome is in the server's log: neither its "
			     "admin listener nor its statistics file answers");
	}
	*failed = after && count(after, group, "failed") > count(before, group, "failed");
	json_decref(before);
	close(server.fd);
	return after;
}

/* A new generation is proven, then started: each may take timeouts.start; and a canary its time. */
static int patience(const struct config *config)
{
	uint64_t ms = 3 * config->start_ms + config->canary_ms + PATIENCE_MS;

	return ms < 3600000 ? (int)ms : 3600000;
}

static int change_generation(const struct command_options *options, int number, const char *what)
{
	bool failed;
	int code;
	json_t *stats = ask(options, number, "reload", patience(options->config), &failed, &code);
	const char *error;

	if (!stats)
		return code;
	error = json_string_value(json_object_get(json_object_get(stats, "reload"), "error"));
	if (failed)
		fprintf(stderr, COMMAND_NOTHING_CHANGED "%s\n", what,
			error ? error : "its reason is in the log");
	else
		printf("%s done: generation %" JSON_INTEGER_FORMAT "\n", what,
		       json_integer_value(json_object_get(stats, "generation")));
	json_decref(stats);
	return failed ? MASTER_CONFIG : MASTER_OK;
}

int command_reload(const struct command_options *options)
{
	return change_generation(options, SIGHUP, "reload");
}

int command_upgrade(const struct command_options *options)
{
	return change_generation(options, SIGUSR2, "upgrade");
}

int command_reopen(const struct command_options *options)
{
	bool failed;
	int code;
	json_t *stats = ask(options, SIGUSR1, "reopen", PATIENCE_MS, &failed, &code);

	if (!stats)
		return code;
	json_decref(stats);
	if (failed)
		return fail("a log file could not be opened anew; the log says which");
	puts("log files reopened");
	return MASTER_OK;
}

int command_stop(const struct command_options *options)
{
	struct server server;
	int code = open_server(&server, options);
	uint64_t ms = options->config->drain_delay_ms + options->config->drain_ms + PATIENCE_MS;

	if (code)
		return code;
	code = MASTER_FAILED;
	if (send_signal(&server, SIGTERM) == 0) {
		if (has_ended(&server, ms < 3600000 ? (int)ms : 3600000)) {
			printf("stopped: process %d has ended\n", (int)server.pid);
			code = MASTER_OK;
		} else {
			fail("the server has not ended in time");
		}
	}
	close(server.fd);
	return code;
}
