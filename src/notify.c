/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "environment.h"
#include "fdpass.h"

enum {
	MESSAGE_MAX = 4096,
	FULL_MS = 100, /* for which a full queue of the manager's may hold up the master */
};

enum variable { SOCKET, WATCHDOG_USEC, WATCHDOG_PID, FDSTORE, OWN_FDSTORE, VARIABLES };

static const char *const names[VARIABLES] = {
	[SOCKET] = "NOTIFY_SOCKET",         [WATCHDOG_USEC] = "WATCHDOG_USEC",
	[WATCHDOG_PID] = "WATCHDOG_PID",    [FDSTORE] = "FDSTORE",
	[OWN_FDSTORE] = "WHITECAP_FDSTORE",
};

static char *values[VARIABLES]; /* NULL: not set */

void notify_take(void)
{
	for (int i = 0; i < VARIABLES; i++) {
		free(values[i]);
		values[i] = environment_take(names[i]);
	}
}

void notify_leave(void)
{
	for (int i = 0; i < VARIABLES; i++)
		if (values[i])
			setenv(names[i], values[i], 1);
}

static long long number(enum variable variable)
{
	return values[variable] ? strtoll(values[variable], NULL, 10) : 0;
}

bool notify_is_on(void)
{
	return values[SOCKET] && (values[SOCKET][0] == '/' || values[SOCKET][0] == '@');
}

uint64_t notify_watchdog_us(void)
{
	bool ours = !values[WATCHDOG_PID] || number(WATCHDOG_PID) == getpid();
	long long us = number(WATCHDOG_USEC);

	return notify_is_on() && ours && us > 0 ? (uint64_t)us : 0;
}

bool notify_has_store(void)
{
	return notify_is_on() && (number(FDSTORE) > 0 || number(OWN_FDSTORE) > 0);
}

/* Anew for each message: the manager may have bound another socket there.  "@" is an abstract name.
 */
static int open_socket(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(values[SOCKET]);
	int fd;

	if (len >= sizeof address.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(address.sun_path, values[SOCKET], len);
	if (address.sun_path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (const struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) == 0)
		return fd;
	close(fd);
	return -1;
}

static int send_text(int fd, const char *text, size_t len)
{
	const struct iovec iov = {(char *)(uintptr_t)text, len};
	int s = open_socket(), error;
	ssize_t sent = -1;

	if (s < 0)
		return -1;
	for (int i = 0; i < 2 && sent < 0; i++) {
		struct pollfd room = {.fd = s, .events = POLLOUT};

		if (i > 0 && (errno != EAGAIN || poll(&room, 1, FULL_MS) <= 0))
			break;
		sent = fdpass_send(s, &iov, 1, &fd, fd >= 0);
	}
	error = errno;
	close(s);
	errno = error;
	return sent < 0 ? -1 : 0;
}

int notify_send(int fd, const char *format, ...)
{
	char text[MESSAGE_MAX];
	va_list arguments;
	int len;

	if (!notify_is_on())
		return 0;
	va_start(arguments, format);
	len = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (len < 0)
		return -1;
	return send_text(fd, text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
}

/* The manager closes the end of a pipe that comes with BARRIER=1 when it gets to that message. */
void notify_flush(int ms)
{
	int ends[2];

	if (!notify_is_on() || pipe2(ends, O_CLOEXEC) < 0)
		return;
	if (notify_send(ends[1], "BARRIER=1") == 0) {
		struct pollfd closed = {.fd = ends[0]};

		close(ends[1]);
		poll(&closed, 1, ms);
	} else {
		close(ends[1]);
	}
	close(ends[0]);
}
