/* SPDX-License-Identifier: MIT */
/*
 * Runs the suites listed in the file SUITES (see Makefile.am), or the one that is named as argument.
 * The last line counts the tests; the exit status is the number of failures, at most 125.
 */
#include "autoconf.h"

#include <CUnit/Basic.h>
#include <stdio.h>

#define SUITE(name) extern CU_TestInfo name##_tests[];
#include SUITES
#undef SUITE

static CU_SuiteInfo suites[] = {
#define SUITE(name) {#name, NULL, NULL, NULL, NULL, name##_tests},
#include SUITES
#undef SUITE
	CU_SUITE_INFO_NULL,
};

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
	printf("\n%u passed, %u failed, 0 skipped\n",
	       CU_get_number_of_tests_run() - CU_get_number_of_tests_failed(),
	       CU_get_number_of_tests_failed());
	return CU_get_number_of_tests_run() ? CU_get_number_of_tests_failed() : 1;
}

int main(int argc, char **argv)
{
	unsigned failed = 1;

	if (CU_initialize_registry() == CUE_SUCCESS && CU_register_suites(suites) == CUE_SUCCESS)
		failed = run(argc > 1 ? argv[1] : NULL);
	else
		fprintf(stderr, "CUnit: %s\n", CU_get_error_msg());
	CU_cleanup_registry();
	return failed < 125 ? (int)failed : 125;
}
