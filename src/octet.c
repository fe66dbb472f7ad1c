/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "octet.h"

#define TOKEN OCTET_TOKEN
#define TARGET OCTET_TARGET
#define HOST OCTET_HOST
#define TEXT OCTET_TEXT
#define ALPHA (TOKEN | TARGET | HOST | TEXT)
#define MARK ALPHA
#define DELIM (TARGET | HOST | TEXT)

/* clang-format off */
const unsigned char octet_class[256] = {
	['\t'] = TEXT, [' '] = TEXT, ['"'] = TEXT, ['<'] = TEXT, ['>'] = TEXT, ['\\'] = TEXT,
	['{'] = TEXT, ['}'] = TEXT,
	['!'] = MARK, ['$'] = MARK, ['&'] = MARK, ['\''] = MARK, ['*'] = MARK, ['+'] = MARK,
	['-'] = MARK, ['.'] = MARK, ['_'] = MARK, ['~'] = MARK,
	['('] = DELIM, [')'] = DELIM, [','] = DELIM, [';'] = DELIM, ['='] = DELIM,
	['/'] = TARGET | TEXT, [':'] = TARGET | TEXT, ['?'] = TARGET | TEXT, ['@'] = TARGET | TEXT,
	['['] = TARGET | TEXT, [']'] = TARGET | TEXT, ['|'] = TOKEN | TARGET | TEXT,
	['#'] = TOKEN | TEXT, ['`'] = TOKEN | TEXT, ['^'] = TOKEN | TEXT, ['%'] = TOKEN | TEXT,
	['0' ... '9'] = ALPHA | OCTET_HEX,
	['A' ... 'F'] = ALPHA | OCTET_HEX, ['G' ... 'Z'] = ALPHA,
	['a' ... 'f'] = ALPHA | OCTET_HEX, ['g' ... 'z'] = ALPHA,
	[128 ... 255] = TEXT,
};
/* clang-format on */
