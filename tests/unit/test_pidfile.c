/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "pidfile.h"
#include "system.h"

#include <CUnit/CUnit.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct err err;

static void check_written(const char *path)
{
	char expected[32];

	snprintf(expected, sizeof(expected), "%ld\n", (long)getpid());
	CU_ASSERT_STRING_EQUAL(system_read(path), expected);
}

static void test_stale(void)
{
	static const char *const stale[] = {
		"1\n", "", "0", "-1", "abc", "123456789012345678901234567890", "1", "\xff\n\n",
		"a stale file that is much longer than any pid would be, with\nseveral\nlines\n",
	};
	const char *path = system_path("stale.pid");
	struct pidfile pidfile;

	for (size_t i = 0; i < sizeof(stale) / sizeof(stale[0]); i++) {
		system_write(path, stale[i]);
		err_init(&err);
		CU_ASSERT_EQUAL(pidfile_open(&pidfile, path, &err), 0);
		check_written(path);
		pidfile_close(&pidfile);
		CU_ASSERT_EQUAL(access(path, F_OK), -1);
	}
}

static void test_new(void)
{
	const char *path = system_path("new.pid");
	struct pidfile pidfile;
	struct stat st;

	err_init(&err);
	umask(022);
	CU_ASSERT_EQUAL(pidfile_open(&pidfile, path, &err), 0);
	check_written(path);
	CU_ASSERT_EQUAL(fcntl(pidfile.fd, F_GETFD), FD_CLOEXEC);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 0777, 0644);
	pidfile_close(&pidfile);
	pidfile_close(&pidfile);
	CU_ASSERT_EQUAL(pidfile_open(&pidfile, NULL, &err), 0);
	pidfile_close(&pidfile);
	CU_ASSERT_EQUAL(err.count, 0);
}

static void test_locked(void)
{
	const char *path = system_path("locked.pid");
	struct pidfile first, second;
	char pid[32];

	err_init(&err);
	CU_ASSERT_EQUAL(pidfile_open(&first, path, &err), 0);
	CU_ASSERT_EQUAL(pidfile_open(&second, path, &err), -1);
	snprintf(pid, sizeof(pid), "(pid %ld)", (long)getpid());
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, pid));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, path));
	pidfile_close(&second);
	check_written(path);
	pidfile_close(&first);
	CU_ASSERT_EQUAL(pidfile_open(&second, path, &err), 0);
	pidfile_close(&second);
}

/* A file that somebody put in the place of ours stays. */
static void test_replaced(void)
{
	const char *path = system_path("replaced.pid"), *other = system_path("other");
	struct pidfile pidfile;

	err_init(&err);
	CU_ASSERT_EQUAL(pidfile_open(&pidfile, path, &err), 0);
	system_write(other, "4711\n");
	CU_ASSERT_EQUAL(rename(other, path), 0);
	pidfile_close(&pidfile);
	CU_ASSERT_STRING_EQUAL(system_read(path), "4711\n");
	unlink(path);
}

static void check_unusable(const char *path, const char *why)
{
	struct pidfile pidfile;

	err_init(&err);
	CU_ASSERT_EQUAL(pidfile_open(&pidfile, path, &err), -1);
	CU_ASSERT_EQUAL(err.count, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, path));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, why));
	CU_ASSERT_PTR_NULL(pidfile.path);
	CU_ASSERT_EQUAL(pidfile.fd, -1);
}

static void test_unusable(void)
{
	const char *link = system_path("link.pid"), *target = system_path("target"),
		   *fifo = system_path("fifo.pid");

	check_unusable(system_folder(), "Is a directory");
	check_unusable(system_path("nowhere/x.pid"), "No such file");
	check_unusable("", "No such file");
	check_unusable("/proc/whitecap.pid", "cannot open");
	CU_ASSERT_EQUAL(mkfifo(fifo, 0600), 0);
	check_unusable(fifo, "no regular file");
	system_write(target, "precious\n");
	CU_ASSERT_EQUAL(symlink(target, link), 0);
	check_unusable(link, "symbolic link");
	CU_ASSERT_STRING_EQUAL(system_read(target), "precious\n");
}

CU_TestInfo pidfile_tests[] = {
	{"stale content", test_stale},
	{"new file", test_new},
	{"locked", test_locked},
	{"replaced", test_replaced},
	{"unusable paths", test_unusable},
	CU_TEST_INFO_NULL,
};
