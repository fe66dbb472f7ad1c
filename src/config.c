/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "config_source.h"
#include "config_table.h"
#include "config_value.h"
#include "memory.h"
#include "number.h"

/* One run over the configuration, which goes on after each mistake. */
struct load {
	const char *file;        /* in messages */
	char *const *overrides;  /* may be NULL */
	struct err *err, *warnings;
};

/* A path out of its parts, cut where it is longer than any that is known. */
__attribute__((format(printf, 2, 3)))
static void join(char out[static CONFIG_PATH_MAX], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(out, CONFIG_PATH_MAX, format, args);
	va_end(args);
}

/* Messages. */

/* Whether the first len octets of `above` are the path, or lead to it. */
static bool is_below(const char *path, const char *above, size_t len)
{
	return strncmp(path, above, len) == 0 && strchr(".[", path[len]);
}

/* Whether an override has set what is at the path, or, if unknown, has made a group of it. */
static bool is_overridden(const struct load *load, const char *path, bool is_unknown)
{
	for (char *const *o = load->overrides; o && *o; o++) {
		size_t len = strcspn(*o, "=");

		if ((*o)[len] && (is_below(path, *o, len) ||
				  (is_unknown && is_below(*o, path, strlen(path)))))
			return true;
	}
	return false;
}

enum kind { MISTAKE, UNKNOWN_KEY, WARNING };

static void report(const struct load *load, enum kind kind, const char *path, const char *message)
{
	struct err *err = kind == WARNING ? load->warnings : load->err;

	if (is_overridden(load, path, kind == UNKNOWN_KEY))
		err_add(err, "-o %s: %s", path, message);
	else
		err_add(err, "%s: %s: %s", load->file, path, message);
}

/* value NULL: there is none. */
static void report_value(const struct load *load, const char *path, const struct config_key *key,
			 const json_t *value)
{
	char *message = NULL;
	size_t size;
	FILE *out = open_memstream(&message, &size);

	if (!out) {
		report(load, MISTAKE, path, strerror(ENOMEM));
		return;
	}
	fputs("found ", out);
	if (value)
		config_value_found(value, out);
	else
		fputs("nothing", out);
	fputs(", expected ", out);
	config_value_expected(key, out);
	fclose(out);
	report(load, MISTAKE, path, message);
	free(message);
}

static void report_kind(const struct load *load, const char *path, const json_t *value,
			const char *expected)
{
	char *message = NULL;
	size_t size;
	FILE *out = open_memstream(&message, &size);

	if (!out) {
		report(load, MISTAKE, path, strerror(ENOMEM));
		return;
	}
	fputs("found ", out);
	config_value_found(value, out);
	fprintf(out, ", expected %s", expected);
	fclose(out);
	report(load, MISTAKE, path, message);
	free(message);
}

static void report_unknown(const struct load *load, const struct config_table *table,
			   const char *prefix, const char *path)
{
	char near[CONFIG_PATH_MAX], message[2 * CONFIG_PATH_MAX + 64], whole[CONFIG_PATH_MAX];

	if (config_table_suggest(table, path, near))
		snprintf(message, sizeof message, "unknown key, the nearest known one is %s%s",
			 prefix, near);
	else
		snprintf(message, sizeof message, "unknown key, and none known is like it");
	join(whole, "%s%s", prefix, path);
	report(load, UNKNOWN_KEY, whole, message);
}

/* Keys that the table does not have. */

static bool is_comment(const char *name)
{
	return strncmp(name, "//", 2) == 0;
}

