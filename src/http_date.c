/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "http_date.h"

#include <stdint.h>
#include <string.h>

#include "calendar.h"

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

void http_date_format(char out[HTTP_DATE_LEN + 1], time_t seconds)
{
	static const char names[] = "Thu, Fri, Sat, Sun, Mon, Tue, Wed, "; /* 1970-01-01 was a Thursday */
	static const char months[] = " Jan  Feb  Mar  Apr  May  Jun  Jul  Aug  Sep  Oct  Nov  Dec ";
	uint64_t days = (uint64_t)seconds / 86400;
	unsigned of_day = (unsigned)((uint64_t)seconds % 86400);
	struct calendar_day date = calendar_day(days);

	out = text(out, names + 5 * (days % 7), 5);
	out = two_digits(out, date.day);
	out = text(out, months + 5 * (date.month - 1), 5);
	out = two_digits(out, date.year / 100 % 100);
	out = two_digits(out, date.year % 100);
	*out++ = ' ';
	out = two_digits(out, of_day / 3600);
	*out++ = ':';
	out = two_digits(out, of_day / 60 % 60);
	*out++ = ':';
	out = two_digits(out, of_day % 60);
	text(out, " GMT", 5);
}
