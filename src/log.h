/* SPDX-License-Identifier: MIT */
/*
 * The server's log: one line is one write, never blocking, never retried.  Lines that can't be
 * written (full disk, full pipe, closed stderr) are dropped and counted.
 */
#ifndef LOG_H
#define LOG_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/*
 * Opens the log: path, or NULL for stderr.  A terminal or pipe is opened anew (through
 * /proc/self/fd/2), so that O_NONBLOCK is set on a description of our own and never on one that is
 * shared with other programs; where that is not allowed, and for sockets, each write asks not to
 * block.  A file as stderr stays shared.  With stderr closed, all lines are dropped and counted:
 * call it before something else gets that number.  -1 with errno; the log in use stays.
 */
int log_open(const char *path);

/* Opens a file for log_write(): appended to, never blocking, close-on-exec.  -1 with errno. */
int log_open_file(const char *path);

/* Takes over an fd that was opened by another process (the master's, after a reopen). */
void log_take(int fd);
int log_fd(void);

void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* Word before each message: "master", "worker 3". */
void log_set_role(const char *role);

/* Where dropped lines are counted, besides log_dropped(): a counter in shared memory, or NULL. */
void log_count_in(_Atomic uint64_t *dropped);
uint64_t log_dropped(void);

/*
 * A line: "2026-01-31T12:00:00.123Z 4711 warn worker 3: message".  Control octets and what is no
 * UTF-8 become \xNN; a line of more than 4096 octets is cut, and ends in "...".
 */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_vline(enum log_level level, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

/* The same from a ready text.  Async-signal-safe. */
void log_text(enum log_level level, const char *text);

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

/* Writes one ready line to an fd under the same rules (the access log).  0, or -1: dropped. */
int log_write(int fd, const char *line, size_t len);

#endif
