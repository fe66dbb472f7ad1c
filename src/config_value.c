/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "config_value.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "memory.h"
#include "number.h"
#include "peer.h"

enum { FOUND_MAX = 60 }; /* octets of a value that are quoted */

struct type {
	const char *expected, *such_as; /* in words; the bounds go between */
	bool (*read)(const struct config_key *key, const json_t *value, void *field);
	json_t *(*print)(const struct config_key *key, const void *field);
	void (*free)(void *field);                             /* NULL: nothing to free */
	bool (*parse)(const char *text, uint64_t *number);     /* numbers: what a string may be */
	void (*format)(char *text, uint64_t number);           /* numbers: as a string */
	bool whole;                                            /* numbers: may be a JSON integer */
	bool (*is_item)(const char *text);                     /* arrays of texts */
	size_t items_min;
};

static const struct type types[CONFIG_TYPES];

json_t *config_value_of_text(const char *text)
{
	json_t *value = memory_parse_json(text, strlen(text),
					  JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);

	return value ? value : json_string(text);
}

/* Choices: "json|combined". */

/* Place of the text among the choices, -1 if it is none. */
static int find_choice(const char *choices, const char *text)
{
	size_t len;
	int place = 0;

	for (; *choices; choices += len + (choices[len] == '|'), place++) {
		len = strcspn(choices, "|");
		if (strlen(text) == len && memcmp(text, choices, len) == 0)
			return place;
	}
	return -1;
}

static bool read_choice(const struct config_key *key, const json_t *value, void *field)
{
	int place =
		json_is_string(value) ? find_choice(key->choices, json_string_value(value)) : -1;

	if (place < 0)
		return false;
	*(uint64_t *)field = (uint64_t)place;
	return true;
}

static json_t *print_choice(const struct config_key *key, const void *field)
{
	const char *choice = key->choices;

	for (uint64_t place = *(const uint64_t *)field; place; place--)
		choice = strchr(choice, '|') + 1;
	return json_stringn(choice, strcspn(choice, "|"));
}

/* Numbers: counts, sizes, durations, modes. */

static bool to_number(const struct config_key *key, const json_t *value, uint64_t *number)
{
	const struct type *type = &types[key->type];

	if (key->zero && json_is_string(value) &&
	    strcmp(json_string_value(value), key->zero) == 0) {
		*number = 0;
		return true;
	}
	if (json_is_integer(value) && type->whole && json_integer_value(value) >= 0) {
		*number = (uint64_t)json_integer_value(value);
		return true;
	}
	return json_is_string(value) && type->parse &&
	       type->parse(json_string_value(value), number);
}

uint64_t config_value_bound(const struct config_key *key, const char *text)
{
	const struct type *type = &types[key->type];
	uint64_t number = 0;
	bool is_number = (type->whole && number_parse_count(text, &number)) ||
			 (type->parse && type->parse(text, &number));

	assert(is_number);
	return number;
}

static bool is_allowed(const struct config_key *key, const json_t *value, uint64_t number)
{
	char text[NUMBER_TEXT_MAX];

	if (key->choices) {
		snprintf(text, sizeof text, "%llu", (unsigned long long)number);
		return find_choice(key->choices, text) >= 0;
	}
	return (key->zero && json_is_string(value)) ||
	       (number >= config_value_bound(key, key->min) &&
		number <= config_value_bound(key, key->max));
}

static bool read_number(const struct config_key *key, const json_t *value, void *field)
{
	uint64_t number;

	if (!to_number(key, value, &number) || !is_allowed(key, value, number))
		return false;
	*(uint64_t *)field = number;
	return true;
}

static json_t *print_number(const struct config_key *key, const void *field)
{
	const struct type *type = &types[key->type];
	uint64_t number = *(const uint64_t *)field;
	char text[NUMBER_TEXT_MAX];

	if (!number && key->zero)
		return json_string(key->zero);
	if (!type->format || (!number && type->whole))
		return json_integer((json_int_t)number);
	type->format(text, number);
	return json_string(text);
}

static bool read_real(const struct config_key *key, const json_t *value, void *field)
{
	double number = json_number_value(value);

	if (!json_is_number(value) || number < strtod(key->min, NULL) ||
	    number > strtod(key->max, NULL))
		return false;
	*(double *)field = number;
	return true;
}

static json_t *print_real(const struct config_key *key, const void *field)
{
	double number = *(const double *)field;

	(void)key;
	return number == (double)(json_int_t)number ? json_integer((json_int_t)number)
						    : json_real(number);
}

