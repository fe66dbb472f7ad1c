/* SPDX-License-Identifier: MIT */
/* The program is linked so that malloc() of what it consists of is ours: it may fail. */
#include "autoconf.h"

#include "memory.h"

#include <CUnit/CUnit.h>
#include <string.h>

extern CU_TestInfo memory_tests[];

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

/* Allocations that still succeed; less than 0: all of them. */
static int left = -1;

void *__wrap_malloc(size_t size)
{
	if (left == 0)
		return NULL;
	if (left > 0)
		left--;
	return __real_malloc(size);
}

static json_t *parse(const char *text, int allocations, json_error_t *error)
{
	json_t *root;

	left = allocations;
	root = memory_parse_json(text, strlen(text), JSON_REJECT_DUPLICATES, error);
	left = -1;
	return root;
}

/* The first number of allocations with which it is read. */
static int try_each(const char *text, json_type type)
{
	json_error_t error;

	for (int allocations = 0; allocations < 100000; allocations++) {
		json_t *root = parse(text, allocations, &error);

		if (root) {
			CU_ASSERT_FALSE(memory_has_lacked());
			CU_ASSERT_EQUAL(json_typeof(root), type);
			json_decref(root);
			return allocations;
		}
		CU_ASSERT_STRING_EQUAL(error.text, "out of memory");
		CU_ASSERT_TRUE(memory_has_lacked());
		memory_watch_json();
	}
	return 0;
}

static void test_no_memory_from_an_allocation_on(void)
{
	static const char *const texts[] = {
		"{\"workers\": 4, \"listen\": [\"127.0.0.1:8080\"], \"timeouts\": {\"handler\": "
		"\"5s\"}}",
		"{\"a name that is longer than what jansson keeps at first, so that it has to "
		"grow\": "
		"\"and a value that is, with \\u20ac in it, \\\\ and \\\"\", \"b\": -12.25e3}",
		"{\"a\": [true, false, null, 1234567890123, [[[[[[[[[[]]]]]]]]]], {\"b\": {\"c\": "
		"{}}}]}",
	};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		CU_ASSERT_TRUE(try_each(texts[i], JSON_OBJECT) > 5);
}

/* More than what is kept in reserve for such a case: what jansson had got is lost. */
static void test_a_long_text_without_memory(void)
{
	static char text[300001];
	json_error_t error;

	if (__lsan_disable)
		__lsan_disable();
	for (size_t i = 0; i < sizeof text - 1; i++)
		text[i] = "[1,"[i % 3];
	for (int allocations = 0; allocations < 20; allocations++)
		CU_ASSERT_PTR_NULL(parse(text, allocations, &error));
	memset(text, 'a', sizeof text - 1);
	memcpy(text, "[\"", 2);
	memcpy(text + sizeof text - 3, "\"]", 2);
	for (int allocations = 0; allocations < 15; allocations++) {
		CU_ASSERT_PTR_NULL(parse(text, allocations, &error));
		CU_ASSERT_STRING_EQUAL(error.text, "out of memory");
	}
	memory_watch_json();
	if (__lsan_enable)
		__lsan_enable();
}

/* What is no JSON is said to be none, when there is memory; without any it may be either. */
static void test_text_that_is_no_json(void)
{
	static const char *const texts[] = {"",
					    "{",
					    "[1, 2",
					    "{\"a\": \"b",
					    "{\"a\": tru",
					    "{\"a\": 1, \"a\": 2}",
					    "{\"a\": 123456789012345678901234567890}",
					    "{\"a\": \"\\ud800\"}"};
	json_error_t error;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		for (int allocations = 0; allocations < 40; allocations++)
			CU_ASSERT_PTR_NULL(parse(texts[i], allocations, &error));
		memory_watch_json();
		CU_ASSERT_PTR_NULL(parse(texts[i], -1, &error));
		CU_ASSERT_STRING_NOT_EQUAL(error.text, "out of memory");
		CU_ASSERT_FALSE(memory_has_lacked());
	}
}

/* A lack is remembered until somebody forgets it. */
static void test_lack_is_remembered(void)
{
	json_error_t error;
	json_t *root;

	memory_watch_json();
	CU_ASSERT_PTR_NULL(parse("[1]", 0, &error));
	root = parse("[1]", -1, &error);
	CU_ASSERT_PTR_NOT_NULL(root);
	json_decref(root);
	CU_ASSERT_TRUE(memory_has_lacked());
	memory_watch_json();
	CU_ASSERT_FALSE(memory_has_lacked());
}

CU_TestInfo memory_tests[] = {
	{"no memory from an allocation on", test_no_memory_from_an_allocation_on},
	{"a long text without memory", test_a_long_text_without_memory},
	{"text that is no JSON", test_text_that_is_no_json},
	{"a lack is remembered until it is forgotten", test_lack_is_remembered},
	CU_TEST_INFO_NULL,
};
