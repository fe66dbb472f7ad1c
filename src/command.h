/* SPDX-License-Identifier: MIT */
/* The sub-commands: what an operator asks of a server that runs. */
#ifndef COMMAND_H
#define COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "config.h"

struct command_options {
	const struct config *config;
	bool json; /* -j */
	pid_t pid; /* -p; 0: by the pidfile */
};

/* Whether that word is a sub-command. */
bool command_is(const char *word);

/* argv[0] is the word.  `default_path` of the configuration, NULL: there is none.  The exit code.
 */
int command_main(int argc, char **argv, const char *default_path);

/* Lines for the usage text. */
extern const char command_usage[];

/* The commands, each in a file of its own.  They return the exit code. */
int command_stats(const struct command_options *options);
int command_top(const struct command_options *options);
int command_reload(const struct command_options *options);
int command_stop(const struct command_options *options);
int command_upgrade(const struct command_options *options);
int command_reopen(const struct command_options *options);

/*
 * The statistics of the server: from its admin listener, else from its file; json_decref() it.
 * NULL with messages.
 */
json_t *command_read_stats(const struct config *config, struct err *err);

/* Takes the name of the command; the reason follows. */
#define COMMAND_NOTHING_CHANGED "whitecap: the %s failed, nothing has changed:\n"

#endif
