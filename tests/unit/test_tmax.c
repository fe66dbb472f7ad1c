/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tmax.h"

extern CU_TestInfo tmax_tests[];

/* In memory of exactly that size, so that a sanitizer sees what is read behind it. */
static uint32_t find(const char *text, size_t len)
{
	char *copy = malloc(len + !len);
	uint32_t found;

	memcpy(copy, text, len);
	found = tmax_find(copy, len);
	free(copy);
	return found;
}

static void test_bodies(void)
{
	static const struct {
		const char *body;
		uint32_t tmax;
	} cases[] = {
		{"{\"tmax\":120}", 120},
		{" \r\n\t{ \"tmax\" : 120 \n}", 120},
		{"{\"id\":\"1\",\"imp\":[{\"id\":\"1\",\"tmax\":7}],\"tmax\":100,\"at\":1}", 100},
		{"{\"tmax\":100,\"tmax\":200}", 100},
		{"{\"a\":{\"tmax\":7},\"tmax\":9}", 9},
		{"{\"a\":{\"tmax\":7}}", 0},
		{"{\"a\":[\"tmax\",7]}", 0},
		{"{\"a\":\"\\\"tmax\\\":7\",\"tmax\":8}", 8},
		{"{\"a\":\"\\\\\",\"tmax\":8}", 8},
		{"{\"a\":\"\\\\\\\",\",\"tmax\":8}", 8},
		{"{\"a\":\"}{][\",\"b\":[\"]\",{\"c\":\"}\"}],\"tmax\":8}", 8},
		{"{\"a\":-1.5e9,\"b\":true,\"c\":null,\"d\":\"tmax\",\"tmax\":8}", 8},
		{"{\"a\\\"\":1,\"tmax\":8}", 8},
		{"{\"tmax\":999999999}", 999999999},
		{"{\"tmax\":1000000000}", 0},
		{"{\"tmax\":99999999999999999999}", 0},
		{"{\"tmax\":0}", 0},
		{"{\"tmax\":-5}", 0},
		{"{\"tmax\":1.5}", 0},
		{"{\"tmax\":1e3}", 0},
		{"{\"tmax\":\"120\"}", 0},
		{"{\"tmax\":null}", 0},
		{"{\"tmax\":}", 0},
		{"{\"tmax\":12", 0},
		{"{\"tmax\" 12}", 0},
		{"{\"TMAX\":12}", 0},
		{"{\"tmaxx\":12}", 0},
		{"{tmax:12}", 0},
		{"[{\"tmax\":12}]", 0},
		{"\"tmax\":12", 0},
		{"{\"a\":{\"b\":1,\"tmax\":8}", 0},
		{"{\"a\":\"x,\"tmax\":8}", 0},
		{"{\"a\" \"tmax\":8}", 0},
		{"{},\"tmax\":8}", 0},
		{"{\"tmax\"", 0},
		{"", 0},
		{"\"tmax\"", 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t len = strlen(cases[i].body);

		CU_ASSERT_EQUAL(find(cases[i].body, len), cases[i].tmax);
		for (size_t cut = 0; cut < len; cut++) {
			uint32_t found = find(cases[i].body, cut);

			CU_ASSERT(found == 0 || found == cases[i].tmax);
		}
	}
}

/* Deep and long: neither recursion nor more than one walk over it. */
static void test_hostile(void)
{
	static const char *const pieces[] = {"[", "{\"a\":", "\"\\\\\\\"", "\\", "\"", ",", "{\"tmax\":"};
	enum { SIZE = 1 << 20 };
	char *body = malloc(SIZE);

	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		size_t piece = strlen(pieces[i]), len = 0;
		clock_t start = clock();

		len += (size_t)snprintf(body, SIZE, "{\"a\":\"tmax\",\"b\":");
		while (len + piece <= SIZE) {
			memcpy(body + len, pieces[i], piece);
			len += piece;
		}
		CU_ASSERT_EQUAL(find(body, len), 0);
		CU_ASSERT((clock() - start) < CLOCKS_PER_SEC);
	}
	free(body);
}

CU_TestInfo tmax_tests[] = {
	{"bodies, cut anywhere", test_bodies},
	{"deep and long", test_hostile},
	CU_TEST_INFO_NULL,
};
