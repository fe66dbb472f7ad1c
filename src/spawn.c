/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "spawn.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LAST_FD = 0x7fffffff };

static struct {
	char *start;
	size_t size;
} title_room;

static void set_title(const char *title)
{
	if (title_room.size == 0)
		return;
	memset(title_room.start, 0, title_room.size);
	snprintf(title_room.start, title_room.size, "whitecap: %s", title);
}

/* Those stay as they are: blocked, a sanitizer or a fault handler would never see them. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

static bool is_fault(int signal_number)
{
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		if (faults[i] == signal_number)
			return true;
	return false;
}

void spawn_block_signals(sigset_t *before)
{
	sigset_t set;

	sigfillset(&set);
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		sigdelset(&set, faults[i]);
	sigprocmask(SIG_SETMASK, &set, before);
}

/* To set SIGCHLD to what it is would lose one that is pending. */
static void reset_signals(void)
{
	struct sigaction action;

	for (int i = 1; i <= SIGRTMAX; i++)
		if (!is_fault(i) && sigaction(i, NULL, &action) == 0 &&
		    action.sa_handler == SIG_IGN)
			signal(i, SIG_DFL);
}

void spawn_init(int argc, char **argv)
{
	char *end = argv[0];

	/* The kernel puts the arguments one after the other. */
	for (int i = 0; i < argc && argv[i] == end; i++)
		end += strlen(argv[i]) + 1;
	reset_signals();
	title_room.start = argv[0];
	title_room.size = (size_t)(end - argv[0]);
}

static void disregard(int signal_number)
{
	(void)signal_number;
}

/*
 * What is meant for the master, also when sent to the whole process group; or an error of some
 * call.  Caught rather than ignored: what is ignored stays so in the commands that a handler
 * starts.  All others are at their defaults, since the master has stopped its watchers.
 */
static void disregard_signals(void)
{
	static const int disregarded[] = {SIGHUP,  SIGINT,  SIGUSR1, SIGUSR2,
					  SIGTTIN, SIGTTOU, SIGPIPE, SIGXFSZ};
	struct sigaction action = {.sa_handler = disregard, .sa_flags = SA_RESTART};

	for (size_t i = 0; i < sizeof disregarded / sizeof *disregarded; i++)
		sigaction(disregarded[i], &action, NULL);
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Linux before 5.9 has no close_range. */
static void close_listed(unsigned first, unsigned last)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;

	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		unsigned fd = (unsigned)strtoul(entry->d_name, NULL, 10);

		if (entry->d_name[0] != '.' && fd >= first && fd <= last &&
		    fd != (unsigned)dirfd(directory))
			close((int)fd);
	}
	closedir(directory);
}

static void close_gap(unsigned first, unsigned last)
{
	if (first <= last && syscall(SYS_close_range, first, last, 0) < 0)
		close_listed(first, last);
}

static void close_others(int *keep, size_t count)
{
	unsigned first = 3;

	qsort(keep, count, sizeof *keep, by_number);
	for (size_t i = 0; i < count; i++) {
		if (keep[i] < (int)first)
			continue;
		close_gap(first, (unsigned)keep[i] - 1);
		first = (unsigned)keep[i] + 1;
	}
	close_gap(first, LAST_FD);
}

static _Noreturn void become(const struct spawn *spawn, int *keep)
{
	spawn->forget(spawn->data);
	disregard_signals();
	close_others(keep, spawn->keep_count);
	free(keep);
	set_title(spawn->title);
	exit(spawn->run(spawn->data));
}

pid_t spawn_child(const struct spawn *spawn)
{
	int *keep = malloc((spawn->keep_count + 1) * sizeof *keep);
	sigset_t before;
	pid_t pid;
	int error;

	if (!keep)
		return -1;
	memcpy(keep, spawn->keep, spawn->keep_count * sizeof *keep);
	spawn_block_signals(&before);
	pid = fork();
	if (pid == 0)
		become(spawn, keep);
	error = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(keep);
	errno = error;
	return pid;
}
