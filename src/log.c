/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "calendar.h"

/* PIPE_BUF: a pipe takes a line of this length whole or not at all, whoever else writes to it. */
enum { LINE_MAX_OCTETS = 4096 };

enum sink_kind {
	SINK_UNKNOWN,
	SINK_PLAIN,  /* a write never blocks: a file, or O_NONBLOCK is set */
	SINK_SOCKET,
	SINK_SHARED, /* a write may block, and the flags are not ours to change */
};

struct sink {
	int fd;
	enum sink_kind kind;
	bool torn; /* ends in half a line */
};

static struct {
	struct sink log, other;
	enum log_level level;
	char role[32];
	_Atomic uint64_t dropped;
	_Atomic uint64_t *counter;
} state = {.log = {.fd = STDERR_FILENO}, .other = {.fd = -1}, .level = LOG_INFO};

static enum sink_kind kind_of(int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fstat(fd, &st) != 0)
		return SINK_UNKNOWN;
	if (S_ISSOCK(st.st_mode))
		return SINK_SOCKET;
	return S_ISREG(st.st_mode) || (flags & O_NONBLOCK) ? SINK_PLAIN : SINK_SHARED;
}

/*
 * Two processes may both see room in a pipe, and the second write then blocks; RWF_NOWAIT closes
 * that gap where the kernel has it for this kind of file.
 */
static ssize_t write_shared(int fd, const struct iovec *iov, int count)
{
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	ssize_t n = pwritev2(fd, iov, count, -1, RWF_NOWAIT);

	if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL))
		return n;
	if (poll(&room, 1, 0) != 1 || !(room.revents & POLLOUT)) {
		errno = EAGAIN;
		return -1;
	}
	return writev(fd, iov, count);
}

static ssize_t write_once(const struct sink *sink, struct iovec *iov, int count)
{
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)count};

	if (sink->kind == SINK_SOCKET)
		return sendmsg(sink->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sink->kind == SINK_SHARED)
		return write_shared(sink->fd, iov, count);
	return writev(sink->fd, iov, count);
}

static int drop(void)
{
	atomic_fetch_add_explicit(&state.dropped, 1, memory_order_relaxed);
	if (state.counter != NULL)
		atomic_fetch_add_explicit(state.counter, 1, memory_order_relaxed);
	return -1;
}

static int put(struct sink *sink, const char *line, size_t len)
{
	struct iovec iov[2] = {{.iov_base = "\n", .iov_len = sink->torn ? 1 : 0},
			       {.iov_base = (char *)line, .iov_len = len}};
	size_t whole = iov[0].iov_len + len;
	int error = errno;
	ssize_t n;

	if (sink->kind == SINK_UNKNOWN)
		sink->kind = kind_of(sink->fd);
	n = write_once(sink, sink->torn ? iov : iov + 1, sink->torn ? 2 : 1);
	errno = error;
	if (n > 0)
		sink->torn = (size_t)n < whole && !(sink->torn && n == 1);
	return n == (ssize_t)whole ? 0 : drop();
}

int log_write(int fd, const char *line, size_t len)
{
	if (fd == state.log.fd)
		return put(&state.log, line, len);
	if (fd != state.other.fd)
		state.other = (struct sink){.fd = fd};
	return put(&state.other, line, len);
}

int log_open_file(const char *path)
{
	return open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0640);
}

/*
 * A pipe or terminal is opened anew, for an O_NONBLOCK of our own.  A file is not: it never blocks,
 * and whoever else writes to the same description (a sanitizer, a handler's printf) would write
 * over our lines, were our offset another one.
 */
