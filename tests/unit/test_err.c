/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <string.h>

#include "err.h"

extern CU_TestInfo err_tests[];

static struct err err;

static void test_lines(void)
{
	err_init(&err);
	CU_ASSERT_EQUAL(err.count, 0);
	CU_ASSERT_STRING_EQUAL(err.text, "");
	err_add(&err, "first %d", 1);
	CU_ASSERT_STRING_EQUAL(err.text, "first 1");
	err_add(&err, "second");
	CU_ASSERT_STRING_EQUAL(err.text, "first 1\nsecond");
	CU_ASSERT_EQUAL(err.count, 2);
	CU_ASSERT_EQUAL(err.len, strlen(err.text));
	err_init(&err);
	CU_ASSERT_STRING_EQUAL(err.text, "");
}

static void test_control_characters(void)
{
	err_init(&err);
	err_add(&err, "a%sb", "\x1b[2J\r\x7f\n\xc3\xa4");
	CU_ASSERT_STRING_EQUAL(err.text, "a?[2J??\n\xc3\xa4" "b");
}

static void test_room(void)
{
	char line[1001];
	size_t len;

	memset(line, 'x', sizeof line - 1);
	line[sizeof line - 1] = '\0';
	err_init(&err);
	for (int i = 0; i < 10; i++)
		err_add(&err, "%s", line);
	CU_ASSERT_EQUAL(err.count, 10);
	CU_ASSERT_EQUAL(err.len, 8 * 1001 - 1);
	CU_ASSERT_EQUAL(err.len, strlen(err.text));
	len = err.len;
	err_add(&err, "%.*s", (int)(sizeof err.text - len - 2), line);
	CU_ASSERT_EQUAL(err.len, sizeof err.text - 1);
	err_add(&err, "y");
	CU_ASSERT_EQUAL(err.len, sizeof err.text - 1);
	CU_ASSERT_EQUAL(err.count, 12);
	CU_ASSERT_PTR_NULL(strchr(err.text, 'y'));
}

/* The only message there is is better cut than lost. */
static void test_first_is_cut(void)
{
	static char line[2 * sizeof err.text];

	memset(line, 'x', sizeof line - 1);
	err_init(&err);
	err_add(&err, "%s", line);
	CU_ASSERT_EQUAL(err.count, 1);
	CU_ASSERT_EQUAL(err.len, sizeof err.text - 1);
	CU_ASSERT_EQUAL(err.len, strlen(err.text));
}

CU_TestInfo err_tests[] = {
	{"lines", test_lines},
	{"control characters", test_control_characters},
	{"room", test_room},
	{"first is cut", test_first_is_cut},
	CU_TEST_INFO_NULL,
};
