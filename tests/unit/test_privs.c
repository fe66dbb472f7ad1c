/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "privs.h"
#include "system.h"
#include "unit.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct err err;

static void check_mistake(const char *user, const char *group, const char *why)
{
	struct privs privs;

	err_init(&err);
	CU_ASSERT_EQUAL(privs_resolve(user, group, &privs, &err), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, why));
	CU_ASSERT_PTR_NULL(privs.groups);
	CU_ASSERT_FALSE(privs.change);
}

static void test_mistakes(void)
{
	check_mistake("no-such-user", NULL, "user \"no-such-user\": no such user");
	check_mistake("4294967295", NULL, "user \"4294967295\"");
	check_mistake("4294967296", "1", "user \"4294967296\"");
	check_mistake("-1", NULL, "user \"-1\"");
	check_mistake("", NULL, "user \"\"");
	check_mistake("root", NULL, "expected a user other than root");
	check_mistake("0", NULL, "expected a user other than root");
	check_mistake("12345678", NULL, "expected \"group\" beside it");
	check_mistake(NULL, "no-such-group", "group \"no-such-group\": no such group");
	if (geteuid() == 0)
		check_mistake(NULL, "1", "expected \"user\" beside it");
	else
		check_mistake("12345678", "1", "expected it to be started by root");
}

static void test_unset(void)
{
	struct privs privs;

	err_init(&err);
	CU_ASSERT_EQUAL(privs_resolve(NULL, NULL, &privs, &err), 0);
	CU_ASSERT_FALSE(privs.change);
	privs_free(&privs);
}

/* Runs a check in a child; its exit status. */
static int in_child(int (*check)(const struct privs *), const struct privs *privs)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		gid_t mine[] = {0, 4, 6};

		setgroups(3, mine);
		_exit(check(privs));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool has_status(const char *line)
{
	return strstr(system_read("/proc/self/status"), line) != NULL;
}

static int check_dropped(const struct privs *privs)
{
	char line[80];

	err_init(&err);
	if (privs_drop(privs, &err) != 0)
		return 1;
	snprintf(line, sizeof(line), "\nUid:\t%u\t%u\t%u\t%u\n", privs->uid, privs->uid, privs->uid,
		 privs->uid);
	if (!has_status(line))
		return 2;
	snprintf(line, sizeof(line), "\nGid:\t%u\t%u\t%u\t%u\n", privs->gid, privs->gid, privs->gid,
		 privs->gid);
	if (!has_status(line))
		return 3;
	if (privs->group_count == 1) {
		snprintf(line, sizeof(line), "\nGroups:\t%u ", privs->gid);
		if (!has_status(line))
			return 4;
	}
	if (!has_status("\nCapEff:\t0000000000000000\n") ||
	    !has_status("\nCapPrm:\t0000000000000000\n") || !has_status("\nNoNewPrivs:\t1\n"))
		return 5;
	if (setuid(0) == 0 || setgid(0) == 0 || prctl(PR_GET_DUMPABLE) != 1)
		return 6;
	return 0;
}

static void check_user(const char *user, const char *group)
{
	struct privs privs;

	err_init(&err);
	CU_ASSERT_EQUAL_FATAL(privs_resolve(user, group, &privs, &err), 0);
	CU_ASSERT_TRUE(privs.change);
	CU_ASSERT_EQUAL(in_child(check_dropped, &privs), 0);
	privs_free(&privs);
}

static void test_drop(void)
{
	const struct passwd *nobody;
	char uid[16];

	if (geteuid() != 0) {
		unit_skip("needs root");
		return;
	}
	nobody = getpwnam("nobody");
	if (nobody != NULL) {
		snprintf(uid, sizeof(uid), "%u", nobody->pw_uid);
		check_user("nobody", NULL);
		check_user(uid, NULL);
		check_user("nobody", "4711");
	}
	check_user("12345678", "12345679");
}

/* Without the right to change groups, nothing is changed, and it is told. */
static int check_refused(const struct privs *privs)
{
	if (setresuid(12345678, 12345678, 12345678) != 0)
		return 1;
	err_init(&err);
	return privs_drop(privs, &err) == -1 && strstr(err.text, "Operation not permitted") ? 0 : 2;
}

static void test_refused(void)
{
	struct privs privs;

	if (geteuid() != 0) {
		unit_skip("needs root");
		return;
	}
	err_init(&err);
	CU_ASSERT_EQUAL_FATAL(privs_resolve("12345678", "12345679", &privs, &err), 0);
	CU_ASSERT_EQUAL(in_child(check_refused, &privs), 0);
	privs_free(&privs);
}

static int check_parent(const struct privs *privs)
{
	int sig = 0;

	(void)privs;
	if (privs_die_with_parent(getpid()) != -1 || errno != ESRCH)
		return 1;
	if (privs_die_with_parent(getppid()) != 0 || prctl(PR_GET_PDEATHSIG, &sig) != 0)
		return 2;
	return sig == SIGKILL ? 0 : 3;
}

static void test_die_with_parent(void)
{
	CU_ASSERT_EQUAL(in_child(check_parent, NULL), 0);
}

static int check_files(const struct privs *privs)
{
	struct rlimit limit = {.rlim_cur = 64, .rlim_max = 128};

	(void)privs;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || privs_raise_files() != 128)
		return 1;
	getrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur == 128 && privs_raise_files() == 128 ? 0 : 2;
}

static void test_raise_files(void)
{
	CU_ASSERT_EQUAL(in_child(check_files, NULL), 0);
}

CU_TestInfo privs_tests[] = {
	{"mistakes", test_mistakes},
	{"unset", test_unset},
	{"no way back", test_drop},
	{"refused by the system", test_refused},
	{"die with the parent", test_die_with_parent},
	{"raise the limit of open files", test_raise_files},
	CU_TEST_INFO_NULL,
};
