/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "utf8.h"

size_t utf8_len(const unsigned char *s)
{
	static const struct {
		unsigned char first, last, second_first, second_last;
		size_t len;
	} forms[] = {
		{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
		{0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (s[0] < forms[i].first || s[0] > forms[i].last)
			continue;
		if (s[1] < forms[i].second_first || s[1] > forms[i].second_last)
			return 0;
		for (size_t j = 2; j < forms[i].len; j++)
			if (s[j] < 0x80 || s[j] > 0xbf)
				return 0;
		return forms[i].len;
	}
	return 0;
}
