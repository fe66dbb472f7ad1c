/* SPDX-License-Identifier: MIT */
/* What each program of unit tests has: its suites, and main.c, which runs them. */
#ifndef UNIT_H
#define UNIT_H

#include <CUnit/CUnit.h>

/* Ended by CU_SUITE_INFO_NULL. */
extern CU_SuiteInfo unit_suites[];

/* Says why the running test is left out; it must end without a failure. */
void unit_skip(const char *reason);

#endif
