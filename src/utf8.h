/* SPDX-License-Identifier: MIT */
#ifndef UTF8_H
#define UTF8_H

#include <stddef.h>

/* Octets of the UTF-8 sequence of two or more that begins here, in a text ended by a NUL; 0: it is
 * none (RFC 3629, 4). */
size_t utf8_len(const unsigned char *s);

#endif
