/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "log.h"
#include "system.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Puts another file in the place of stderr; what was there comes back with end_stderr(). */
static int saved;

static void begin_stderr(int fd)
{
	saved = dup(STDERR_FILENO);
	if (fd >= 0)
		dup2(fd, STDERR_FILENO);
	else
		close(STDERR_FILENO);
}

static void end_stderr(void)
{
	dup2(saved, STDERR_FILENO);
	close(saved);
	log_take(STDERR_FILENO);
}

/* The message of the last line of a log, after the role. */
static const char *message_of(const char *text)
{
	const char *at = strstr(text, "test: ");

	return at != NULL ? at + 6 : "";
}

static void test_line(void)
{
	const char *path = system_path("line.log");
	char form[160];
	regex_t regex;
	struct stat st;

	CU_ASSERT_EQUAL(log_open(path), 0);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 0777 & ~0640u, 0);
	CU_ASSERT_EQUAL(fcntl(log_fd(), F_GETFD), FD_CLOEXEC);
	log_set_role("worker 3");
	setenv("TZ", "Asia/Tokyo", 1);
	errno = ENOENT;
	log_warn("a message: %d", 42);
	CU_ASSERT_EQUAL(errno, ENOENT);
	log_debug("not at this level");
	snprintf(form, sizeof(form),
		 "^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3}Z "
		 "%ld warn worker 3: a message: 42\n$", (long)getpid());
	CU_ASSERT_EQUAL_FATAL(regcomp(&regex, form, REG_EXTENDED | REG_NOSUB), 0);
	CU_ASSERT_EQUAL(regexec(&regex, system_read(path), 0, NULL, 0), 0);
	regfree(&regex);
	log_take(STDERR_FILENO);
}

static void test_time(void)
{
	const char *path = system_path("time.log");
	time_t now = time(NULL);
	char before[32], after[32];

	log_open(path);
	strftime(before, sizeof(before), "%Y-%m-%dT%H:%M:%S", gmtime(&now));
	log_error("now");
	now = time(NULL);
	strftime(after, sizeof(after), "%Y-%m-%dT%H:%M:%S", gmtime(&now));
	CU_ASSERT(strncmp(system_read(path), before, 19) >= 0);
	CU_ASSERT(strncmp(system_read(path), after, 19) <= 0);
	log_take(STDERR_FILENO);
}

