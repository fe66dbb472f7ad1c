/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "number.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	uint64_t factor;
};

/* The largest first. */
static const struct unit durations[] = {
	{"d", 24 * 60 * 60 * 1000}, {"h", 60 * 60 * 1000}, {"m", 60 * 1000}, {"s", 1000}, {"ms", 1},
	{NULL, 0},
};

static const struct unit sizes[] = {
	{"g", 1024 * 1024 * 1024}, {"m", 1024 * 1024}, {"k", 1024}, {"", 1},
	{NULL, 0},
};

/* Reads digits; returns what follows them, NULL when there are none or the number does not fit. */
static const char *read_digits(const char *text, unsigned base, uint64_t *value)
{
	uint64_t n = 0;
	const char *p;

	for (p = text; *p >= '0' && (unsigned)(*p - '0') < base; p++)
		if (__builtin_mul_overflow(n, base, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
			return NULL;
	*value = n;
	return p > text ? p : NULL;
}

bool number_parse_count(const char *text, uint64_t *value)
{
	uint64_t n;
	const char *rest = read_digits(text, 10, &n);

	if (!rest || *rest)
		return false;
	*value = n;
	return true;
}

static bool parse_with_unit(const char *text, const struct unit *units,
			    int (*compare)(const char *, const char *), uint64_t *value)
{
	uint64_t n;
	const char *rest = read_digits(text, 10, &n);

	for (; rest && units->name; units++)
		if (compare(rest, units->name) == 0) {
			if (__builtin_mul_overflow(n, units->factor, &n))
				return false;
			*value = n;
			return true;
		}
	return false;
}

bool number_parse_duration(const char *text, uint64_t *value)
{
	if (strcmp(text, "0") == 0) {
		*value = 0;
		return true;
	}
	return parse_with_unit(text, durations, strcmp, value);
}

bool number_parse_size(const char *text, uint64_t *value)
{
	return parse_with_unit(text, sizes, strcasecmp, value);
}

bool number_parse_mode(const char *text, uint64_t *value)
{
	uint64_t n;
	const char *rest = strlen(text) <= 4 ? read_digits(text, 8, &n) : NULL;

	if (!rest || *rest)
		return false;
	*value = n;
	return true;
}

static void format_with_unit(char *text, const struct unit *units, uint64_t value)
{
	while (value % units->factor)
		units++;
	snprintf(text, NUMBER_TEXT_MAX, "%" PRIu64 "%s", value / units->factor, units->name);
}

void number_format_duration(char text[static NUMBER_TEXT_MAX], uint64_t ms)
{
	if (ms)
		format_with_unit(text, durations, ms);
	else
		strcpy(text, "0");
}

void number_format_size(char text[static NUMBER_TEXT_MAX], uint64_t octets)
{
	if (octets)
		format_with_unit(text, sizes, octets);
	else
		strcpy(text, "0");
}

void number_format_mode(char text[static NUMBER_TEXT_MAX], uint64_t mode)
{
	snprintf(text, NUMBER_TEXT_MAX, "%04" PRIo64, mode & 07777);
}