/* `group`: path of the object in its table, with a dot at its end, or empty. */
static void check_names(const struct load *load, const struct config_table *table, json_t *object,
			const char *prefix, const char *group)
{
	const struct config_key *first;
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value) {
		char path[CONFIG_PATH_MAX], whole[CONFIG_PATH_MAX];
		int len = snprintf(path, sizeof path - 1, "%s%s", group, name);
		bool fits = len >= 0 && (size_t)len < sizeof path - 1 && !strchr(name, '.');

		join(whole, "%s%s", prefix, path);
		if (is_comment(name) || (fits && config_table_find(table, path)))
			continue;
		first = fits ? config_table_find_group(table, path) : NULL;
		if (!first)
			report_unknown(load, table, prefix, path);
		else if (json_is_object(value))
			check_names(load, table, value, prefix, strcat(path, "."));
		else if (!first->optional || !json_is_null(value))
			report_kind(load, whole, value,
				    first->optional ? "an object, or null" : "an object");
	}
}

/* Values. */

static void load_table(const struct load *load, const struct config_table *table, json_t *object,
		       const char *prefix, void *out);

static void load_entry(const struct load *load, const struct config_key *key, const char *path,
		       json_t *value, void *out)
{
	json_t *entry = json_is_string(value) && key->plain ? json_pack("{s:O}", key->plain, value)
							    : json_incref(value);
	char prefix[CONFIG_PATH_MAX];

	join(prefix, "%s.", path);
	if (json_is_object(entry))
		load_table(load, key->table, entry, prefix, out);
	else
		report_kind(load, path, value, key->plain ? "a string or an object" : "an object");
	json_decref(entry);
}

static void load_list(const struct load *load, const struct config_key *key, const char *path,
		      json_t *value, void *out)
{
	size_t count = json_array_size(value);
	char *entries;

	if (!json_is_array(value) || count < config_value_bound(key, key->min) ||
	    count > config_value_bound(key, key->max) ||
	    !(entries = memory_get(count, key->table->size))) {
		report_value(load, path, key, value);
		return;
	}
	memcpy((char *)out + key->offset, &entries, sizeof entries);
	memcpy((char *)out + key->count_offset, &count, sizeof count);
	for (size_t i = 0; i < count; i++) {
		char at[CONFIG_PATH_MAX];

		join(at, "%s[%zu]", path, i);
		load_entry(load, key, at, json_array_get(value, i), entries + i * key->table->size);
	}
}

/* The value of a key, NULL without one; *is_in_group: the object that would hold it is there. */
static json_t *get_value(json_t *object, const char *path, bool *is_in_group)
{
	const char *dot = strchr(path, '.');

	if (dot) {
		object = json_object_getn(object, path, (size_t)(dot - path));
		path = dot + 1;
	}
	*is_in_group = json_is_object(object);
	return json_object_get(object, path);
}

static void load_key(const struct load *load, const struct config_key *key, json_t *object,
		     const char *prefix, void *out)
{
	bool is_in_group;
	json_t *given = get_value(object, key->path, &is_in_group);
	json_t *value = given ? json_incref(given) : NULL;
	char path[CONFIG_PATH_MAX];

	if (!given && key->def)
		value = config_value_of_text(key->def);
	join(path, "%s%s", prefix, key->path);
	if (value && key->table)
		load_list(load, key, path, value, out);
	else if (value ? !config_value_read(key, value, (char *)out + key->offset) : is_in_group)
		report_value(load, path, key, value);
	json_decref(value);
}

static void load_table(const struct load *load, const struct config_table *table, json_t *object,
		       const char *prefix, void *out)
{
	check_names(load, table, object, prefix, "");
	for (size_t i = 0; i < table->count; i++)
		load_key(load, &table->keys[i], object, prefix, out);
}

/* What several values must have in common.  A value that was refused is still zero. */

static void check_sizes(const struct load *load, const struct config *config)
{
	const struct config_key *key = config_table_find(&config_table_root, "limits.target_size");
	char expected[64], most[NUMBER_TEXT_MAX];
	json_t *found;

	if (!config->header_size || config->target_size <= config->header_size)
		return;
	found = config_value_print(key, &config->target_size);
	number_format_size(most, config->header_size);
	snprintf(expected, sizeof expected, "at most limits.header_size, \"%s\"", most);
	report_kind(load, "limits.target_size", found, expected);
	json_decref(found);
}