static int open_stderr(void)
{
	struct stat st;
	int fd;

	if (fstat(STDERR_FILENO, &st) != 0)
		return -1;
	if (!S_ISREG(st.st_mode)) {
		fd = open("/proc/self/fd/2",
			  O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
		if (fd >= 0)
			return fd;
	}
	return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

int log_open(const char *path)
{
	int fd = path != NULL ? log_open_file(path) : open_stderr();

	if (fd < 0 && !(path == NULL && errno == EBADF))
		return -1;
	log_take(fd);
	return 0;
}

void log_take(int fd)
{
	if (state.log.fd > STDERR_FILENO && state.log.fd != fd)
		close(state.log.fd);
	state.log = (struct sink){.fd = fd};
	if (state.other.fd == fd)
		state.other.fd = -1;
}

int log_fd(void)
{
	return state.log.fd;
}

void log_set_level(enum log_level level)
{
	state.level = level;
}

enum log_level log_get_level(void)
{
	return state.level;
}

void log_set_role(const char *role)
{
	snprintf(state.role, sizeof(state.role), "%s", role);
}

void log_count_in(_Atomic uint64_t *dropped)
{
	state.counter = dropped;
}

uint64_t log_dropped(void)
{
	return atomic_load_explicit(&state.dropped, memory_order_relaxed);
}

static char *put_text(char *out, const char *text)
{
	size_t len = strlen(text);

	memcpy(out, text, len);
	return out + len;
}

/* At least so many digits, then a separator. */
static char *put_number(char *out, uint64_t value, unsigned width, char end)
{
	char digits[20];
	unsigned count = 0;

	do
		digits[count++] = (char)('0' + value % 10);
	while ((value /= 10) || count < width);
	while (count > 0)
		*out++ = digits[--count];
	*out++ = end;
	return out;
}

/* Without the C library's formatting: for fault handlers. */
static size_t put_prefix(char *out, enum log_level level)
{
	static const char *const words[] = {
		[LOG_ERROR] = "error ", [LOG_WARN] = "warn ",
		[LOG_INFO] = "info ", [LOG_DEBUG] = "debug ",
	};
	struct timespec now;
	struct calendar_day date;
	uint64_t second;
	char *start = out;

	clock_gettime(CLOCK_REALTIME, &now);
	date = calendar_day((uint64_t)now.tv_sec / 86400);
	second = (uint64_t)now.tv_sec % 86400;
	out = put_number(out, date.year, 4, '-');
	out = put_number(out, date.month, 2, '-');
	out = put_number(out, date.day, 2, 'T');
	out = put_number(out, second / 3600, 2, ':');
	out = put_number(out, second / 60 % 60, 2, ':');
	out = put_number(out, second % 60, 2, '.');
	out = put_number(out, (uint64_t)now.tv_nsec / 1000000, 3, 'Z');
	*out++ = ' ';
	out = put_number(out, (uint64_t)getpid(), 1, ' ');
	out = put_text(out, words[level]);
	out = put_text(out, state.role);
	out = put_text(out, state.role[0] != '\0' ? ": " : "");
	return (size_t)(out - start);
}

/* Octets of the UTF-8 character at s that may be shown as it is; 0: there is none. */
static size_t plain_len(const unsigned char *s)
{
	static const struct {
		unsigned char first, last, second_min, second_max, len;
	} forms[] = {
		/* RFC 3629, section 4, without control characters. */
		{0x20, 0x7e, 0, 0, 1},          {0xc2, 0xc2, 0xa0, 0xbf, 2},
		{0xc3, 0xdf, 0x80, 0xbf, 2},    {0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3},    {0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3},    {0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4},    {0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (s[0] < forms[i].first || s[0] > forms[i].last)
			continue;
		if (forms[i].len > 1 && (s[1] < forms[i].second_min || s[1] > forms[i].second_max))
			return 0;
		for (size_t j = 2; j < forms[i].len; j++)
			if ((s[j] & 0xc0) != 0x80)
				return 0;
		return forms[i].len;
	}
	return 0;
}

/* One character of the message, as it is or escaped; its octets in the message. */
static size_t escape(const char *s, char piece[5], size_t *piece_len)
{
	static const char hex[] = "0123456789abcdef";
	size_t len = plain_len((const unsigned char *)s);

	*piece_len = len > 0 ? len : 4;
	if (len > 0) {
		memcpy(piece, s, len);
		return len;
	}
	piece[0] = '\\';
	piece[1] = 'x';
	piece[2] = hex[(unsigned char)*s >> 4];
	piece[3] = hex[(unsigned char)*s & 15];
	return 1;
}

/* Appends the message to out[len], cut to the room; the new length. */
static size_t put_escaped(char *out, size_t len, size_t size, const char *s)
{
	static const char cut[] = "...";
	size_t fits = len; /* up to where a cut leaves room for its mark */

	while (*s != '\0') {
		char piece[5];
		size_t piece_len;

		s += escape(s, piece, &piece_len);
		if (len + piece_len > size) {
			memcpy(out + fits, cut, sizeof(cut) - 1);
			return fits + sizeof(cut) - 1;
		}
		memcpy(out + len, piece, piece_len);
		len += piece_len;
		if (len + sizeof(cut) - 1 <= size)
			fits = len;
	}
	return len;
}

void log_text(enum log_level level, const char *text)
{
	char line[LINE_MAX_OCTETS];
	int error = errno;
	size_t len;

	if (level > state.level)
		return;
	len = put_prefix(line, level);
	len = put_escaped(line, len, sizeof(line) - 1, text);
	line[len++] = '\n';
	put(&state.log, line, len);
	errno = error;
}

void log_vline(enum log_level level, const char *format, va_list args)
{
	char message[LINE_MAX_OCTETS];

	if (level > state.level)
		return;
	vsnprintf(message, sizeof(message), format, args);
	log_text(level, message);
}

void log_line(enum log_level level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_vline(level, format, args);
	va_end(args);
}
