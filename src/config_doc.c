/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "config_doc.h"

#include <stdlib.h>
#include <string.h>

#include "config_table.h"
#include "config_value.h"


/* The schema. */

static json_t *integer_schema(const struct config_key *key)
{
	return json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum",
			 (json_int_t)config_value_bound(key, key->min), "maximum",
			 (json_int_t)config_value_bound(key, key->max));
}

static json_t *pattern_schema(const char *pattern)
{
	return json_pack("{s:s, s:s}", "type", "string", "pattern", pattern);
}

static json_t *choices_schema(const struct config_key *key)
{
	json_t *values = json_array();
	size_t len;

	for (const char *choice = key->choices; *choice; choice += len + (choice[len] == '|')) {
		len = strcspn(choice, "|");
		json_array_append_new(values, key->type == CONFIG_COUNT
						      ? json_integer(strtoll(choice, NULL, 10))
						      : json_stringn(choice, len));
	}
	return json_pack("{s:o}", "enum", values);
}

static json_t *count_schema(const struct config_key *key)
{
	return key->choices ? choices_schema(key) : integer_schema(key);
}

static json_t *size_schema(const struct config_key *key)
{
	return json_pack("{s:[o, o]}", "anyOf", integer_schema(key),
			 pattern_schema("^[0-9]+[kmgKMG]?$"));
}

static json_t *duration_schema(const struct config_key *key)
{
	return json_pack("{s:[o, o]}", "anyOf", integer_schema(key),
			 pattern_schema("^(0|[0-9]+(ms|s|m|h|d))$"));
}

static json_t *mode_schema(const struct config_key *key)
{
	(void)key;
	return pattern_schema("^0?[0-7]{1,3}$");
}

static json_t *bool_schema(const struct config_key *key)
{
	(void)key;
	return json_pack("{s:s}", "type", "boolean");
}

static json_t *real_schema(const struct config_key *key)
{
	return json_pack("{s:s, s:o, s:o}", "type", "number", "minimum",
			 config_value_of_text(key->min), "maximum", config_value_of_text(key->max));
}

static json_t *text_schema(const struct config_key *key)
{
	(void)key;
	return json_pack("{s:s, s:i}", "type", "string", "minLength", 1);
}

static json_t *address_schema(const struct config_key *key)
{
	(void)key;
	return pattern_schema("^([0-9.]+:[0-9]+|\\[[0-9A-Fa-f:.]+(%.+)?\\]:[0-9]+|unix:.+|fd:.+)$");
}

static json_t *prefix_schema(const struct config_key *key)
{
	(void)key;
	return pattern_schema("^/[^\\u0000-\\u0020\\u007f?#]*$");
}

static json_t *methods_schema(const struct config_key *key)
{
	(void)key;
	return json_pack("{s:s, s:i, s:o}", "type", "array", "minItems", 1, "items",
			 pattern_schema("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"));
}

static json_t *networks_schema(const struct config_key *key)
{
	(void)key;
	return json_pack("{s:s, s:o}", "type", "array", "items",
			 pattern_schema("^([0-9A-Fa-f:.]+(/[0-9]+)?|unix:)$"));
}

static json_t *options_schema(const struct config_key *key)
{
	(void)key;
	return json_pack("{s:s}", "type", "object");
}

static json_t *table_schema(const struct config_table *table);

static json_t *list_schema(const struct config_key *key)
{
	json_t *entry = table_schema(key->table);

	if (key->plain)
		entry = json_pack("{s:[o, o]}", "anyOf", address_schema(key), entry);
	return json_pack("{s:s, s:I, s:I, s:o}", "type", "array", "minItems",
			 (json_int_t)config_value_bound(key, key->min), "maxItems",
			 (json_int_t)config_value_bound(key, key->max), "items", entry);
}

static json_t *(*const schemas[CONFIG_TYPES])(const struct config_key *key) = {
	[CONFIG_COUNT] = count_schema,       [CONFIG_SIZE] = size_schema,
	[CONFIG_DURATION] = duration_schema, [CONFIG_MODE] = mode_schema,
	[CONFIG_CHOICE] = choices_schema,    [CONFIG_BOOL] = bool_schema,
	[CONFIG_REAL] = real_schema,         [CONFIG_TEXT] = text_schema,
	[CONFIG_ADDRESS] = address_schema,   [CONFIG_PREFIX] = prefix_schema,
	[CONFIG_METHODS] = methods_schema,   [CONFIG_NETWORKS] = networks_schema,
	[CONFIG_OPTIONS] = options_schema,   [CONFIG_LISTENS] = list_schema,
	[CONFIG_ROUTES] = list_schema,
};

