/* SPDX-License-Identifier: MIT */
/* Defines the suites of a program: those that the file SUITES lists. */
#include "unit.h"

#define SUITE(name) extern CU_TestInfo name##_tests[];
#include SUITES
#undef SUITE

CU_SuiteInfo unit_suites[] = {
#define SUITE(name) {#name, NULL, NULL, NULL, NULL, name##_tests},
#include SUITES
#undef SUITE
	CU_SUITE_INFO_NULL,
};
