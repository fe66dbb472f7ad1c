/* SPDX-License-Identifier: MIT */
/* Runs a harness with the files of its corpus, without libFuzzer. */
#include "autoconf.h"

#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

enum { FILE_MAX = 1 << 20 };

static int replay(const char *path)
{
	uint8_t *data = malloc(FILE_MAX);
	FILE *file = fopen(path, "rb");
	size_t len;

	if (!data || !file) {
		perror(path);
		free(data);
		return -1;
	}
	len = fread(data, 1, FILE_MAX, file);
	fclose(file);
	LLVMFuzzerTestOneInput(data, len);
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	int failed = 0;

	for (int i = 1; i < argc; i++)
		failed -= replay(argv[i]);
	printf("%d passed, %d failed, 0 skipped\n", argc - 1 - failed, failed);
	return failed > 0;
}