static const char *shown_default(const struct config_key *key)
{
	return key->shown ? key->shown : key->def;
}

static json_t *key_schema(const struct config_key *key)
{
	json_t *schema = schemas[key->type](key), *described;

	if (key->zero)
		schema = json_pack("{s:[{s:s}, o]}", "anyOf", "const", key->zero, schema);
	if (key->nullable)
		schema = json_pack("{s:[{s:s}, o]}", "anyOf", "type", "null", schema);
	described = json_pack("{s:s}", "description", key->doc);
	json_object_update(described, schema);
	json_decref(schema);
	if (key->def)
		json_object_set_new(described, "default", config_value_of_text(shown_default(key)));
	return described;
}

/* An object that has no keys but its own, and comments. */
static json_t *object_schema(bool may_be_null)
{
	return json_pack("{s:o, s:b, s:{s:b}, s:{}}", "type",
			 may_be_null ? json_pack("[s, s]", "object", "null")
				     : json_string("object"),
			 "additionalProperties", 0, "patternProperties", "^//", 1, "properties");
}

static void add_key(json_t *object, const char *name, const struct config_key *key)
{
	json_object_set_new(json_object_get(object, "properties"), name, key_schema(key));
	if (key->def)
		return;
	if (!json_object_get(object, "required"))
		json_object_set_new(object, "required", json_array());
	json_array_append_new(json_object_get(object, "required"), json_string(name));
}

static json_t *table_schema(const struct config_table *table)
{
	json_t *object = object_schema(false);
	json_t *properties = json_object_get(object, "properties");

	for (const struct config_key *key = table->keys; key < table->keys + table->count; key++) {
		const char *dot = strchr(key->path, '.');
		char group[CONFIG_PATH_MAX];

		if (!dot) {
			add_key(object, key->path, key);
			continue;
		}
		snprintf(group, sizeof group, "%.*s", (int)(dot - key->path), key->path);
		if (!json_object_get(properties, group))
			json_object_set_new(properties, group, object_schema(key->optional));
		add_key(json_object_get(properties, group), dot + 1, key);
	}
	return object;
}

void config_doc_schema(FILE *out)
{
	json_t *root = json_pack("{s:s, s:s, s:s}", "$schema",
				 "https://json-schema.org/draft/2020-12/schema", "title",
				 "whitecap.json", "description", "Configuration of whitecap(8).");
	json_t *object = table_schema(&config_table_root);

	json_object_update(root, object);
	json_decref(object);
	json_dumpf(root, out, JSON_INDENT(2));
	fputc('\n', out);
	json_decref(root);
}

/* The list of keys. */

static void write_word(const char *word, size_t len, FILE *out)
{
	for (size_t i = 0; i < len; i++)
		if (word[i] == '\\')
			fputs("\\e", out);
		else
			fputc(word[i], out);
}

/* A text, filled to lines of 78 columns; a new line after two blanks, which end a sentence. */
static void write_text(const char *text, FILE *out)
{
	size_t column = 0, len;

	for (; *text; text += len + strspn(text + len, " ")) {
		len = strcspn(text, " ");
		if (column > 0 && (column + 1 + len > 78 || text[-2] == ' ')) {
			fputc('\n', out);
			column = 0;
		} else if (column > 0) {
			fputc(' ', out);
			column++;
		}
		write_word(text, len, out);
		column += len;
	}
	fputc('\n', out);
}

static void write_takes(const struct config_key *key, FILE *out)
{
	char *text = NULL;
	size_t size;
	FILE *words = open_memstream(&text, &size);

	if (!words)
		return;
	fputs("Takes ", words);
	config_value_expected(key, words);
	fputs(".", words);
	fclose(words);
	write_text(text, out);
	free(text);
}

static void write_key(const struct config_key *key, const char *prefix, FILE *out)
{
	fprintf(out, ".It Cm %s%s\n", prefix, key->path);
	write_text(key->doc, out);
	write_takes(key, out);
	if (!key->def)
		fputs("Required.\n", out);
	else if (strcmp(key->def, "null") != 0)
		fprintf(out, "Default: %s\n", shown_default(key));
}

static void write_table(const struct config_table *table, const char *prefix, FILE *out)
{
	for (const struct config_key *key = table->keys; key < table->keys + table->count; key++) {
		char below[CONFIG_PATH_MAX];

		write_key(key, prefix, out);
		if (!key->table)
			continue;
		snprintf(below, sizeof below, "%s%s[].", prefix, key->path);
		write_table(key->table, below, out);
	}
}

void config_doc_keys(FILE *out)
{
	fputs(".Bl -tag -width Ds\n", out);
	write_table(&config_table_root, "", out);
	fputs(".El\n", out);
}