static bool read_bool(const struct config_key *key, const json_t *value, void *field)
{
	(void)key;
	if (!json_is_boolean(value))
		return false;
	*(bool *)field = json_is_true(value);
	return true;
}

static json_t *print_bool(const struct config_key *key, const void *field)
{
	(void)key;
	return json_boolean(*(const bool *)field);
}

/* Texts. */

/* A text that is not empty, copied by `copy`, which gives NULL for one that it does not like. */
static bool read_copy(const json_t *value, char *(*copy)(const char *), void *field)
{
	const char *text = json_string_value(value);
	char *copied = text && *text ? copy(text) : NULL;

	if (!copied)
		return false;
	*(char **)field = copied;
	return true;
}

static bool read_text(const struct config_key *key, const json_t *value, void *field)
{
	(void)key;
	return read_copy(value, memory_copy, field);
}

/* In canonical form, so that equal addresses are equal texts. */
static char *address_new(const char *text)
{
	char canonical[ADDRESS_TEXT_MAX];
	struct address address;
	const char *expected;

	if (address_parse(&address, text, &expected) != 0)
		return NULL;
	if (address.kind != ADDRESS_INET)
		return memory_copy(text);
	address_format((const struct sockaddr *)&address.sa, address.len, canonical);
	return memory_copy(canonical);
}

static bool read_address(const struct config_key *key, const json_t *value, void *field)
{
	(void)key;
	return read_copy(value, address_new, field);
}

/* No octet that can't be in a request's path. */
static char *prefix_new(const char *text)
{
	if (*text != '/')
		return NULL;
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == '\x7f' || *p == '?' || *p == '#')
			return NULL;
	return memory_copy(text);
}

static bool read_prefix(const struct config_key *key, const json_t *value, void *field)
{
	(void)key;
	return read_copy(value, prefix_new, field);
}

static json_t *print_text(const struct config_key *key, const void *field)
{
	const char *text = *(char *const *)field;

	(void)key;
	return text ? json_string(text) : json_null();
}

static void free_text(void *field)
{
	free(*(char **)field);
}

/* Arrays of texts. */

