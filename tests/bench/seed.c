/* SPDX-License-Identifier: MIT */
/*
 * Preloaded for callgrind.  jansson seeds its hash tables at random; with that the layout of the
 * heap changes, and with it how often a string lies across two pages, which string functions
 * notice.  With a fixed seed two runs count the same.
 */
#include <stddef.h>

void json_object_seed(size_t seed) __attribute__((weak));

static void __attribute__((constructor)) fix_seed(void)
{
	if (json_object_seed)
		json_object_seed(1);
}
