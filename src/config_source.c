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
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);

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

static const struct config_key *find_list(const char *name)
{
	const struct config_key *key = config_table_find(&config_table_root, name);

	return key && key->table ? key : NULL;
}

/* The list of that name, made when it is not there; NULL when something else is. */
static json_t *get_list(json_t *object, const char *name)
{
	const struct config_key *key = find_list(name);

	if (!json_object_get(object, name))
		json_object_set_new(object, name,
				    key ? config_value_of_text(key->def) : json_array());
	return json_is_array(json_object_get(object, name)) ? json_object_get(object, name) : NULL;
}

/* The object that is entry `index` of the list; one that is a mere text becomes an object. */
static json_t *get_entry(json_t *list, const char *name, size_t index)
{
	const struct config_key *key = find_list(name);
	json_t *entry = json_array_get(list, index);

	if (!entry)
		json_array_append_new(list, json_object());
	else if (json_is_string(entry) && key && key->plain)
		json_array_set_new(list, index, json_pack("{s:O}", key->plain, entry));
	entry = json_array_get(list, index);
	return json_is_object(entry) ? entry : NULL;
}

/* The object of that name, made when it is not there; NULL when something else is. */
static json_t *get_object(json_t *object, const char *name)
{
	json_t *child = json_object_get(object, name);

	if (!child || json_is_null(child))
		json_object_set_new(object, name, json_object());
	child = json_object_get(object, name);
	return json_is_object(child) ? child : NULL;
}

/* Sets the value of a name without anything behind it; a list takes its only entry without brackets. */
static bool set_name(json_t *object, const char *name, json_t *value)
{
	if (find_list(name) && !json_is_array(value))
		return json_object_set_new(object, name, json_pack("[O]", value)) == 0;
	return json_object_set(object, name, value) == 0;
}

/* Sets list[index], or moves on to that entry: *object.  False: there is no such place. */
static bool enter_list(json_t **object, const char *name, const char **path, json_t *value)
{
	json_t *list = get_list(*object, name);
	size_t digits = strspn(*path, "0123456789");
	char number[NUMBER_TEXT_MAX];
	uint64_t index;

	if (!list || digits >= sizeof number || (*path)[digits] != ']')
		return false;
	memcpy(number, *path, digits);
	number[digits] = '\0';
	*path += digits + 1;
	if (!number_parse_count(number, &index) || index > json_array_size(list))
		return false;
	if (**path == '.')
		return (*object = get_entry(list, name, index));
	return **path == '\0' && (index == json_array_size(list)
				? json_array_append(list, value)
				: json_array_set(list, index, value)) == 0;
}

/* False: the path does not lead to a place in the object. */
static bool set_path(json_t *object, const char *path, json_t *value)
{
	char name[CONFIG_PATH_MAX];
	size_t len;

	for (;; path++) {
		len = strcspn(path, ".[");
		if (len == 0 || len >= sizeof name)
			return false;
		memcpy(name, path, len);
		name[len] = '\0';
		path += len;
		if (*path == '\0')
			return set_name(object, name, value);
		if (*path == '.')
			object = get_object(object, name);
		else if (path++, !enter_list(&object, name, &path, value))
			return false;
		if (!object || *path == '\0')
			return object;
	}
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
