/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "master.h"
#include "number.h"

static const struct command {
	const char *name;
	int (*run)(const struct command_options *options);
	bool changes;     /* the server's generation: not with a configuration that is no good */
	bool only_signals; /* with -p that configuration does not matter */
} commands[] = {
	{"stats", command_stats, false, false},    {"top", command_top, false, false},
	{"reload", command_reload, true, false},   {"stop", command_stop, false, true},
	{"upgrade", command_upgrade, true, false}, {"reopen", command_reopen, false, true},
};

const char command_usage[] =
	"       whitecap stats [-c FILE] [-o PATH=VALUE]... [-j]\n"
	"       whitecap top [-c FILE] [-o PATH=VALUE]...\n"
	"       whitecap reload | stop | upgrade | reopen [-c FILE] [-o PATH=VALUE]... [-p PID]\n";

static const struct command *find(const char *word)
{
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		if (strcmp(commands[i].name, word) == 0)
			return &commands[i];
	return NULL;
}

bool command_is(const char *word)
{
	return find(word) != NULL;
}

struct arguments {
	const char *path;
	char **overrides; /* ended by NULL */
	size_t override_count;
	struct command_options options;
};

static int wrong(const char *what)
{
	if (what)
		fprintf(stderr, "whitecap: %s\n", what);
	fprintf(stderr, "usage: %s", command_usage + strlen("       "));
	return EX_USAGE;
}

static int parse_pid(struct command_options *options, const char *text)
{
	uint64_t pid;

	if (!number_parse_count(text, &pid) || pid < 1 || pid > INT32_MAX)
		return wrong("-p: expected the process ID of a master");
	options->pid = (pid_t)pid;
	return 0;
}

/* 0, or the exit code. */
static int parse(struct arguments *arguments, int argc, char **argv)
{
	int option, code = 0;

	while (!code && (option = getopt(argc, argv, "+c:o:jp:")) != -1) {
		if (option == 'c')
			arguments->path = optarg;
		else if (option == 'o')
			arguments->overrides[arguments->override_count++] = optarg;
		else if (option == 'j')
			arguments->options.json = true;
		else if (option == 'p')
			code = parse_pid(&arguments->options, optarg);
		else
			code = wrong(NULL);
	}
	return code || optind == argc ? code : wrong("a sub-command takes options only");
}

/* Without the server's configuration it is not known where it tells of itself, nor how long it may
 * take. */
static int run_blindly(const struct command *command, struct arguments *arguments)
{
	static const struct config unknown = {.drain_ms = 3600000};

	arguments->options.config = &unknown;
	return command->run(&arguments->options);
}

static int run(const struct command *command, struct arguments *arguments)
{
	struct config *config;
	struct err err;
	int code;

	err_init(&err);
	config = config_load(arguments->path, arguments->overrides, &err);
	if (!config) {
		if (command->changes)
			fprintf(stderr, COMMAND_NOTHING_CHANGED, command->name);
		fprintf(stderr, "%s\n", err.text);
		return command->only_signals && arguments->options.pid
			       ? run_blindly(command, arguments)
			       : MASTER_CONFIG;
	}
	arguments->options.config = config;
	code = command->run(&arguments->options);
	config_free(config);
	return code;
}

int command_main(int argc, char **argv, const char *default_path)
{
	struct arguments arguments = {.path = default_path};
	const struct command *command = find(argv[0]);
	int code;

	if (!command)
		return wrong(NULL);
	arguments.overrides = calloc((size_t)argc + 1, sizeof *arguments.overrides);
	if (!arguments.overrides) {
		perror("whitecap");
		return MASTER_FAILED;
	}
	code = parse(&arguments, argc, argv);
	if (!code)
		code = run(command, &arguments);
	free(arguments.overrides);
	return code;
}
