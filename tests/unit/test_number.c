/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "number.h"

extern CU_TestInfo number_tests[];

enum { BAD = 424242 }; /* what a refused text must leave as it was */

struct parse_case {
	bool (*parse)(const char *text, uint64_t *value);
	const char *text;
	uint64_t value; /* BAD: refused */
};

static const struct parse_case parse_cases[] = {
	{number_parse_count, "0", 0},
	{number_parse_count, "007", 7},
	{number_parse_count, "18446744073709551615", UINT64_MAX},
	{number_parse_count, "18446744073709551616", BAD},
	{number_parse_count, "99999999999999999999999999", BAD},
	{number_parse_count, "", BAD},
	{number_parse_count, "-1", BAD},
	{number_parse_count, "+1", BAD},
	{number_parse_count, " 1", BAD},
	{number_parse_count, "1 ", BAD},
	{number_parse_count, "1.0", BAD},
	{number_parse_count, "1e3", BAD},
	{number_parse_count, "0x10", BAD},
	{number_parse_duration, "0", 0},
	{number_parse_duration, "0s", 0},
	{number_parse_duration, "20ms", 20},
	{number_parse_duration, "150s", 150000},
	{number_parse_duration, "5m", 300000},
	{number_parse_duration, "2h", 7200000},
	{number_parse_duration, "1d", 86400000},
	{number_parse_duration, "213503982334d", UINT64_C(18446744073657600000)},
	{number_parse_duration, "213503982335d", BAD},
	{number_parse_duration, "150", BAD},
	{number_parse_duration, "00", BAD},
	{number_parse_duration, "s", BAD},
	{number_parse_duration, "1S", BAD},
	{number_parse_duration, "1 s", BAD},
	{number_parse_duration, "1.5s", BAD},
	{number_parse_duration, "1m30s", BAD},
	{number_parse_duration, "1us", BAD},
	{number_parse_duration, "-1s", BAD},
	{number_parse_size, "0", 0},
	{number_parse_size, "512", 512},
	{number_parse_size, "64k", 65536},
	{number_parse_size, "64K", 65536},
	{number_parse_size, "1m", 1048576},
	{number_parse_size, "2g", UINT64_C(2147483648)},
	{number_parse_size, "17179869183g", UINT64_C(18446744072635809792)},
	{number_parse_size, "17179869184g", BAD},
	{number_parse_size, "k", BAD},
	{number_parse_size, "1kb", BAD},
	{number_parse_size, "1t", BAD},
	{number_parse_size, "", BAD},
	{number_parse_mode, "0644", 0644},
	{number_parse_mode, "644", 0644},
	{number_parse_mode, "7777", 07777},
	{number_parse_mode, "0", 0},
	{number_parse_mode, "", BAD},
	{number_parse_mode, "0648", BAD},
	{number_parse_mode, "00644", BAD},
	{number_parse_mode, "rw", BAD},
};

static void test_parse(void)
{
	for (size_t i = 0; i < sizeof parse_cases / sizeof parse_cases[0]; i++) {
		const struct parse_case *c = &parse_cases[i];
		uint64_t value = BAD;
		bool is_good = c->parse(c->text, &value);

		if (is_good != (c->value != BAD) || value != c->value)
			printf("\n\"%s\": %d, %" PRIu64, c->text, is_good, value);
		CU_ASSERT_EQUAL(is_good, c->value != BAD);
		CU_ASSERT_EQUAL(value, c->value);
	}
}

/* Every text cut at every octet is refused, or the number of its digits; never something else. */
static void test_parse_cut(void)
{
	for (size_t i = 0; i < sizeof parse_cases / sizeof parse_cases[0]; i++) {
		const struct parse_case *c = &parse_cases[i];
		char text[64];

		for (size_t len = 0; len < strlen(c->text); len++) {
			uint64_t value = BAD;

			snprintf(text, sizeof text, "%.*s", (int)len, c->text);
			if (!c->parse(text, &value))
				CU_ASSERT_EQUAL(value, BAD);
			if (len == 0)
				CU_ASSERT_EQUAL(value, BAD);
		}
	}
}

static const struct {
	void (*format)(char text[static NUMBER_TEXT_MAX], uint64_t value);
	uint64_t value;
	const char *text;
} format_cases[] = {
	{number_format_duration, 0, "0"},
	{number_format_duration, 1, "1ms"},
	{number_format_duration, 1500, "1500ms"},
	{number_format_duration, 150000, "150s"},
	{number_format_duration, 60000, "1m"},
	{number_format_duration, 5400000, "90m"},
	{number_format_duration, 86400000, "1d"},
	{number_format_duration, UINT64_MAX, "18446744073709551615ms"},
	{number_format_size, 0, "0"},
	{number_format_size, 1, "1"},
	{number_format_size, 1000, "1000"},
	{number_format_size, 16384, "16k"},
	{number_format_size, 1048576, "1m"},
	{number_format_size, UINT64_C(1) << 40, "1024g"},
	{number_format_size, UINT64_MAX, "18446744073709551615"},
	{number_format_mode, 0, "0000"},
	{number_format_mode, 0644, "0644"},
	{number_format_mode, 07777, "7777"},
};

static void test_format(void)
{
	for (size_t i = 0; i < sizeof format_cases / sizeof format_cases[0]; i++) {
		char text[NUMBER_TEXT_MAX];

		format_cases[i].format(text, format_cases[i].value);
		CU_ASSERT_STRING_EQUAL(text, format_cases[i].text);
	}
}

CU_TestInfo number_tests[] = {
	{"parse", test_parse},
	{"parse cut", test_parse_cut},
	{"format", test_format},
	CU_TEST_INFO_NULL,
};
