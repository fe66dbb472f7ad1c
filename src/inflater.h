/* SPDX-License-Identifier: MIT */
/*
 * Decompresses gzip (RFC 1952, any number of members) and deflate (RFC 9110, 8.4.1.2: zlib's
 * format, RFC 1950; also the bare RFC 1951 that some clients send), never to more than a limit. The
 * one owner of zlib.
 */
#ifndef INFLATER_H
#define INFLATER_H

#include <stdbool.h>
#include <stddef.h>

#include "span.h"

enum inflater_coding { INFLATER_GZIP, INFLATER_DEFLATE };

enum inflater_result {
	INFLATER_DONE,
	INFLATER_BROKEN, /* cut, damaged, or with something behind it */
	INFLATER_TOO_LARGE,
	INFLATER_NO_MEMORY,
};

struct inflater;

/* NULL: no memory. */
struct inflater *inflater_new(void);
void inflater_free(struct inflater *inflater);

/* The coding of a Content-Encoding value; false: it is another one, or several. */
bool inflater_find_coding(struct wc_span value, enum inflater_coding *coding);

/* *plain is valid until the next call. */
enum inflater_result inflater_run(struct inflater *inflater, enum inflater_coding coding,
				  struct wc_span data, size_t limit, struct wc_span *plain);

#endif