/* RFC 9110, section 5.6.2. */
static bool is_token(const char *text)
{
	return *text && text[strspn(text, "!#$%&'*+-.^_`|~0123456789"
					  "abcdefghijklmnopqrstuvwxyz"
					  "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0';
}

/* An IPv4 or IPv6 address, a network: "10.0.0.0/8", or "unix:". */
static bool is_network(const char *text)
{
	struct network network;

	return network_parse(&network, text);
}

static void free_texts(void *field)
{
	char **texts = *(char ***)field;

	for (size_t i = 0; texts && texts[i]; i++)
		free(texts[i]);
	free(texts);
}

static bool read_texts(const struct config_key *key, const json_t *value, void *field)
{
	const struct type *type = &types[key->type];
	size_t count = json_array_size(value);
	char **texts;

	if (!json_is_array(value) || count < type->items_min ||
	    !(texts = memory_get(count + 1, sizeof *texts)))
		return false;
	for (size_t i = 0; i < count; i++) {
		const char *text = json_string_value(json_array_get(value, i));

		if (!text || !type->is_item(text) || !(texts[i] = memory_copy(text))) {
			free_texts(&texts);
			return false;
		}
	}
	*(char ***)field = texts;
	return true;
}

static json_t *print_texts(const struct config_key *key, const void *field)
{
	char *const *texts = *(char **const *)field;
	json_t *array;

	(void)key;
	if (!texts)
		return json_null();
	array = json_array();
	for (; *texts; texts++)
		json_array_append_new(array, json_string(*texts));
	return array;
}

/* The options of a route. */

static bool read_options(const struct config_key *key, const json_t *value, void *field)
{
	json_t *copy;

	(void)key;
	if (!json_is_object(value) || !(copy = json_deep_copy(value)))
		return false;
	*(json_t **)field = copy;
	return true;
}

static json_t *print_options(const struct config_key *key, const void *field)
{
	(void)key;
	return json_incref(*(json_t *const *)field);
}

static void free_options(void *field)
{
	json_decref(*(json_t **)field);
}

static const struct type types[CONFIG_TYPES] = {
	[CONFIG_COUNT] = {.expected = "an integer",
			  .read = read_number,
			  .print = print_number,
			  .whole = true},
	[CONFIG_SIZE] = {.expected = "a size",
			 .such_as = ", such as \"64k\" or octets as an integer",
			 .read = read_number,
			 .print = print_number,
			 .whole = true,
			 .parse = number_parse_size,
			 .format = number_format_size},
	[CONFIG_DURATION] = {.expected = "a duration",
			     .such_as =
				     ", such as \"150s\", \"20ms\" or milliseconds as an integer",
			     .read = read_number,
			     .print = print_number,
			     .whole = true,
			     .parse = number_parse_duration,
			     .format = number_format_duration},
	[CONFIG_MODE] = {.expected = "an octal mode",
			 .such_as = ", as a string such as \"0644\"",
			 .read = read_number,
			 .print = print_number,
			 .parse = number_parse_mode,
			 .format = number_format_mode},
	[CONFIG_CHOICE] = {.read = read_choice, .print = print_choice},
	[CONFIG_BOOL] = {.expected = "true or false", .read = read_bool, .print = print_bool},
	[CONFIG_REAL] = {.expected = "a number", .read = read_real, .print = print_real},
	[CONFIG_TEXT] = {.expected = "a string that is not empty",
			 .read = read_text,
			 .print = print_text,
			 .free = free_text},
	[CONFIG_ADDRESS] = {.expected = "an address: IPv4:port, [IPv6]:port, unix:PATH (up to 107 "
					"octets) or fd:NAME; host names are not looked up",
			    .read = read_address,
			    .print = print_text,
			    .free = free_text},
	[CONFIG_PREFIX] = {.expected = "a path that begins with '/', without '?', '#', blanks and "
				       "control characters",
			   .read = read_prefix,
			   .print = print_text,
			   .free = free_text},
	[CONFIG_METHODS] = {.expected = "an array of methods, such as [\"GET\", \"POST\"]",
			    .read = read_texts,
			    .print = print_texts,
			    .free = free_texts,
			    .is_item = is_token,
			    .items_min = 1},
	[CONFIG_NETWORKS] = {.expected = "an array of IP addresses and networks, such as "
					 "[\"10.0.0.0/8\"], or \"unix:\"",
			     .read = read_texts,
			     .print = print_texts,
			     .free = free_texts,
			     .is_item = is_network},
	[CONFIG_OPTIONS] = {.expected = "an object",
			    .read = read_options,
			    .print = print_options,
			    .free = free_options},
	[CONFIG_LISTENS] = {.expected = "an array, in length", .whole = true},
	[CONFIG_ROUTES] = {.expected = "an array, in length", .whole = true},
};

bool config_value_read(const struct config_key *key, const json_t *value, void *field)
{
	return (key->nullable && json_is_null(value)) || types[key->type].read(key, value, field);
}

json_t *config_value_print(const struct config_key *key, const void *field)
{
	return types[key->type].print(key, field);
}

void config_value_free(const struct config_key *key, void *field)
{
	if (types[key->type].free)
		types[key->type].free(field);
}

/* Cuts a text in whole characters (UTF-8). */
static void cut(char *text, size_t len)
{
	while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
		len--;
	text[len] = '\0';
}

void config_value_found(const json_t *value, FILE *out)
{
	char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));

	if (json_is_object(value)) {
		fputs("an object", out);
	} else if (text && strlen(text) > FOUND_MAX) {
		cut(text, FOUND_MAX);
		fprintf(out, "%s...", text);
	} else {
		fputs(text ? text : "what can't be shown", out);
	}
	free(text);
}

/* "json" or "combined"; 204 or 503. */
static void print_choices(const struct config_key *key, FILE *out)
{
	const char *quote = key->type == CONFIG_CHOICE ? "\"" : "";
	const char *choice = key->choices;
	size_t len;

	for (; *choice; choice += len + (choice[len] == '|')) {
		len = strcspn(choice, "|");
		fprintf(out, "%s%s%.*s%s", choice > key->choices ? " or " : "", quote, (int)len,
			choice, quote);
	}
}

void config_value_expected(const struct config_key *key, FILE *out)
{
	const struct type *type = &types[key->type];

	if (key->choices)
		print_choices(key, out);
	else if (key->min)
		fprintf(out, "%s from %s to %s%s", type->expected, key->min, key->max,
			type->such_as ? type->such_as : "");
	else
		fputs(type->expected, out);
	if (key->zero)
		fprintf(out, ", or \"%s\"", key->zero);
	if (key->nullable)
		fputs(", or null", out);
}
