/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "system.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static pid_t owner;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
	(void)st;
	(void)type;
	(void)walk;
	return remove(path);
}

/* A child that was forked leaves it. */
static void remove_folder(void)
{
	if (getpid() == owner)
		nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *system_folder(void)
{
	if (folder[0] == '\0') {
		strcpy(folder, "/tmp/whitecap-unit-XXXXXX");
		owner = getpid();
		if (mkdtemp(folder) == NULL || atexit(remove_folder) != 0)
			abort();
	}
	return folder;
}

const char *system_path(const char *name)
{
	static char paths[4][128];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", system_folder(), name);
	return path;
}

void system_write(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
		abort();
}

const char *system_read(const char *path)
{
	static char text[65536];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
	return text;
}
