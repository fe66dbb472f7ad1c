/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "config_table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "config.h"

#ifndef HANDLER_DIR
#define HANDLER_DIR "/usr/local/lib/whitecap"
#endif

#define NULLABLE .nullable = true
#define OPTIONAL .optional = true
#define KEY(struct_type, field, type_name, path_text, ...) \
	{.type = CONFIG_##type_name, .path = path_text, .offset = offsetof(struct_type, field), \
	 __VA_ARGS__},
#define TABLE(list, struct_type) \
	{.keys = list, .count = sizeof list / sizeof list[0], .size = sizeof(struct_type)}

static const struct config_key listen_keys[] = {
#define LISTEN_KEY(field, ...) KEY(struct config_listen, field, __VA_ARGS__)
#include "config_keys.def"
};

static const struct config_key route_keys[] = {
#define ROUTE_KEY(field, ...) KEY(struct config_route, field, __VA_ARGS__)
#define SHED_KEY(field, ...) KEY(struct config_route, shed.field, __VA_ARGS__)
#include "config_keys.def"
};

static const struct config_key root_keys[] = {
#define CONFIG_KEY(field, ...) KEY(struct config, field, __VA_ARGS__)
#include "config_keys.def"
};

const struct config_table config_table_listen = TABLE(listen_keys, struct config_listen);
const struct config_table config_table_route = TABLE(route_keys, struct config_route);
const struct config_table config_table_root = TABLE(root_keys, struct config);

const struct config_key *config_table_find(const struct config_table *table, const char *path)
{
	for (size_t i = 0; i < table->count; i++)
		if (strcmp(table->keys[i].path, path) == 0)
			return &table->keys[i];
	return NULL;
}

const struct config_key *config_table_find_group(const struct config_table *table,
						 const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < table->count; i++)
		if (strncmp(table->keys[i].path, path, len) == 0 && table->keys[i].path[len] == '.')
			return &table->keys[i];
	return NULL;
}

static size_t smallest(size_t a, size_t b, size_t c)
{
	size_t least = a < b ? a : b;

	return least < c ? least : c;
}

/* Levenshtein's distance, blind to case. */
static size_t distance(const char *a, const char *b)
{
	size_t a_len = strlen(a), b_len = strlen(b), row[CONFIG_PATH_MAX];

	if (b_len >= CONFIG_PATH_MAX)
		return b_len;
	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			bool differs = tolower((unsigned char)a[i - 1]) !=
				       tolower((unsigned char)b[j - 1]);
			size_t changed = diagonal + differs;

			diagonal = row[j];
			row[j] = smallest(row[j] + 1, row[j - 1] + 1, changed);
		}
	}
	return row[b_len];
}

static const char *last_part(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot ? dot + 1 : path;
}

/* A key in the wrong group is near, too. */
static size_t distance_of_paths(const char *path, const char *known)
{
	size_t whole = distance(path, known);
	size_t last = distance(last_part(path), last_part(known)) + 1;

	return whole < last ? whole : last;
}

bool config_table_suggest(const struct config_table *table, const char *path,
			  char out[static CONFIG_PATH_MAX])
{
	size_t best = 2 + strlen(last_part(path)) / 3;
	char candidate[CONFIG_PATH_MAX];
	bool found = false;

	for (size_t i = 0; i < table->count; i++) {
		const char *known = table->keys[i].path;
		size_t group = strcspn(known, ".");

		for (int whole = 1; whole >= 0; whole--) {
			snprintf(candidate, sizeof candidate, "%.*s",
				 whole ? (int)strlen(known) : (int)group, known);
			size_t away = whole ? distance_of_paths(path, candidate)
					    : distance(path, candidate);
			if (away >= best)
				continue;
			best = away;
			found = true;
			memcpy(out, candidate, sizeof candidate);
		}
	}
	return found;
}
