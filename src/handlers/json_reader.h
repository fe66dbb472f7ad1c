/* SPDX-License-Identifier: MIT */
/*
 * Reads a JSON text (RFC 8259) from front to back, value by value, without memory of its own.
 *
 * Everything that is passed over is checked: structure, strings, escapes, UTF-8, numbers, literals.
 * The first mistake makes the reader fail for good: from then on nothing comes any more, so that
 * callers need to ask only once, at the end, with json_reader_is_complete().  The text itself is
 * an object or an array.  Keys hold no NUL; keys that come twice are handed out twice.
 *
 *	if (json_reader_enter(&reader))
 *		while (json_reader_next_key(&reader, &key))
 *			json_reader_skip(&reader);
 *
 * Who enters an object or array reads it to its end.  The C locale is expected.
 */
#ifndef JSON_READER_H
#define JSON_READER_H

#include "whitecap.h"

/* A value may lie in so many objects and arrays, less one; the innermost may only be empty. */
enum { JSON_READER_DEPTH = 2048 };

enum json_reader_kind {
	JSON_READER_NONE, /* no value begins here */
	JSON_READER_OBJECT,
	JSON_READER_ARRAY,
	JSON_READER_STRING,
	JSON_READER_NUMBER,
	JSON_READER_LITERAL,
};

struct json_reader_string {
	struct wc_span raw; /* between the quotes, in the text */
	size_t len;         /* decoded; shorter than raw where that has escapes, else the same */
	bool has_nul;
};

/* Before a value. */
struct json_reader_place {
	const char *at;
	unsigned depth;
};

struct json_reader {
	const char *at, *end;
	unsigned depth; /* objects and arrays that are open */
	bool is_first;  /* one was just entered */
	bool failed;
	unsigned char is_object[JSON_READER_DEPTH / 8]; /* a bit for each that is open */
};

void json_reader_init(struct json_reader *reader, struct wc_span text);

/* The whole text was read, and nothing was wrong. */
bool json_reader_is_complete(struct json_reader *reader);

/* Of the value that comes next. */
enum json_reader_kind json_reader_kind(struct json_reader *reader);

/* The value that comes next, which must be of that kind; false or 0 after a mistake. */
bool json_reader_enter(struct json_reader *reader);
bool json_reader_string(struct json_reader *reader, struct json_reader_string *string);
double json_reader_number(struct json_reader *reader); /* infinite past the range of a double */

/* The value that comes next, whatever it is. */
void json_reader_skip(struct json_reader *reader);

/* In an array, an object: whether one more value comes, or this was the end. */
bool json_reader_next_item(struct json_reader *reader);
bool json_reader_next_key(struct json_reader *reader, struct json_reader_string *key);

/* How many items the array has that comes next.  It is still to be read. */
size_t json_reader_count(struct json_reader *reader);

/* To read a value once more; only that value, not what follows it. */
struct json_reader_place json_reader_place(const struct json_reader *reader);
void json_reader_return(struct json_reader *reader, struct json_reader_place place);

/* Writes the string's `len` octets, which may be NUL too. */
void json_reader_decode(const struct json_reader_string *string, char *out);

#endif
