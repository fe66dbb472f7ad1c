/* SPDX-License-Identifier: MIT */
/* A configuration file.  What is taken is printed, taken again, and printed the same. */
#include "autoconf.h"

#include "fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"

static int file_with(const void *data, size_t len, char *path, size_t size)
{
	int fd = memfd_create("config", 0);

	assert(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	snprintf(path, size, "/proc/self/fd/%d", fd);
	return fd;
}

static struct config *load(const void *data, size_t len)
{
	char path[32];
	struct err err = {0};
	int fd = file_with(data, len, path, sizeof path);
	struct config *config = config_load(path, NULL, &err);

	close(fd);
	return config;
}

static char *dump(const struct config *config, size_t *len)
{
	char *text;
	FILE *out = open_memstream(&text, len);

	config_dump(config, out);
	fclose(out);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct config *config = load(data, len), *again;
	size_t first_len, second_len;
	char *first, *second;

	if (!config)
		return 0;
	first = dump(config, &first_len);
	again = load(first, first_len);
	assert(again);
	second = dump(again, &second_len);
	assert(first_len == second_len && memcmp(first, second, first_len) == 0);
	free(first);
	free(second);
	config_free(config);
	config_free(again);
	return 0;
}
