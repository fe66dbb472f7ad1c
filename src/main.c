/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "command.h"
#include "config.h"
#include "fault.h"
#include "master.h"
#include "notify.h"
#include "privs.h"
#include "spawn.h"
#include "upgrade.h"
#include "worker.h"

#define DEFAULT_CONFIG SYSCONFDIR "/whitecap/whitecap.json"

static const char synopsis[] = "usage: whitecap [-c FILE] [-o PATH=VALUE]... [-t | -T]\n";

static const char options_usage[] =
	"  -c FILE        configuration (default: " DEFAULT_CONFIG " if it is there)\n"
	"  -o PATH=VALUE  use this value, whatever the file says; may be given again\n"
	"  -t             test the configuration and its handlers\n"
	"  -T             print the configuration in effect\n"
	"  -V, --version  print the version\n"
	"  -h, --help     print this text\n"
	"Commands to a server that runs, which they find by admin.listen, stats.file or pidfile:\n"
	"  stats          print its statistics\n"
	"  top            show them in the terminal, each second anew\n"
	"  reload         put a new configuration and new handlers in place, and say how that went\n"
	"  stop           end it, gracefully\n"
	"  upgrade        put the program on disk in its place\n"
	"  reopen         open its log files anew\n"
	"  -j             stats: as JSON, on a terminal too\n"
	"  -p PID         the master process, where there is no pidfile\n";

enum mode { MODE_SERVE, MODE_TEST, MODE_DUMP, MODE_VERSION, MODE_HELP, MODE_WRONG };

struct arguments {
	enum mode mode;
	const char *path;
	char **overrides; /* ended by NULL */
	size_t override_count;
	struct upgrade_state *left; /* NULL: started anew */
};

/* What is opened later must not get the number of a standard stream. */
static int open_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	return fd < 0 ? -1 : close(fd);
}

static const char *default_config(void)
{
	return access(DEFAULT_CONFIG, F_OK) == 0 ? DEFAULT_CONFIG : NULL;
}

static enum mode mode_of(int option)
{
	static const enum mode modes[] = {
		['t'] = MODE_TEST, ['T'] = MODE_DUMP, ['V'] = MODE_VERSION, ['h'] = MODE_HELP,
		['?'] = MODE_WRONG,
	};

	return modes[option];
}

static void parse(struct arguments *arguments, int argc, char **argv)
{
	static const struct option words[] = {
		{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
	int option;

	while ((option = getopt_long(argc, argv, "+c:o:tTVh", words, NULL)) != -1) {
		if (option == 'c')
			arguments->path = optarg;
		else if (option == 'o')
			arguments->overrides[arguments->override_count++] = optarg;
		else if (arguments->mode == MODE_SERVE || mode_of(option) == MODE_WRONG)
			arguments->mode = mode_of(option);
	}
	if (optind < argc) {
		fprintf(stderr, "whitecap: what is %s?\n", argv[optind]);
		arguments->mode = MODE_WRONG;
	}
	if (!arguments->path)
		arguments->path = default_config();
}

/* The file is read again at each reload, so its path must not depend on anything. */
static char *make_absolute(const char *path)
{
	char *directory, *absolute = NULL;

	if (path[0] == '/')
		return strdup(path);
	directory = getcwd(NULL, 0);
	if (directory && asprintf(&absolute, "%s/%s", directory, path) < 0)
		absolute = NULL;
	free(directory);
	return absolute;
}

static int flush(void)
{
	if (fflush(stdout) == 0)
		return MASTER_OK;
	fprintf(stderr, "whitecap: standard output: %s\n", strerror(errno));
	return MASTER_FAILED;
}

static int dump(const char *path, char *const *overrides)
{
	struct config *config;
	struct err err;

	err_init(&err);
	config = config_load(path, overrides, &err);
	if (!config) {
		fprintf(stderr, "%s\n", err.text);
		return MASTER_CONFIG;
	}
	config_dump(config, stdout);
	config_free(config);
	return flush();
}

static int serve(const struct arguments *arguments, const char *path)
{
	static const struct child_roles roles = {.serve = worker_main, .prove = worker_prove,
					.admin = worker_admin};
	struct master_options options = {.path = path,
					 .overrides = arguments->overrides,
					 .left = arguments->left,
					 .test = arguments->mode == MODE_TEST};

	if (!options.test)
		fault_prepare();
	return master_main(&options, &roles);
}

/* After the test, where it is the proof before an upgrade. */
static int answer(void)
{
	struct err err;

	err_init(&err);
	if (upgrade_answer(&err) == 0)
		return flush();
	fprintf(stderr, "whitecap: %s\n", err.text);
	return MASTER_FAILED;
}

static int act(const struct arguments *arguments)
{
	char *path = NULL;
	int code;

	if (arguments->path && !(path = make_absolute(arguments->path))) {
		fprintf(stderr, "whitecap: %s: %s\n", arguments->path, strerror(errno));
		return MASTER_FAILED;
	}
	if (arguments->mode == MODE_DUMP)
		code = dump(path, arguments->overrides);
	else
		code = serve(arguments, path);
	free(path);
	if (arguments->mode != MODE_TEST || code != MASTER_OK)
		return code;
	printf("%s: ok\n", arguments->path ? arguments->path : "built-in configuration");
	return answer();
}

static void print_usage(FILE *out)
{
	fprintf(out, "%s%s%s", synopsis, command_usage, options_usage);
}

static int run(const struct arguments *arguments)
{
	switch (arguments->mode) {
	case MODE_WRONG:
		print_usage(stderr);
		return EX_USAGE;
	case MODE_HELP:
		print_usage(stdout);
		return flush();
	case MODE_VERSION:
		puts(PACKAGE_STRING);
		return flush();
	default:
		return act(arguments);
	}
}

int main(int argc, char **argv)
{
	struct arguments arguments = {.mode = MODE_SERVE};
	struct err err;
	int code;

	if (argc > 1 && command_is(argv[1]))
		return command_main(argc - 1, argv + 1, default_config());
	privs_hide(); /* first: after an upgrade there are workers from the start on */
	spawn_block_signals(NULL);
	spawn_init(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	notify_take();
	arguments.overrides = calloc((size_t)argc + 1, sizeof *arguments.overrides);
	if (open_standard_fds() < 0 || !arguments.overrides || upgrade_init(argc, argv) < 0) {
		perror("whitecap");
		free(arguments.overrides);
		return MASTER_FAILED;
	}
	err_init(&err);
	arguments.left = upgrade_take(&err);
	if (err.count > 0) {
		fprintf(stderr, "whitecap: %s\n", err.text);
		free(arguments.overrides);
		return MASTER_FAILED;
	}
	parse(&arguments, argc, argv);
	code = run(&arguments);
	upgrade_state_free(arguments.left);
	free(arguments.overrides);
	return code;
}
