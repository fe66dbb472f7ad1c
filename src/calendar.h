/* SPDX-License-Identifier: MIT */
/*
 * Dates of the Gregorian calendar.  Not gmtime_r(): that reads TZ and takes a lock, and a fault
 * handler has to write dates too.  Async-signal-safe.
 */
#ifndef CALENDAR_H
#define CALENDAR_H

#include <stdint.h>

struct calendar_day {
	unsigned year, month, day; /* from 1 */
};

/* `days` since 1970-01-01. */
struct calendar_day calendar_day(uint64_t days);

#endif