static void report_clash(const struct load *load, const char *path, const char *found,
			 const char *other)
{
	char message[2 * CONFIG_PATH_MAX];

	snprintf(message, sizeof message, "found \"%s\", expected one that does not clash with %s",
		 found, other);
	report(load, MISTAKE, path, message);
}

static bool is_same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

/* Whether the two can't be listened on at once.  Port 0 is another port each time. */
static bool have_common_port(const char *a, const char *b)
{
	struct address x, y;
	const char *expected;

	if (!a || !b || address_parse(&x, a, &expected) != 0 ||
	    address_parse(&y, b, &expected) != 0)
		return false;
	return address_is_overlapping(&x, &y) || (x.kind != ADDRESS_INET && strcmp(a, b) == 0);
}

/* Two listeners of the same name can't be told apart, whatever the port. */
static void check_addresses(const struct load *load, const struct config *config)
{
	char path[64], other[64];

	for (size_t i = 0; i < config->listen_count; i++) {
		const char *address = config->listens[i].address;

		snprintf(path, sizeof path, "listen[%zu].address", i);
		for (size_t j = 0; j < i; j++)
			if (is_same(address, config->listens[j].address) ||
			    have_common_port(address, config->listens[j].address)) {
				snprintf(other, sizeof other, "listen[%zu].address", j);
				report_clash(load, path, address, other);
				break;
			}
		if (have_common_port(address, config->admin_listen))
			report_clash(load, "admin.listen", config->admin_listen, path);
	}
}

static void check_clocks(const struct load *load, const struct config *config)
{
	char path[64];

	for (size_t i = 0; i < config->listen_count; i++) {
		const struct config_listen *listen = &config->listens[i];

		if (listen->arrival_clock != CONFIG_ARRIVAL_KERNEL || !listen->address ||
		    strncmp(listen->address, "unix:", 5) != 0)
			continue;
		snprintf(path, sizeof path, "listen[%zu].arrival_clock", i);
		report(load, WARNING, path, "set, but has no effect on a unix socket");
	}
}

/* NULL stands for all methods. */
static bool have_common_method(char *const *a, char *const *b)
{
	if (!a || !b)
		return true;
	for (; *a; a++)
		for (char *const *m = b; *m; m++)
			if (strcmp(*a, *m) == 0)
				return true;
	return false;
}

static void check_routes(const struct load *load, const struct config *config)
{
	char path[64], other[64];

	for (size_t i = 0; i < config->route_count; i++)
		for (size_t j = 0; j < i; j++) {
			const struct config_route *a = &config->routes[i], *b = &config->routes[j];

			if (!is_same(a->path, b->path) ||
			    !have_common_method(a->methods, b->methods))
				continue;
			snprintf(path, sizeof path, "routes[%zu].path", i);
			snprintf(other, sizeof other, "routes[%zu].path (same path, common method)",
				 j);
			report_clash(load, path, a->path, other);
			break;
		}
}

static void check_seccomp(const struct load *load, const struct config *config)
{
#ifdef HAVE_SECCOMP
	(void)load, (void)config;
#else
	json_t *found = json_true();

	if (config->seccomp)
		report_kind(load, "seccomp", found, "false: built without libseccomp");
	json_decref(found);
#endif
}

static void load_all(const struct load *load, json_t *root, struct config *config)
{
	config_source_override(root, load->overrides, load->err);
	load_table(load, &config_table_root, root, "", config);
	check_sizes(load, config);
	check_addresses(load, config);
	check_clocks(load, config);
	check_routes(load, config);
	check_seccomp(load, config);
}

struct config *config_load(const char *path, char *const *overrides, struct err *err)
{
	struct config *config = calloc(1, sizeof *config);
	struct load load = {.file = path ? path : "built-in defaults", .overrides = overrides,
			    .err = err, .warnings = config ? &config->warnings : NULL};
	unsigned mistakes = err->count;
	json_t *root;

