/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "stats_source.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "stats_json.h"

enum { PROC_TEXT_MAX = 1024, STAT_UTIME = 11, STAT_RSS = 21 };

/* /proc/PID/stat; false: it is gone, or not for us to see. */
static bool read_stat(int32_t pid, char text[PROC_TEXT_MAX])
{
	char path[32];
	ssize_t len;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = read(fd, text, PROC_TEXT_MAX - 1);
	close(fd);
	if (len <= 0)
		return false;
	text[len] = '\0';
	return true;
}

/* Fields are counted from the state on: the name before it may hold blanks and parentheses. */
static void look_at_process(struct stats_usage *usage, int32_t pid)
{
	char text[PROC_TEXT_MAX], *word, *rest;
	unsigned long long ticks = 0, pages = 0;

	if (pid <= 0 || !read_stat(pid, text) || !(rest = strrchr(text, ')')))
		return;
	rest++;
	for (int i = 0; (word = strtok_r(rest, " ", &rest)); i++) {
		if (i == STAT_UTIME || i == STAT_UTIME + 1)
			ticks += strtoull(word, NULL, 10);
		if (i == STAT_RSS)
			pages = strtoull(word, NULL, 10);
	}
	usage->known = true;
	usage->cpu_s = (double)ticks / (double)sysconf(_SC_CLK_TCK);
	usage->memory = pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static const char *bound_address(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof sa;
	char text[ADDRESS_TEXT_MAX];

	if (fd < 0 || getsockname(fd, (struct sockaddr *)&sa, &len) != 0)
		return NULL;
	address_format((const struct sockaddr *)&sa, len, text);
	return strdup(text);
}

/* On a listening socket these two say how many connections wait, and how many may. */
static void look_at_queue(struct stats_listener *listener, int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof info;

	if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
		return;
	listener->known = true;
	listener->queue = info.tcpi_unacked;
	listener->backlog = info.tcpi_sacked;
}

static int look_at_listener(struct stats_listener *listener, const struct config_listen *config,
			    int fd)
{
	listener->backlog = (uint32_t)config->backlog;
	listener->address = bound_address(fd);
	if (!listener->address)
		listener->address = strdup(config->address);
	look_at_queue(listener, fd);
	return listener->address ? 0 : -1;
}

int stats_source_open(struct stats *stats, const struct scoreboard *board,
		      const struct config *config, const int *fds, struct stats_window *windows)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	*stats = (struct stats){
		.board = board,
		.config = config,
		.now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
		.listeners = calloc(config->listen_count, sizeof *stats->listeners),
		.usage = calloc(SCOREBOARD_SLOTS, sizeof *stats->usage),
		.windows = windows,
	};
	if (!stats->listeners || !stats->usage)
		goto fail;
	scoreboard_get_status(board, &stats->status);
	for (size_t i = 0; i < config->listen_count; i++)
		if (look_at_listener(&stats->listeners[i], &config->listens[i], fds ? fds[i] : -1) < 0)
			goto fail;
	for (size_t i = 0; i < SCOREBOARD_SLOTS; i++)
		if (stats_is_shown(&board->slot[i]))
			look_at_process(&stats->usage[i], board->slot[i].pid);
	return 0;
fail:
	stats_source_close(stats);
	errno = ENOMEM;
	return -1;
}

void stats_source_close(struct stats *stats)
{
	for (size_t i = 0; stats->listeners && i < stats->config->listen_count; i++)
		free((char *)stats->listeners[i].address);
	free(stats->listeners);
	free(stats->usage);
	*stats = (struct stats){0};
}

char *stats_source_text(const struct stats *stats, void (*write)(FILE *, const struct stats *),
			size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);
	bool failed;

	if (!out)
		return NULL;
	write(out, stats);
	failed = ferror(out) != 0;
	if (fclose(out) != 0 || failed) {
		free(text);
		errno = ENOMEM;
		return NULL;
	}
	return text;
}

/* No word of "stats" in its name: who waits for the file with a pattern does not meet this one. */
static char *temporary_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *temporary;

	if (asprintf(&temporary, "%.*s.whitecap-%d.tmp", slash ? (int)(slash - path + 1) : 0, path,
		     (int)getpid()) < 0)
		return NULL;
	return temporary;
}

static int write_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno != EINTR)
			return -1;
		if (n > 0) {
			text += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static int write_new(const char *path, unsigned mode, const char *text, size_t len)
{
	int fd, result;

	if (unlink(path) != 0 && errno != ENOENT)
		return -1;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	result = write_all(fd, text, len) == 0 && fchmod(fd, (mode_t)mode) == 0 ? 0 : -1;
	return close(fd) == 0 ? result : -1;
}

int stats_source_write(const struct stats *stats, const char *path, unsigned mode)
{
	size_t len;
	char *text = stats_source_text(stats, stats_json_write, &len);
	char *temporary = temporary_path(path);
	int result = -1, error;

	if (text && temporary && write_new(temporary, mode, text, len) == 0)
		result = rename(temporary, path);
	error = errno;
	if (result < 0 && temporary)
		unlink(temporary);
	free(temporary);
	free(text);
	errno = error;
	return result;
}
