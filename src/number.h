/* SPDX-License-Identifier: MIT */
/*
 * Numbers as people write them: counts, durations, sizes and octal modes, as whole texts.  A text
 * that is none, or does not fit in 64 bits, gives false and leaves *value alone.  Signs, blanks and
 * fractions are not taken.
 */
#ifndef NUMBER_H
#define NUMBER_H

#include <stdbool.h>
#include <stdint.h>

enum { NUMBER_TEXT_MAX = 24 }; /* any number formatted here, with the NUL */

/* "4096". */
bool number_parse_count(const char *text, uint64_t *value);

/* "20ms", "150s", "5m", "2h", "1d", and "0", which needs no unit.  In milliseconds. */
bool number_parse_duration(const char *text, uint64_t *value);

/* "512", "64k", "1m", "2g", also with capitals; k is 1024.  In octets. */
bool number_parse_size(const char *text, uint64_t *value);

/* "644", "0644": one to four octal digits. */
bool number_parse_mode(const char *text, uint64_t *value);

/* In the largest unit that divides the value; 0 is "0". */
void number_format_duration(char text[static NUMBER_TEXT_MAX], uint64_t ms);
void number_format_size(char text[static NUMBER_TEXT_MAX], uint64_t octets);

/* Four digits; values up to 07777. */
void number_format_mode(char text[static NUMBER_TEXT_MAX], uint64_t mode);

#endif
