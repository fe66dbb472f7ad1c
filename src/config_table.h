/* SPDX-License-Identifier: MIT */
/* The keys of config_keys.def as tables, for those who walk over all of them. */
#ifndef CONFIG_TABLE_H
#define CONFIG_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum config_type {
	CONFIG_COUNT,
	CONFIG_SIZE,
	CONFIG_DURATION,
	CONFIG_MODE,
	CONFIG_CHOICE,
	CONFIG_BOOL,
	CONFIG_REAL,
	CONFIG_TEXT,
	CONFIG_ADDRESS,
	CONFIG_PREFIX,
	CONFIG_METHODS,
	CONFIG_NETWORKS,
	CONFIG_OPTIONS,
	CONFIG_LISTENS,
	CONFIG_ROUTES,
	CONFIG_TYPES /* their number */
};

enum { CONFIG_PATH_MAX = 256 }; /* of a key's path, with the NUL; longer ones are cut */

struct config_table;

struct config_key {
	enum config_type type;
	const char *path;                 /* in its table: "body_size", or "limits.body_size" */
	size_t offset;                    /* of its field in the table's struct */
	const char *def;                  /* NULL: required where its group is present */
	const char *shown;                /* default in documents, where the build decides */
	const char *min, *max;
	const char *zero;                 /* text that stands for 0, out of the bounds */
	const char *choices;              /* "json|combined" */
	const char *doc;
	const struct config_table *table; /* of the entries of a list */
	size_t count_offset;              /* of the number of entries */
	const char *plain;                /* key of an entry that is given as a mere text */
	bool nullable, optional;
};

struct config_table {
	const struct config_key *keys;
	size_t count;
	size_t size; /* of the struct */
};

extern const struct config_table config_table_root, config_table_listen, config_table_route;

/* The key of that path; NULL without one. */
const struct config_key *config_table_find(const struct config_table *table, const char *path);

/* The first key below the group of that path ("limits"); NULL: no such group. */
const struct config_key *config_table_find_group(const struct config_table *table,
						 const char *path);

/* The known key or group that the path resembles most, into out.  False: none is near. */
bool config_table_suggest(const struct config_table *table, const char *path,
			  char out[static CONFIG_PATH_MAX]);

#endif