	memory_watch_json();
	root = path ? config_source_read(path, err) : json_object();
	if (config)
		err_init(&config->warnings);
	if (config && root)
		load_all(&load, root, config);
	json_decref(root);
	if (!config || memory_has_lacked()) {
		err_init(err); /* what else was found may be no mistake */
		err_add(err, "%s: %s", load.file, strerror(ENOMEM));
	} else if (err->count == mistakes) {
		return config;
	}
	config_free(config);
	return NULL;
}

static void free_fields(const struct config_table *table, void *in);

static void free_list(const struct config_key *key, void *in)
{
	char *entries;
	size_t count;

	memcpy(&entries, (char *)in + key->offset, sizeof entries);
	memcpy(&count, (char *)in + key->count_offset, sizeof count);
	for (size_t i = 0; i < count; i++)
		free_fields(key->table, entries + i * key->table->size);
	free(entries);
}

static void free_fields(const struct config_table *table, void *in)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct config_key *key = &table->keys[i];

		if (key->table)
			free_list(key, in);
		else
			config_value_free(key, (char *)in + key->offset);
	}
}

void config_free(struct config *config)
{
	if (!config)
		return;
	free_fields(&config_table_root, config);
	free(config);
}

/* The dump. */

static json_t *print_table(const struct config_table *table, const void *in);

static json_t *print_key(const struct config_key *key, const void *in)
{
	json_t *array;
	char *entries;
	size_t count;

	if (!key->table)
		return config_value_print(key, (const char *)in + key->offset);
	memcpy(&entries, (const char *)in + key->offset, sizeof entries);
	memcpy(&count, (const char *)in + key->count_offset, sizeof count);
	array = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(array,
				      print_table(key->table, entries + i * key->table->size));
	return array;
}

/* Whether all keys of the optional group of `of` are as if it were not there. */
static bool is_group_off(const struct config_table *table, const struct config_key *of,
			 const void *in)
{
	size_t len = strcspn(of->path, ".") + 1;
	bool is_off = true;

	for (const struct config_key *key = table->keys; key < table->keys + table->count; key++) {
		json_t *value, *def;

		if (strncmp(key->path, of->path, len) != 0)
			continue;
		value = print_key(key, in);
		def = key->def ? config_value_of_text(key->def) : json_null();
		is_off = is_off && json_equal(value, def);
		json_decref(value);
		json_decref(def);
	}
	return is_off;
}

static json_t *print_table(const struct config_table *table, const void *in)
{
	json_t *object = json_object();

	for (const struct config_key *key = table->keys; key < table->keys + table->count; key++) {
		const char *dot = strchr(key->path, '.');
		char group[CONFIG_PATH_MAX];

		if (!dot) {
			json_object_set_new(object, key->path, print_key(key, in));
			continue;
		}
		snprintf(group, sizeof group, "%.*s", (int)(dot - key->path), key->path);
		if (!json_object_get(object, group))
			json_object_set_new(object, group,
					    key->optional && is_group_off(table, key, in)
						    ? json_null()
						    : json_object());
		json_object_set_new(json_object_get(object, group), dot + 1, print_key(key, in));
	}
	return object;
}

/* The fewest digits with which every real comes back as it was. */
static int find_precision(const json_t *value)
{
	char *text = json_dumps(value, JSON_REAL_PRECISION(15));
	json_t *again = text ? json_loads(text, 0, NULL) : NULL;
	int precision = again && json_equal(value, again) ? 15 : 17;

	json_decref(again);
	free(text);
	return precision;
}

void config_dump(const struct config *config, FILE *out)
{
	json_t *root = print_table(&config_table_root, config);

	json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(find_precision(root)));
	fputc('\n', out);
	json_decref(root);
}
