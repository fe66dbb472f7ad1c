/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "passed.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"

enum { FIRST_FD = 3 };

/* The number that a text is, at most `max`; -1 where it is none. */
static long to_number(const char *text, long max)
{
	char *end;
	long number;

	if (text == NULL || text[0] < '0' || text[0] > '9')
		return -1;
	number = strtol(text, &end, 10);
	return *end == '\0' && number <= max ? number : -1;
}

/*
 * The next name of a list that is separated by colons; sd_listen_fds(3) calls those without a name
 * "unknown".
 */
static char *take_name(const char **names)
{
	size_t len = *names == NULL ? 0 : strcspn(*names, ":");
	char *name = len == 0 ? strdup("unknown") : strndup(*names, len);

	if (*names != NULL)
		*names = (*names)[len] == ':' ? *names + len + 1 : NULL;
	return name;
}

static void take_fds(struct passed *passed, size_t count, const char *names)
{
	passed->fds = calloc(count, sizeof(*passed->fds));
	for (size_t i = 0; i < count && passed->fds != NULL; i++) {
		int fd = FIRST_FD + (int)i;
		char *name = take_name(&names);

		if (name == NULL || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
			free(name);
			continue;
		}
		passed->fds[passed->count++] = (struct passed_fd){.fd = fd, .name = name};
	}
}

void passed_take(struct passed *passed)
{
	char *pid = environment_take("LISTEN_PID"), *fds = environment_take("LISTEN_FDS");
	char *names = environment_take("LISTEN_FDNAMES");
	long count = to_number(fds, sysconf(_SC_OPEN_MAX));

	*passed = (struct passed){0};
	if (count > 0 && to_number(pid, getpid()) == getpid())
		take_fds(passed, (size_t)count, names);
	free(pid);
	free(fds);
	free(names);
}

int passed_add(struct passed *passed, int fd, const char *name)
{
	struct passed_fd *fds = realloc(passed->fds, (passed->count + 1) * sizeof(*fds));
	char *copy = strdup(name);

	if (fds != NULL)
		passed->fds = fds;
	if (fds == NULL || copy == NULL) {
		free(copy);
		return -1;
	}
	fds[passed->count++] = (struct passed_fd){.fd = fd, .name = copy};
	return 0;
}

int passed_pick(struct passed *passed, const char *prefix, char **name)
{
	for (size_t i = 0; i < passed->count; i++) {
		struct passed_fd one = passed->fds[i];

		if (strncmp(one.name, prefix, strlen(prefix)) != 0)
			continue;
		passed->count--;
		memmove(&passed->fds[i], &passed->fds[i + 1],
			(passed->count - i) * sizeof(*passed->fds));
		*name = one.name;
		return one.fd;
	}
	return -1;
}

void passed_free(struct passed *passed)
{
	for (size_t i = 0; i < passed->count; i++)
		free(passed->fds[i].name);
	free(passed->fds);
	*passed = (struct passed){0};
}
