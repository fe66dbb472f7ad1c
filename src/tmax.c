/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "tmax.h"

#include <stdbool.h>
#include <string.h>

static const char name[] = "\"tmax\"";

enum { NAME_LEN = sizeof name - 1, DIGITS_MAX = 9 };

struct scan {
	const char *at, *end;
};

static void skip_blanks(struct scan *scan)
{
	while (scan->at < scan->end &&
	       (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t'))
		scan->at++;
}

/* After blanks. */
static bool take(struct scan *scan, char c)
{
	skip_blanks(scan);
	if (scan->at == scan->end || *scan->at != c)
		return false;
	scan->at++;
	return true;
}

/* `at` is behind the opening quote: goes behind the closing one. */
static bool skip_string(struct scan *scan)
{
	const char *quote, *back;

	while ((quote = memchr(scan->at, '"', (size_t)(scan->end - scan->at)))) {
		for (back = quote; back > scan->at && back[-1] == '\\';)
			back--;
		scan->at = quote + 1;
		if ((quote - back) % 2 == 0)
			return true;
	}
	return false;
}

/* Goes behind the bracket that closes the one before `at`.  Kinds of brackets are not told apart.
 */
static bool skip_nested(struct scan *scan)
{
	static const signed char steps[256] = {
		['"'] = 2, ['{'] = 1, ['['] = 1, ['}'] = -1, [']'] = -1};
	size_t depth = 1;

	while (depth > 0 && scan->at < scan->end) {
		signed char step = steps[(unsigned char)*scan->at++];

		if (step == 2 && !skip_string(scan))
			return false;
		if (step == 1)
			depth++;
		if (step == -1)
			depth--;
	}
	return depth == 0;
}

/* A value, up to the comma or bracket behind it. */
static bool skip_value(struct scan *scan)
{
	skip_blanks(scan);
	if (scan->at == scan->end)
		return false;
	switch (*scan->at) {
	case '"':
		scan->at++;
		return skip_string(scan);
	case '{':
	case '[':
		scan->at++;
		return skip_nested(scan);
	default:
		while (scan->at < scan->end && *scan->at != ',' && *scan->at != '}')
			scan->at++;
		return true;
	}
}

static uint32_t read_number(struct scan *scan)
{
	uint32_t value = 0;
	int digits = 0;

	skip_blanks(scan);
	for (; scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9'; scan->at++) {
		if (digits++ == DIGITS_MAX)
			return 0;
		value = 10 * value + (uint32_t)(*scan->at - '0');
	}
	skip_blanks(scan);
	return scan->at < scan->end && (*scan->at == ',' || *scan->at == '}') ? value : 0;
}

uint32_t tmax_find(const char *body, size_t len)
{
	struct scan scan = {body, body + len};

	if (len == 0 || !memmem(body, len, name, NAME_LEN) || !take(&scan, '{'))
		return 0;
	do {
		bool found;

		skip_blanks(&scan);
		found = scan.end - scan.at > NAME_LEN && memcmp(scan.at, name, NAME_LEN) == 0;
		if (!take(&scan, '"') || !skip_string(&scan) || !take(&scan, ':'))
			return 0;
		if (found)
			return read_number(&scan);
	} while (skip_value(&scan) && take(&scan, ','));
	return 0;
}
