/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "environment.h"

#include <stdlib.h>
#include <string.h>

/* Children have the memory in which the kernel put it, too. */
char *environment_take(const char *name)
{
	char *value = getenv(name), *copy;
	size_t len = strlen(name) + 1;

	if (value == NULL)
		return NULL;
	copy = strdup(value);
	unsetenv(name);
	memset(value - len, 0, len + strlen(value));
	return copy;
}
