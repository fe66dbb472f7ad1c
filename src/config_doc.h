/* SPDX-License-Identifier: MIT */
/* Documents made of the table of keys.  They do not depend on where whitecap is installed. */
#ifndef CONFIG_DOC_H
#define CONFIG_DOC_H

#include <stdio.h>

/* JSON Schema, draft 2020-12: conf/whitecap.schema.json. */
void config_doc_schema(FILE *out);

/* The list of keys of whitecap.json(5), in mdoc(7). */
void config_doc_keys(FILE *out);

#endif
