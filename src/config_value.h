/* SPDX-License-Identifier: MIT */
/* One value of the configuration: between its JSON and its field, by the type of its key. */
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config_table.h"

/*
 * What a text of config_keys.def or of an override stands for: the JSON that it is, else itself as
 * a string.  The caller owns it; NULL when the text is not UTF-8.
 */
json_t *config_value_of_text(const char *text);

/*
 * Reads a value into the field of a key that is no list.  False, with the field untouched: it is
 * not what the key takes.
 */
bool config_value_read(const struct config_key *key, const json_t *value, void *field);

/* The field as JSON, in a form that config_value_read() takes.  The caller owns it. */
json_t *config_value_print(const struct config_key *key, const void *field);

/* Frees what the field points to. */
void config_value_free(const struct config_key *key, void *field);

/* A bound of the key, as the number that it stands for. */
uint64_t config_value_bound(const struct config_key *key, const char *text);

/* What was found, cut when long, and what the key takes, in words. */
void config_value_found(const json_t *value, FILE *out);
void config_value_expected(const struct config_key *key, FILE *out);

#endif
