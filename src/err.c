/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void err_init(struct err *err)
{
	err->count = 0;
	err->len = 0;
	err->text[0] = '\0';
}

/* A message may quote a file: what a terminal would obey becomes a question mark. */
static void defuse(char *text)
{
	for (; *text; text++)
		if (((unsigned char)*text < ' ' && *text != '\n') || *text == '\x7f')
			*text = '?';
}

void err_add(struct err *err, const char *format, ...)
{
	size_t separator = err->len > 0;
	size_t start = err->len + separator;
	size_t room = start < sizeof err->text ? sizeof err->text - start : 0;
	va_list args;
	int len;

	err->count++;
	va_start(args, format);
	len = room ? vsnprintf(err->text + start, room, format, args) : -1;
	va_end(args);
	if (len < 0 || ((size_t)len >= room && separator)) {
		err->text[err->len] = '\0';
		return;
	}
	defuse(err->text + start);
	if (separator)
		err->text[err->len] = '\n';
	err->len = start + strlen(err->text + start);
}
