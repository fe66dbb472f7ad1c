/* SPDX-License-Identifier: MIT */
/* Not installed: `config_doc schema|keys` prints one of the generated documents. */
#include "autoconf.h"

#include <string.h>

#include "config_doc.h"

static const struct {
	const char *name;
	void (*write)(FILE *out);
} documents[] = {{"schema", config_doc_schema}, {"keys", config_doc_keys}};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof documents / sizeof documents[0]; i++)
		if (strcmp(argv[1], documents[i].name) == 0) {
			documents[i].write(stdout);
			return fflush(stdout) == 0 ? 0 : 1;
		}
	fputs("usage: config_doc schema|keys\n", stderr);
	return 64;
}
