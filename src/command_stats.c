/* SPDX-License-Identifier: MIT */
/* whitecap stats: the statistics of the admin listener, or of the file where that does not answer.
 */
#include "autoconf.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "command.h"
#include "master.h"
#include "stats_table.h"

static json_t *parse(const char *text, size_t len, const char *where, struct err *err)
{
	json_error_t error;
	json_t *json = json_loadb(text, len, 0, &error);

	if (!json)
		err_add(err, "%s: no statistics: %s", where, error.text);
	return json;
}

static json_t *ask_listener(const char *address, struct err *err)
{
	struct client_answer answer;
	json_t *json = NULL;

	if (client_get(address, "/stats", &answer, err) < 0)
		return NULL;
	if (answer.status == 200)
		json = parse(answer.body, answer.len, address, err);
	else
		err_add(err, "%s: status %d", address, answer.status);
	free(answer.body);
	return json;
}

static json_t *read_file(const char *path, struct err *err)
{
	json_error_t error;
	json_t *json = json_load_file(path, 0, &error);

	if (!json)
		err_add(err, "%s: %s", path, error.text);
	return json;
}

json_t *command_read_stats(const struct config *config, struct err *err)
{
	json_t *json = NULL;

	if (config->admin_listen)
		json = ask_listener(config->admin_listen, err);
	if (!json && config->stats_file)
		json = read_file(config->stats_file, err);
	if (!config->admin_listen && !config->stats_file)
		err_add(err, "the configuration has neither admin.listen nor stats.file");
	return json;
}

/* What a server that was killed has left in its file looks as if it were there. */
static bool is_running(const json_t *stats)
{
	pid_t pid = (pid_t)json_integer_value(json_object_get(stats, "pid"));

	return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

int command_stats(const struct command_options *options)
{
	json_t *json;
	struct err err;
	bool running;

	err_init(&err);
	json = command_read_stats(options->config, &err);
	if (!json) {
		fprintf(stderr, "whitecap: %s\n", err.text);
		return MASTER_FAILED;
	}
	if (options->json || !isatty(STDOUT_FILENO))
		json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	else
		stats_table_print(stdout, json, 0);
	putchar('\n');
	running = is_running(json);
	json_decref(json);
	if (fflush(stdout) != 0)
		fprintf(stderr, "whitecap: standard output: %s\n", strerror(errno));
	else if (!running)
		fprintf(stderr, "whitecap: the server does not run; this is what it has left\n");
	else
		return MASTER_OK;
	return MASTER_FAILED;
}
