/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "pidfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 10 };

/* An open file description's lock: a fork shares it, an exec that inherits the fd keeps it. */
static int lock(int fd)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_SETLK, &whole);
}

static bool is_same(const char *path, dev_t dev, ino_t ino)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

static void complain_locked(int fd, const char *path, struct err *err)
{
	char text[32];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	text[strspn(text, "0123456789")] = '\0';
	err_add(err, "pidfile \"%s\": locked by a running server (pid %s)", path,
		text[0] != '\0' ? text : "unknown");
}

static int complain(const char *path, const char *what, struct err *err)
{
	err_add(err, "pidfile \"%s\": %s: %s; expected a file that can be made and written", path,
		what, strerror(errno));
	return -1;
}

static int open_regular(const char *path, struct stat *st, struct err *err)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0644);

	if (fd < 0)
		return complain(path, errno == ELOOP ? "is a symbolic link" : "cannot open", err);
	if (fstat(fd, st) == 0 && S_ISREG(st->st_mode))
		return fd;
	err_add(err, "pidfile \"%s\": is no regular file", path);
	close(fd);
	return -1;
}

/* Opens and locks the file; -1 with a message. */
static int open_locked(const char *path, struct stat *st, struct err *err)
{
	for (int try = 0; try < TRIES; try++) {
		int fd = open_regular(path, st, err);

		if (fd < 0)
			return -1;
		if (lock(fd) != 0) {
			if (errno == EAGAIN || errno == EACCES)
				complain_locked(fd, path, err);
			else
				complain(path, "cannot lock", err);
			close(fd);
			return -1;
		}
		/* A server that was stopping may have removed it between the open and the lock. */
		if (is_same(path, st->st_dev, st->st_ino))
			return fd;
		close(fd);
	}
	err_add(err, "pidfile \"%s\": was replaced again and again", path);
	return -1;
}

static int write_pid(int fd)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
	ssize_t n;

	if (ftruncate(fd, 0) != 0)
		return -1;
	n = pwrite(fd, text, (size_t)len, 0);
	if (n >= 0 && n != len)
		errno = ENOSPC;
	return n == len ? 0 : -1;
}

int pidfile_open(struct pidfile *pidfile, const char *path, struct err *err)
{
	struct stat st;

	*pidfile = (struct pidfile){.fd = -1};
	if (path == NULL)
		return 0;
	pidfile->fd = open_locked(path, &st, err);
	if (pidfile->fd < 0)
		return -1;
	pidfile->path = strdup(path);
	pidfile->dev = st.st_dev;
	pidfile->ino = st.st_ino;
	if (pidfile->path != NULL && write_pid(pidfile->fd) == 0)
		return 0;
	complain(path, "cannot write", err);
	pidfile_close(pidfile);
	return -1;
}

pid_t pidfile_find(const char *path, struct err *err)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char text[32] = "";
	ssize_t n;

	if (fd < 0) {
		err_add(err, "pidfile \"%s\": %s", path, strerror(errno));
		return -1;
	}
	n = pread(fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	if (fcntl(fd, F_OFD_GETLK, &whole) != 0 || whole.l_type == F_UNLCK || atoi(text) <= 0) {
		err_add(err, "pidfile \"%s\": no server holds it", path);
		close(fd);
		return -1;
	}
	close(fd);
	return atoi(text);
}

void pidfile_close(struct pidfile *pidfile)
{
	if (pidfile->path != NULL && is_same(pidfile->path, pidfile->dev, pidfile->ino))
		unlink(pidfile->path);
	free(pidfile->path);
	if (pidfile->fd >= 0)
		close(pidfile->fd);
	*pidfile = (struct pidfile){.fd = -1};
}
