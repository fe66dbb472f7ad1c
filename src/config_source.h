/* SPDX-License-Identifier: MIT */
/* Where the configuration comes from: the file, and the overrides of the command line. */
#ifndef CONFIG_SOURCE_H
#define CONFIG_SOURCE_H

#include <jansson.h>

#include "err.h"

/* The file at `path` as JSON, an object; the caller owns it.  NULL with the reason in *err. */
json_t *config_source_read(const char *path, struct err *err);

/*
 * Sets what the overrides ("limits.body_size=2m", "listen[0].backlog=10"; NULL at the end) say in
 * the object.  A list that it lacks starts as the default.  Those that can't be set are in *err.
 */
void config_source_override(json_t *root, char *const *overrides, struct err *err);

#endif
