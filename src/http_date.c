/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "http_date.h"

#include <string.h>

static char *two_digits(char *out, int value)
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
	static const char days[] = "Sun, Mon, Tue, Wed, Thu, Fri, Sat, ";
	static const char months[] = " Jan  Feb  Mar  Apr  May  Jun  Jul  Aug  Sep  Oct  Nov  Dec ";
	struct tm tm;

	gmtime_r(&seconds, &tm);
	out = text(out, days + 5 * tm.tm_wday, 5);
	out = two_digits(out, tm.tm_mday);
	out = text(out, months + 5 * tm.tm_mon, 5);
	out = two_digits(out, (tm.tm_year + 1900) / 100 % 100);
	out = two_digits(out, tm.tm_year % 100);
	*out++ = ' ';
	out = two_digits(out, tm.tm_hour);
	*out++ = ':';
	out = two_digits(out, tm.tm_min);
	*out++ = ':';
	out = two_digits(out, tm.tm_sec);
	text(out, " GMT", 5);
}
