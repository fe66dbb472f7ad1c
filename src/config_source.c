/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "config_source.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_table.h"
#include "config_value.h"
#include "memory.h"
#include "number.h"

enum { FILE_MAX = 16 * 1024 * 1024 };

/* Reads all that is there, FILE_MAX and one octet at most.  NULL with errno. */
static char *read_all(FILE *file, size_t *len)
{
	size_t room = 0, got;
	char *text = NULL, *grown;

	*len = 0;
	do {
		room = room ? room * 2 : 65536;
		if (room > FILE_MAX + 1)
			room = FILE_MAX + 1;
		if (!(grown = realloc(text, room)))
			goto fail;
		text = grown;
		got = fread(text + *len, 1, room - *len, file);
		*len += got;
	} while (*len == room && room <= FILE_MAX);
	if (!ferror(file))
		return text;
fail:
	free(text);
	return NULL;
}

/* What the parser's own words leave open. */
static const char *explain(const char *text, size_t len, const json_error_t *error)
{
	size_t at = error->position > 0 ? (size_t)error->position - 1 : 0;

	if (len == 0)
		return " (the file is empty)";
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		return " (the file begins with a byte order mark, which JSON does not have)";
	if (at < len && text[at] == '\0')
		return " (there is a NUL octet)";
	if (at < len && (text[at] == '/' || text[at] == '#'))
		return " (a comment is a key that begins with //)";
	return "";
}

static json_t *parse(const char *path, const char *text, size_t len, struct err *err)
{
	json_error_t error;
	json_t *root = memory_parse_json(text, len, JSON_REJECT_DUPLICATES, &error);

	if (root && json_is_object(root))
		return root;
	if (root)
		err_add(err, "%s: found an array, expected an object", path);
	else
		err_add(err, "%s:%d:%d: %s%s", path, error.line, error.column, error.text,
			explain(text, len, &error));
	json_decref(root);
	return NULL;
}

json_t *config_source_read(const char *path, struct err *err)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	json_t *root = NULL;
	size_t len;

	if (!file || !(text = read_all(file, &len)))
		err_add(err, "%s: can't read the file: %s", path, strerror(errno));
	else if (len > FILE_MAX)
		err_add(err, "%s: found more than %d octets, expected a configuration", path,
			FILE_MAX);
	else
		root = parse(path, text, len, err);
	free(text);
	if (file)
		fclose(file);
	return root;
}

/* Overrides. */

/* Where an override has arrived at: a name in an object, and its key if it is a known list. */
struct place {
	json_t *object;
	char name[CONFIG_PATH_MAX];
	const struct config_key *list;
};

static const struct config_key *find_list(const char *name)
{
	const struct config_key *key = config_table_find(&config_table_root, name);

	return key && key->table ? key : NULL;
}

/* The array at the place, made when it is not there; NULL when something else is. */
static json_t *get_array(const struct place *place)
{
	json_t *object = place->object;
	const char *name = place->name;

	if (!json_object_get(object, name))
		json_object_set_new(object, name,
				    place->list ? config_value_of_text(place->list->def)
						: json_array());
	return json_is_array(json_object_get(object, name)) ? json_object_get(object, name) : NULL;
}

/* The object that is the entry of the array; one that is a mere text becomes an object. */
static json_t *get_entry(const struct place *place, json_t *array, size_t index)
{
	json_t *entry = json_array_get(array, index);

	if (!entry)
		json_array_append_new(array, json_object());
	else if (json_is_string(entry) && place->list && place->list->plain)
		json_array_set_new(array, index, json_pack("{s:O}", place->list->plain, entry));
	entry = json_array_get(array, index);
	return json_is_object(entry) ? entry : NULL;
}

/* The object at the place, made when it is not there; NULL when something else is. */
static json_t *get_object(const struct place *place)
{
	json_t *child = json_object_get(place->object, place->name);

	if (!child || json_is_null(child))
		json_object_set_new(place->object, place->name, json_object());
	child = json_object_get(place->object, place->name);
	return json_is_object(child) ? child : NULL;
}

/* A list takes its only entry without brackets. */
static bool set_value(const struct place *place, json_t *value)
{
	bool is_alone = place->list && !json_is_array(value);

	return json_object_set_new(place->object, place->name,
				   is_alone ? json_pack("[O]", value) : json_incref(value)) == 0;
}

static bool set_entry(json_t *array, size_t index, json_t *value)
{
	return (index == json_array_size(array) ? json_array_append(array, value)
						: json_array_set(array, index, value)) == 0;
}

/* Reads "7]", and moves *path behind it. */
static bool read_index(const char **path, uint64_t *index)
{
	size_t digits = strspn(*path, "0123456789");
	char number[NUMBER_TEXT_MAX];

	if (digits >= sizeof number || (*path)[digits] != ']')
		return false;
	memcpy(number, *path, digits);
	number[digits] = '\0';
	*path += digits + 1;
	return number_parse_count(number, index);
}

/* Reads a name, and moves *path behind it. */
static bool read_name(const char **path, struct place *place)
{
	size_t len = strcspn(*path, ".[");

	if (len == 0 || len >= sizeof place->name)
		return false;
	memcpy(place->name, *path, len);
	place->name[len] = '\0';
	*path += len;
	return true;
}

/* False: the path does not lead to a place. */
static bool set_path(json_t *root, const char *path, json_t *value)
{
	struct place place = {.object = root};
	json_t *array;
	uint64_t index;

	while (place.object && read_name(&path, &place)) {
		place.list = place.object == root ? find_list(place.name) : NULL;
		if (*path == '\0')
			return set_value(&place, value);
		if (*path++ == '.') {
			place.object = get_object(&place);
			continue;
		}
		array = get_array(&place);
		if (!array || !read_index(&path, &index) || index > json_array_size(array))
			return false;
		if (*path == '\0')
			return set_entry(array, index, value);
		if (*path++ != '.')
			return false;
		place.object = get_entry(&place, array, index);
	}
	return false;
}

static void override(json_t *root, const char *text, struct err *err)
{
	const char *equals = strchr(text, '=');
	json_t *value = equals ? config_value_of_text(equals + 1) : NULL;
	char path[CONFIG_PATH_MAX];

	if (!equals) {
		err_add(err, "-o %s: found no '=', expected path=value, such as workers=2", text);
	} else if (!value) {
		err_add(err, "-o %s: found a value that is not UTF-8", text);
	} else {
		snprintf(path, sizeof path, "%.*s", (int)(equals - text), text);
		if (!set_path(root, path, value))
			err_add(err, "-o %s: found a path that leads nowhere, expected one such as "
				"limits.body_size or listen[0].backlog", path);
	}
	json_decref(value);
}

void config_source_override(json_t *root, char *const *overrides, struct err *err)
{
	for (; overrides && *overrides; overrides++)
		override(root, *overrides, err);
}
