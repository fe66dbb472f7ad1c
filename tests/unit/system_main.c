/* SPDX-License-Identifier: MIT */
/*
 * The unit tests of floor 2.  `system [SUITE]` runs all suites, or one.
 * The last line counts the tests; the exit status is the number of failures, at most 125.
 */
#include "autoconf.h"

#include "system.h"

#include <CUnit/Basic.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUITE(name) extern CU_TestInfo name##_tests[];
#include "system_suites.def"
#undef SUITE

static CU_SuiteInfo suites[] = {
#define SUITE(name) {#name, NULL, NULL, NULL, NULL, name##_tests},
#include "system_suites.def"
#undef SUITE
	CU_SUITE_INFO_NULL,
};

static unsigned skipped;
static char folder[64];

void system_skip(const char *reason)
{
	skipped++;
	printf("\nskipped: %s: %s\n", CU_get_current_test()->pName, reason);
}

const char *system_folder(void)
{
	if (folder[0] == '\0') {
		strcpy(folder, "/tmp/whitecap-unit-XXXXXX");
		if (mkdtemp(folder) == NULL)
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

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
	(void)st;
	(void)type;
	(void)walk;
	return remove(path);
}

static unsigned run(const char *only)
{
	CU_pSuite suite;

	CU_basic_set_mode(CU_BRM_NORMAL);
	if (!only)
		CU_basic_run_tests();
	else if ((suite = CU_get_suite(only)))
		CU_basic_run_suite(suite);
	else
		fprintf(stderr, "no suite %s\n", only);
	printf("\n%u passed, %u failed, %u skipped\n",
	       CU_get_number_of_tests_run() - CU_get_number_of_tests_failed() - skipped,
	       CU_get_number_of_tests_failed(), skipped);
	return CU_get_number_of_tests_run() ? CU_get_number_of_tests_failed() : 1;
}

int main(int argc, char **argv)
{
	unsigned failed = 1;

	setvbuf(stdout, NULL, _IONBF, 0); /* else a child that is forked prints it again */
	if (CU_initialize_registry() == CUE_SUCCESS && CU_register_suites(suites) == CUE_SUCCESS)
		failed = run(argc > 1 ? argv[1] : NULL);
	else
		fprintf(stderr, "CUnit: %s\n", CU_get_error_msg());
	CU_cleanup_registry();
	if (folder[0] != '\0')
		nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return failed < 125 ? (int)failed : 125;
}
