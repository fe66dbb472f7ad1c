/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "http_date.h"

#include <stdint.h>
#include <string.h>

static char *two_digits(char *out, unsigned value)
{
	*out++ = (char)('0' + value / 10);
	*out++ = (char)('0' + value % 10);
	return out;
}

static char *text(char *out, const char *from, size_t len)
{
	memcpy(out, from, len);
	return out + len;
}

/*
 * The day's date in the Gregorian calendar, with years that begin in March, so that the leap day is
 * the last.  Not gmtime_r(): that takes a lock, and a fault handler has to write dates too.
 */
static void split_days(uint64_t days, unsigned *year, unsigned *month, unsigned *day)
{
	uint64_t since = days + 719468; /* since 0000-03-01 */
	uint64_t era = since / 146097, of_era = since % 146097;
	uint64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	uint64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	uint64_t shifted = (5 * of_year + 2) / 153; /* months since March */

	*day = (unsigned)(of_year - (153 * shifted + 2) / 5 + 1);
	*month = (unsigned)(shifted < 10 ? shifted + 3 : shifted - 9);
	*year = (unsigned)(era * 400 + year_of_era + (*month <= 2));
}

void http_date_format(char out[HTTP_DATE_LEN + 1], time_t seconds)
{
	static const char names[] = "Thu, Fri, Sat, Sun, Mon, Tue, Wed, "; /* 1970-01-01 was a Thursday */
	static const char months[] = " Jan  Feb  Mar  Apr  May  Jun  Jul  Aug  Sep  Oct  Nov  Dec ";
	uint64_t days = (uint64_t)seconds / 86400;
	unsigned of_day = (unsigned)((uint64_t)seconds % 86400), year, month, day;

	split_days(days, &year, &month, &day);
	out = text(out, names + 5 * (days % 7), 5);
	out = two_digits(out, day);
	out = text(out, months + 5 * (month - 1), 5);
	out = two_digits(out, year / 100 % 100);
	out = two_digits(out, year % 100);
	*out++ = ' ';
	out = two_digits(out, of_day / 3600);
	*out++ = ':';
	out = two_digits(out, of_day / 60 % 60);
	*out++ = ':';
	out = two_digits(out, of_day % 60);
	text(out, " GMT", 5);
}
