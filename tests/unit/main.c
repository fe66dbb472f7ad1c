/* SPDX-License-Identifier: MIT */
/*
 * Runs the suites of a program, or the one that is named as argument.  At the end it says once more
 * what failed; the last line counts the tests; the exit status is the number of failures, at most 125.
 */
#include "autoconf.h"

#include "unit.h"

#include <CUnit/Basic.h>
#include <stdio.h>

static unsigned skipped;

void unit_skip(const char *reason)
{
	skipped++;
	printf("\nskipped: %s: %s\n", CU_get_current_test()->pName, reason);
}

/* The first failure of each test. */
static void print_failures(void)
{
	const CU_FailureRecord *record;
	const CU_Test *before = NULL;

	printf("\n");
	for (record = CU_get_failure_list(); record; record = record->pNext) {
		if (record->pTest && record->pTest != before)
			printf("failed %s.%s: %s:%u: %s\n", record->pSuite->pName,
			       record->pTest->pName, record->strFileName, record->uiLineNumber,
			       record->strCondition);
		before = record->pTest;
	}
}

static unsigned run(const char *only)
{
	CU_pSuite suite;

	CU_basic_set_mode(CU_BRM_VERBOSE);
	if (!only)
		CU_basic_run_tests();
	else if ((suite = CU_get_suite(only)))
		CU_basic_run_suite(suite);
	else
		fprintf(stderr, "no suite %s\n", only);
	print_failures();
	printf("%u passed, %u failed, %u skipped\n",
	       CU_get_number_of_tests_run() - CU_get_number_of_tests_failed() - skipped,
	       CU_get_number_of_tests_failed(), skipped);
	return CU_get_number_of_tests_run() ? CU_get_number_of_tests_failed() : 1;
}

int main(int argc, char **argv)
{
	unsigned failed = 1;

	setvbuf(stdout, NULL, _IONBF, 0); /* else a child that is forked prints it again */
	if (CU_initialize_registry() == CUE_SUCCESS && CU_register_suites(unit_suites) == CUE_SUCCESS)
		failed = run(argc > 1 ? argv[1] : NULL);
	else
		fprintf(stderr, "CUnit: %s\n", CU_get_error_msg());
	CU_cleanup_registry();
	return failed < 125 ? (int)failed : 125;
}
