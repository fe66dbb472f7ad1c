/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "http_date.h"

extern CU_TestInfo http_date_tests[];

static const struct {
	time_t seconds;
	const char *text;
} cases[] = {
	{0, "Thu, 01 Jan 1970 00:00:00 GMT"},
	{784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},
	{951782399, "Mon, 28 Feb 2000 23:59:59 GMT"},
	{951782400, "Tue, 29 Feb 2000 00:00:00 GMT"},
	{951868800, "Wed, 01 Mar 2000 00:00:00 GMT"},
	{1767225599, "Wed, 31 Dec 2025 23:59:59 GMT"},
	{1767225600, "Thu, 01 Jan 2026 00:00:00 GMT"},
	{2147483648, "Tue, 19 Jan 2038 03:14:08 GMT"},
	{4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"},
	{253402300799, "Fri, 31 Dec 9999 23:59:59 GMT"},
};

static void check_cases(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[HTTP_DATE_LEN + 1];

		http_date_format(text, cases[i].seconds);
		CU_ASSERT_STRING_EQUAL(text, cases[i].text);
	}
}

/* Against strftime, over days of every month and weekday; this program runs in the C locale. */
static void test_days(void)
{
	for (time_t seconds = 0; seconds < 4102444800; seconds += 86400 * 5 + 3661) {
		char text[HTTP_DATE_LEN + 1], expected[HTTP_DATE_LEN + 1];

		http_date_format(text, seconds);
		strftime(expected, sizeof expected, "%a, %d %b %Y %H:%M:%S GMT", gmtime(&seconds));
		CU_ASSERT_STRING_EQUAL(text, expected);
	}
}

static void test_time_zone(void)
{
	char *before = getenv("TZ") ? strdup(getenv("TZ")) : NULL;

	setenv("TZ", "XYZ-11:30", 1);
	tzset();
	check_cases();
	if (before)
		setenv("TZ", before, 1);
	else
		unsetenv("TZ");
	tzset();
	free(before);
}

CU_TestInfo http_date_tests[] = {
	{"cases", check_cases},
	{"days", test_days},
	{"time zone", test_time_zone},
	CU_TEST_INFO_NULL,
};