static void test_escapes(void)
{
	static const struct {
		const char *said, *written;
	} cases[] = {
		{"plain text, \"quoted\" and back\\slash",
		 "plain text, \"quoted\" and back\\slash"},
		{"a\r\nb\tc\x1b[31m\x7f", "a\\x0d\\x0ab\\x09c\\x1b[31m\\x7f"},
		{"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
		 "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
		{"\x80\xff", "\\x80\\xff"},
		{"\xc0\xaf", "\\xc0\\xaf"},
		{"\xc3", "\\xc3"},
		{"\xe2\x82", "\\xe2\\x82"},
		{"\xe2\x82z", "\\xe2\\x82z"},
		{"\xed\xa0\x80", "\\xed\\xa0\\x80"},
		{"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
		{"\xc2\x9b", "\\xc2\\x9b"}, /* CSI of some terminals */
		{"\xc2\xa0", "\xc2\xa0"},
	};
	const char *path = system_path("escapes.log");

	log_set_role("test");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *message;

		unlink(path);
		log_open(path);
		log_info("%s", cases[i].said);
		message = message_of(system_read(path));
		CU_ASSERT_EQUAL(strncmp(message, cases[i].written, strlen(cases[i].written)), 0);
		CU_ASSERT_STRING_EQUAL(message + strlen(cases[i].written), "\n");
	}
	log_take(STDERR_FILENO);
}

/* Lines around the limit: never longer than a pipe takes at once, and marked when cut. */
static void test_long_lines(void)
{
	const char *path = system_path("long.log");
	static char said[9000];

	for (size_t len = 3990; len < 4110; len++) {
		const char *text, *message;

		unlink(path);
		log_open(path);
		memset(said, 'x', len);
		said[len] = '\0';
		log_info("%s", said);
		text = system_read(path);
		message = message_of(text);
		CU_ASSERT(strlen(text) <= 4096);
		CU_ASSERT_EQUAL(text[strlen(text) - 1], '\n');
		if (strlen(message) == len + 1)
			CU_ASSERT_EQUAL(strspn(message, "x"), len)
		else
			CU_ASSERT(strlen(text) == 4096 && strcmp(text + 4092, "...\n") == 0);
	}
	memset(said, '\x01', sizeof(said) - 1);
	log_info("%s", said);
	CU_ASSERT_PTR_NOT_NULL(strstr(system_read(path), "\\x01...\n"));
	log_take(STDERR_FILENO);
}

static void test_levels(void)
{
	const char *path = system_path("levels.log");

	log_open(path);
	log_set_level(LOG_ERROR);
	CU_ASSERT_EQUAL(log_get_level(), LOG_ERROR);
	log_warn("hidden");
	CU_ASSERT_STRING_EQUAL(system_read(path), "");
	log_set_level(LOG_DEBUG);
	log_debug("shown");
	CU_ASSERT_STRING_EQUAL(message_of(system_read(path)), "shown\n");
	log_set_level(LOG_INFO);
	log_take(STDERR_FILENO);
}

static void test_open_fails(void)
{
	const char *path = system_path("kept.log");
	int fd;

	log_open(path);
	fd = log_fd();
	CU_ASSERT_EQUAL(log_open(system_path("nowhere/x.log")), -1);
	CU_ASSERT_EQUAL(errno, ENOENT);
	CU_ASSERT_EQUAL(log_fd(), fd);
	log_error("still here");
	CU_ASSERT_STRING_EQUAL(message_of(system_read(path)), "still here\n");
	log_take(STDERR_FILENO);
}

/* A reader that takes nothing costs lines, not time; and the pipe's own flags stay. */
static void test_stuck_pipe(void)
{
	_Atomic uint64_t counted = 0;
	uint64_t before = log_dropped();
	int ends[2];

	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	begin_stderr(ends[1]);
	CU_ASSERT_EQUAL(log_open(NULL), 0);
	log_count_in(&counted);
	alarm(20); /* a write that blocks ends the tests */
	for (int i = 0; i < 2000; i++)
		log_error("line %d %0100d", i, 0);
	alarm(0);
	log_count_in(NULL);
	CU_ASSERT(counted > 0 && counted < 2000);
	CU_ASSERT_EQUAL(log_dropped() - before, counted);
	CU_ASSERT_EQUAL(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
	end_stderr();
	close(ends[0]);
	close(ends[1]);
}

/* The same where no description of our own could be had. */
static void test_stuck_shared_pipe(void)
{
	uint64_t before = log_dropped();
	int ends[2];

	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	begin_stderr(-1);
	log_take(ends[1]);
	alarm(20);
	for (int i = 0; i < 2000; i++)
		log_error("line %d %0100d", i, 0);
	alarm(0);
	CU_ASSERT(log_dropped() - before > 0 && log_dropped() - before < 2000);
	CU_ASSERT_EQUAL(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
	end_stderr();
	close(ends[0]);
}

static void test_stuck_socket(void)
{
	uint64_t before = log_dropped();
	int ends[2];

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	begin_stderr(ends[1]);
	CU_ASSERT_EQUAL(log_open(NULL), 0);
	alarm(20);
	for (int i = 0; i < 20000; i++)
		log_error("line %d %0100d", i, 0);
	close(ends[0]);
	log_error("nobody reads this, and no SIGPIPE comes");
	alarm(0);
	CU_ASSERT(log_dropped() - before > 1 && log_dropped() - before < 20000);
	CU_ASSERT_EQUAL(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
	end_stderr();
	close(ends[1]);
}

static void test_closed_stderr(void)
{
	uint64_t before = log_dropped();
	int other;

	begin_stderr(-1);
	CU_ASSERT_EQUAL(log_open(NULL), 0);
	log_error("lost");
	other = open(system_path("innocent"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CU_ASSERT_EQUAL(other, STDERR_FILENO);
	log_error("lost");
	CU_ASSERT_EQUAL(log_dropped() - before, 2);
	CU_ASSERT_STRING_EQUAL(system_read(system_path("innocent")), "");
	end_stderr();
}

/* A file that is stderr is shared with whoever else writes to it: nobody overwrites the other. */
static void test_file_as_stderr(void)
{
	const char *path = system_path("shared.log");
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	begin_stderr(fd);
	CU_ASSERT_EQUAL(log_open(NULL), 0);
	log_error("ours");
	CU_ASSERT_EQUAL(write(fd, "theirs\n", 7), 7);
	log_error("ours again");
	end_stderr();
	close(fd);
	CU_ASSERT_PTR_NOT_NULL(strstr(system_read(path), "test: ours\ntheirs\n"));
	CU_ASSERT_PTR_NOT_NULL(strstr(system_read(path), "test: ours again\n"));
}

/* A full disk (here: the limit on a file's size) tears a line; the next one begins a new line. */
static void test_torn(void)
{
	const char *path = system_path("torn.log");
	uint64_t before = log_dropped();
	struct rlimit limit, little;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &limit);
	little = limit;
	little.rlim_cur = 100;
	log_open(path);
	setrlimit(RLIMIT_FSIZE, &little);
	log_error("torn %0200d", 0);
	log_error("lost");
	setrlimit(RLIMIT_FSIZE, &limit);
	log_error("whole");
	log_error("whole too");
	signal(SIGXFSZ, SIG_DFL);
	CU_ASSERT_EQUAL(log_dropped() - before, 2);
	CU_ASSERT_EQUAL(system_read(path)[100], '\n');
	CU_ASSERT_PTR_NULL(strstr(system_read(path), "lost"));
	CU_ASSERT_PTR_NOT_NULL(strstr(system_read(path) + 101, "test: whole\n2"));
	log_take(STDERR_FILENO);
}

static void test_write(void)
{
	const char *path = system_path("access.log");
	uint64_t before = log_dropped();
	int fd = log_open_file(path);

	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(log_write(fd, "one\n", 4), 0);
	CU_ASSERT_EQUAL(log_write(fd, "two\n", 4), 0);
	CU_ASSERT_STRING_EQUAL(system_read(path), "one\ntwo\n");
	close(fd);
	CU_ASSERT_EQUAL(log_write(-1, "x\n", 2), -1);
	CU_ASSERT_EQUAL(log_dropped() - before, 1);
	fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	CU_ASSERT_EQUAL(log_write(fd, "x\n", 2), -1);
	CU_ASSERT_EQUAL(log_dropped() - before, 2);
	close(fd);
}

CU_TestInfo log_tests[] = {
	{"form of a line", test_line},
	{"time", test_time},
	{"escapes", test_escapes},
	{"long lines", test_long_lines},
	{"levels", test_levels},
	{"open fails", test_open_fails},
	{"stuck pipe", test_stuck_pipe},
	{"stuck pipe that is shared", test_stuck_shared_pipe},
	{"stuck socket", test_stuck_socket},
	{"closed stderr", test_closed_stderr},
	{"file as stderr", test_file_as_stderr},
	{"torn line", test_torn},
	{"writing to another file", test_write},
	CU_TEST_INFO_NULL,
};
