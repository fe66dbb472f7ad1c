/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "json_reader.h"

#include <stdlib.h>
#include <string.h>

/* Octets that stand for themselves in a string, apart from sequences of UTF-8. */
static const bool is_plain[256] = {
	[' '] = true, ['!'] = true, ['#' ... '['] = true, [']' ... 0x7f] = true,
};

static const unsigned char kinds[256] = {
	['{'] = JSON_READER_OBJECT,  ['['] = JSON_READER_ARRAY,    ['"'] = JSON_READER_STRING,
	['-'] = JSON_READER_NUMBER,  ['0' ... '9'] = JSON_READER_NUMBER,
	['t'] = JSON_READER_LITERAL, ['f'] = JSON_READER_LITERAL,  ['n'] = JSON_READER_LITERAL,
};

static const char escapes[256] = {
	['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
	['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
};

/* Well-formed UTF-8: table 3-7 of the Unicode standard. */
static const struct {
	unsigned char first_min, first_max, second_min, second_max, len;
} sequences[] = {
	{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
	{0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
	{0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

static const char *const literals[] = {"true", "false", "null"};

static bool fail(struct json_reader *reader)
{
	reader->failed = true;
	reader->at = reader->end;
	reader->depth = 0;
	return false;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The octet that comes next, after white space; -1: none. */
static inline int peek(struct json_reader *reader)
{
	while (reader->at < reader->end && is_space(*reader->at))
		reader->at++;
	return reader->at < reader->end ? (unsigned char)*reader->at : -1;
}

static bool take(struct json_reader *reader, char expected)
{
	if (peek(reader) != expected)
		return fail(reader);
	reader->at++;
	return true;
}

void json_reader_init(struct json_reader *reader, struct wc_span text)
{
	reader->at = text.ptr;
	reader->end = text.len ? text.ptr + text.len : text.ptr;
	reader->depth = 0;
	reader->is_first = reader->failed = false;
}

bool json_reader_is_complete(struct json_reader *reader)
{
	return !reader->failed && reader->depth == 0 && peek(reader) < 0;
}

enum json_reader_kind json_reader_kind(struct json_reader *reader)
{
	int c = peek(reader);

	return c < 0 ? JSON_READER_NONE : (enum json_reader_kind)kinds[c];
}

/* Objects and arrays. */

bool json_reader_enter(struct json_reader *reader)
{
	int c = peek(reader);
	unsigned level = reader->depth;
	unsigned char bit = (unsigned char)(1u << level % 8);

	if (c != '{' && c != '[')
		return fail(reader);
	if (c == '{')
		reader->is_object[level / 8] |= bit;
	else
		reader->is_object[level / 8] &= (unsigned char)~bit;
	reader->at++;
	reader->depth++;
	reader->is_first = true;
	return true;
}

static bool is_in_object(const struct json_reader *reader)
{
	unsigned level = reader->depth - 1;

	return reader->is_object[level / 8] >> level % 8 & 1;
}

/* The innermost one's end, or what stands before its next item. */
static bool go_on(struct json_reader *reader, char end)
{
	bool is_first = reader->is_first;

	if (reader->failed)
		return false;
	reader->is_first = false;
	if (peek(reader) == end) {
		reader->at++;
		reader->depth--;
		return false;
	}
	if (reader->depth == JSON_READER_DEPTH)
		return fail(reader);
	return is_first || take(reader, ',');
}

bool json_reader_next_item(struct json_reader *reader)
{
	return go_on(reader, ']');
}

bool json_reader_next_key(struct json_reader *reader, struct json_reader_string *key)
{
	if (!go_on(reader, '}') || !json_reader_string(reader, key))
		return false;
	return key->has_nul ? fail(reader) : take(reader, ':');
}

struct json_reader_place json_reader_place(const struct json_reader *reader)
{
	return (struct json_reader_place){reader->at, reader->depth};
}

void json_reader_return(struct json_reader *reader, struct json_reader_place place)
{
	if (reader->failed)
		return;
	reader->at = place.at;
	reader->depth = place.depth;
}

size_t json_reader_count(struct json_reader *reader)
{
	struct json_reader_place place = json_reader_place(reader);
	size_t count = 0;

	if (json_reader_enter(reader))
		for (; json_reader_next_item(reader); count++)
			json_reader_skip(reader);
	json_reader_return(reader, place);
	return reader->failed ? 0 : count;
}

/* Strings. */

static int hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \uXXXX; -1: something else. */
static int read_unit(const char *at, const char *end)
{
	int i, unit = 0;

	if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
		return -1;
	for (i = 2; i < 6; i++) {
		int digit = hex_value(at[i]);

		if (digit < 0)
			return -1;
		unit = unit << 4 | digit;
	}
	return unit;
}

/* One or, of a surrogate pair, two units; -1: half a pair, or none at all. */
static int read_code_point(const char **at, const char *end)
{
	int unit = read_unit(*at, end);
	int low;

	if (unit < 0)
		return -1;
	*at += 6;
	if (unit < 0xd800 || unit > 0xdfff)
		return unit;
	low = read_unit(*at, end);
	if (unit > 0xdbff || low < 0xdc00 || low > 0xdfff)
		return -1;
	*at += 6;
	return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
}

static size_t put_utf8(char *out, unsigned code)
{
	size_t i, len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	static const unsigned char marks[] = {0, 0, 0xc0, 0xe0, 0xf0};

	for (i = len - 1; i > 0; i--) {
		out[i] = (char)(0x80 | (code & 0x3f));
		code >>= 6;
	}
	out[0] = (char)(marks[len] | code);
	return len;
}

/* Decodes the escape at *at, up to four octets, and goes behind it; 0: there is no such one. */
static size_t read_escape(const char **at, const char *end, char *out)
{
	int code;

	if (end - *at < 2)
		return 0;
	if ((*at)[1] == 'u') {
		code = read_code_point(at, end);
		return code < 0 ? 0 : put_utf8(out, (unsigned)code);
	}
	out[0] = escapes[(unsigned char)(*at)[1]];
	*at += 2;
	return out[0] ? 1 : 0;
}

/* Length of the sequence of UTF-8 at `at`; 0: there is none. */
static size_t sequence_len(const char *at, const char *end)
{
	const unsigned char *c = (const unsigned char *)at;
	size_t i, j, len;

	for (i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++)
		if (c[0] >= sequences[i].first_min && c[0] <= sequences[i].first_max)
			break;
	if (i == sizeof(sequences) / sizeof(sequences[0]))
		return 0;
	len = sequences[i].len;
	if ((size_t)(end - at) < len || c[1] < sequences[i].second_min ||
	    c[1] > sequences[i].second_max)
		return 0;
	for (j = 2; j < len; j++)
		if ((c[j] & 0xc0) != 0x80)
			return 0;
	return len;
}

/* What isn't plain: an escape or a sequence of UTF-8. */
static bool take_special(struct json_reader *reader, struct json_reader_string *string)
{
	const char *start = reader->at;
	char decoded[4];
	size_t len;

	if (*start != '\\') {
		len = sequence_len(start, reader->end);
		reader->at += len;
		string->len += len;
		return len > 0;
	}
	len = read_escape(&reader->at, reader->end, decoded);
	string->len += len;
	string->has_nul |= len == 1 && decoded[0] == '\0';
	return len > 0;
}

bool json_reader_string(struct json_reader *reader, struct json_reader_string *string)
{
	const char *start, *plain;

	if (!take(reader, '"'))
		return false;
	start = reader->at;
	*string = (struct json_reader_string){0};
	for (;;) {
		const char *at = plain = reader->at;

		while (at < reader->end && is_plain[(unsigned char)*at])
			at++;
		reader->at = at;
		string->len += (size_t)(at - plain);
		if (at == reader->end)
			return fail(reader);
		if (*at == '"')
			break;
		if (!take_special(reader, string))
			return fail(reader);
	}
	string->raw = (struct wc_span){start, (size_t)(reader->at++ - start)};
	return true;
}

void json_reader_decode(const struct json_reader_string *string, char *out)
{
	const char *at = string->raw.ptr, *end = at + string->raw.len;

	while (at < end)
		if (*at == '\\')
			out += read_escape(&at, end, out);
		else
			*out++ = *at++;
}

/* Numbers and literals. */

/* Behind the digits at `at`; NULL: there are none, or that was NULL already. */
static const char *skip_digits(const char *at, const char *end)
{
	const char *start = at;

	while (at && at < end && is_digit(*at))
		at++;
	return at == start ? NULL : at;
}

/* A number ends where its text does not: it can't be a JSON text by itself here. */
static bool is_number_end(const char *at, const char *end)
{
	return at && at < end && (*at == ',' || *at == ']' || *at == '}' || is_space(*at));
}

static bool take_number(struct json_reader *reader)
{
	const char *at = reader->at, *end = reader->end;

	if (at < end && *at == '-')
		at++;
	at = at < end && *at == '0' ? at + 1 : skip_digits(at, end);
	if (at && at < end && *at == '.')
		at = skip_digits(at + 1, end);
	if (at && at < end && (*at | 0x20) == 'e') {
		at++;
		at += at < end && (*at == '+' || *at == '-');
		at = skip_digits(at, end);
	}
	if (!is_number_end(at, end))
		return fail(reader);
	reader->at = at;
	return true;
}

/* Both operands are exact, so the quotient is right. */
static bool convert_short(const char *at, const char *end, double *value)
{
	static const double powers[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
					1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
	bool is_negative = *at == '-';
	uint64_t digits = 0;
	const char *point = NULL;

	if (end - at > 15)
		return false;
	for (at += is_negative; at < end && (is_digit(*at) || *at == '.'); at++)
		if (*at == '.')
			point = at + 1;
		else
			digits = digits * 10 + (uint64_t)(*at - '0');
	*value = (double)digits / powers[point ? at - point : 0];
	*value = is_negative ? -*value : *value;
	return at == end;
}

double json_reader_number(struct json_reader *reader)
{
	const char *start = (peek(reader), reader->at);
	double value;

	if (!take_number(reader))
		return 0;
	/* strtod() ends at what ends the number; take_number() has seen that this is in the text. */
	return convert_short(start, reader->at, &value) ? value : strtod(start, NULL);
}

static bool take_literal(struct json_reader *reader)
{
	size_t i, room = (size_t)(reader->end - reader->at);

	for (i = 0; i < sizeof(literals) / sizeof(literals[0]); i++) {
		size_t len = strlen(literals[i]);

		if (room >= len && memcmp(reader->at, literals[i], len) == 0) {
			reader->at += len;
			return true;
		}
	}
	return fail(reader);
}

/* An object or array is only entered. */
static bool begin(struct json_reader *reader)
{
	struct json_reader_string string;

	switch (json_reader_kind(reader)) {
	case JSON_READER_OBJECT:
	case JSON_READER_ARRAY:
		return json_reader_enter(reader);
	case JSON_READER_STRING:
		return json_reader_string(reader, &string);
	case JSON_READER_NUMBER:
		return take_number(reader);
	case JSON_READER_LITERAL:
		return take_literal(reader);
	case JSON_READER_NONE:
		break;
	}
	return fail(reader);
}

void json_reader_skip(struct json_reader *reader)
{
	unsigned outer = reader->depth;
	struct json_reader_string key;

	begin(reader);
	while (reader->depth > outer)
		if (is_in_object(reader) ? json_reader_next_key(reader, &key)
					 : json_reader_next_item(reader))
			begin(reader);
}
