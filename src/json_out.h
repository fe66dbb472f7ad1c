/* SPDX-License-Identifier: MIT */
/*
 * Writes JSON as it comes, without a tree of it in memory.  Texts are escaped; what is no UTF-8
 * becomes U+FFFD.  Errors of the stream are the caller's to look for (ferror).
 */
#ifndef JSON_OUT_H
#define JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_out {
	FILE *out;
	bool has_member; /* of the object or array at hand: the next one needs a comma */
};

/* The key is NULL for members of an array, and at the top. */
void json_out_open(struct json_out *json, const char *key, char bracket);
void json_out_close(struct json_out *json, char bracket);

void json_out_text(struct json_out *json, const char *key, const char *text); /* NULL: null */
void json_out_count(struct json_out *json, const char *key, uint64_t count);

/* With that many decimals; what is no finite number is null. */
void json_out_real(struct json_out *json, const char *key, double value, int decimals);
void json_out_bool(struct json_out *json, const char *key, bool value);
void json_out_null(struct json_out *json, const char *key);

#endif
