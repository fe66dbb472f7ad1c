/* SPDX-License-Identifier: MIT */
/*
 * The configuration: one JSON file, checked whole, into one struct.  Every key is declared once, in
 * config_keys.def; the fields below, the parser, the dump and the documents all come from there.
 *
 * Pure: no user is looked up, no address bound, no handler opened.  A struct config is never
 * changed after it was loaded, and owns all that it points to.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "err.h"

/* The C side of each type of key.  Durations are in milliseconds, sizes in octets. */
#define CONFIG_FIELD_COUNT(field) uint64_t field;
#define CONFIG_FIELD_SIZE(field) uint64_t field;
#define CONFIG_FIELD_DURATION(field) uint64_t field;
#define CONFIG_FIELD_MODE(field) uint64_t field;
#define CONFIG_FIELD_CHOICE(field) uint64_t field; /* place of the value among the choices */
#define CONFIG_FIELD_BOOL(field) bool field;
#define CONFIG_FIELD_REAL(field) double field;
#define CONFIG_FIELD_TEXT(field) char *field;      /* NULL: not set */
#define CONFIG_FIELD_ADDRESS(field) char *field;   /* in canonical form; NULL: none */
#define CONFIG_FIELD_PREFIX(field) char *field;
#define CONFIG_FIELD_METHODS(field) char **field;  /* ended by NULL; NULL: all */
#define CONFIG_FIELD_NETWORKS(field) char **field; /* ended by NULL, never NULL itself */
#define CONFIG_FIELD_OPTIONS(field) json_t *field; /* an object, never NULL */
#define CONFIG_FIELD_LISTENS(field) struct config_listen *field; size_t listen_count;
#define CONFIG_FIELD_ROUTES(field) struct config_route *field; size_t route_count;

enum config_access_format { CONFIG_ACCESS_JSON, CONFIG_ACCESS_COMBINED };
enum config_arrival { CONFIG_ARRIVAL_READ, CONFIG_ARRIVAL_KERNEL };
enum { CONFIG_ROUTES_MAX = 64, CONFIG_LISTENS_MAX = 64, CONFIG_WORKERS_MAX = 126 };

struct config_listen {
#define LISTEN_KEY(field, type, ...) CONFIG_FIELD_##type(field)
#include "config_keys.def"
};

struct config_shed {
#define SHED_KEY(field, type, ...) CONFIG_FIELD_##type(field)
#include "config_keys.def"
};

struct config_route {
#define ROUTE_KEY(field, type, ...) CONFIG_FIELD_##type(field)
#include "config_keys.def"
	struct config_shed shed;
};

struct config {
#define CONFIG_KEY(field, type, ...) CONFIG_FIELD_##type(field)
#include "config_keys.def"
	struct err warnings; /* keys that were set and have no effect */
};

/*
 * Loads the file at `path` (NULL: the built-in defaults) and applies the overrides, texts of the
 * form "limits.body_size=2m", ended by NULL (or NULL itself: none).  NULL when anything is wrong:
 * then every mistake is in *err.
 */
struct config *config_load(const char *path, char *const *overrides, struct err *err);
void config_free(struct config *config);

/* Prints the configuration in effect as JSON that config_load() takes, with the same outcome. */
void config_dump(const struct config *config, FILE *out);

#endif
