/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#include "utf8.h"

/* One character; returns how many octets it has. */
static size_t put_char(FILE *out, const unsigned char *s)
{
	size_t len;

	if (*s == '"' || *s == '\\') {
		fprintf(out, "\\%c", *s);
	} else if (*s < 0x20 || *s == 0x7f) {
		fprintf(out, "\\u%04x", *s);
	} else if (*s < 0x80) {
		putc(*s, out);
	} else if ((len = utf8_len(s))) {
		fwrite(s, 1, len, out);
		return len;
	} else {
		fputs("\\ufffd", out);
	}
	return 1;
}

static void put_text(FILE *out, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	putc('"', out);
	while (*s)
		s += put_char(out, s);
	putc('"', out);
}

static void begin(struct json_out *json, const char *key)
{
	if (json->has_member)
		fputs(", ", json->out);
	json->has_member = true;
	if (!key)
		return;
	put_text(json->out, key);
	fputs(": ", json->out);
}

void json_out_open(struct json_out *json, const char *key, char bracket)
{
	begin(json, key);
	putc(bracket, json->out);
	json->has_member = false;
}

void json_out_close(struct json_out *json, char bracket)
{
	putc(bracket, json->out);
	json->has_member = true;
}

void json_out_text(struct json_out *json, const char *key, const char *text)
{
	if (!text) {
		json_out_null(json, key);
		return;
	}
	begin(json, key);
	put_text(json->out, text);
}

void json_out_count(struct json_out *json, const char *key, uint64_t count)
{
	begin(json, key);
	fprintf(json->out, "%" PRIu64, count);
}

void json_out_real(struct json_out *json, const char *key, double value, int decimals)
{
	if (!isfinite(value)) {
		json_out_null(json, key);
		return;
	}
	begin(json, key);
	fprintf(json->out, "%.*f", decimals, value);
}

void json_out_bool(struct json_out *json, const char *key, bool value)
{
	begin(json, key);
	fputs(value ? "true" : "false", json->out);
}

void json_out_null(struct json_out *json, const char *key)
{
	begin(json, key);
	fputs("null", json->out);
}
