/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "inflater.h"

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

enum {
	BUFFER_FIRST = 16384,
	BUFFER_KEPT = 262144, /* a larger one is given back before the next run */
	GZIP_BITS = MAX_WBITS + 16,
};

struct inflater {
	z_stream stream;
	char *buffer;
	size_t cap;
};

struct inflater *inflater_new(void)
{
	struct inflater *inflater = calloc(1, sizeof *inflater);

	if (inflater && inflateInit2(&inflater->stream, GZIP_BITS) != Z_OK) {
		free(inflater);
		return NULL;
	}
	return inflater;
}

void inflater_free(struct inflater *inflater)
{
	if (!inflater)
		return;
	inflateEnd(&inflater->stream);
	free(inflater->buffer);
	free(inflater);
}

bool inflater_find_coding(struct wc_span value, enum inflater_coding *coding)
{
	static const struct {
		const char *name;
		enum inflater_coding coding;
	} codings[] = {
		{"gzip", INFLATER_GZIP}, {"x-gzip", INFLATER_GZIP}, {"deflate", INFLATER_DEFLATE}};

	for (size_t i = 0; i < sizeof codings / sizeof *codings; i++)
		if (span_is_case(value, codings[i].name)) {
			*coding = codings[i].coding;
			return true;
		}
	return false;
}

/* zlib's format begins with CMF and FLG, a multiple of 31 together. */
static int window_bits(enum inflater_coding coding, struct wc_span data)
{
	const unsigned char *head = (const unsigned char *)data.ptr;

	if (coding == INFLATER_GZIP)
		return GZIP_BITS;
	return data.len >= 2 && (head[0] & 15) == Z_DEFLATED && (head[0] << 8 | head[1]) % 31 == 0
		       ? MAX_WBITS
		       : -MAX_WBITS;
}

/* Room for one octet more than the limit at most: it tells too much from just enough. */
static enum inflater_result grow(struct inflater *inflater, size_t used, size_t limit)
{
	size_t cap = inflater->cap ? 2 * inflater->cap : BUFFER_FIRST;
	char *buffer;

	if (used > limit)
		return INFLATER_TOO_LARGE;
	if (used < inflater->cap)
		return INFLATER_DONE;
	if (cap > limit + 1)
		cap = limit + 1;
	buffer = realloc(inflater->buffer, cap);
	if (!buffer)
		return INFLATER_NO_MEMORY;
	inflater->buffer = buffer;
	inflater->cap = cap;
	return INFLATER_DONE;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* One step.  Z_OK: there may be more; Z_STREAM_END: a whole stream. */
static int step(struct inflater *inflater, size_t *used, size_t limit)
{
	z_stream *stream = &inflater->stream;
	size_t room = smaller(smaller(inflater->cap, limit + 1) - *used, UINT_MAX);
	int result;

	stream->next_out = (Bytef *)inflater->buffer + *used;
	stream->avail_out = (uInt)room;
	result = inflate(stream, Z_NO_FLUSH);
	*used += room - stream->avail_out;
	return result;
}

static enum inflater_result run(struct inflater *inflater, enum inflater_coding coding,
				size_t limit, size_t *used)
{
	for (;;) {
		enum inflater_result grown = grow(inflater, *used, limit);
		int result;

		if (grown != INFLATER_DONE)
			return grown;
		result = step(inflater, used, limit);
		if (result == Z_MEM_ERROR)
			return INFLATER_NO_MEMORY;
		if (result == Z_STREAM_END && inflater->stream.avail_in == 0)
			return *used > limit ? INFLATER_TOO_LARGE : INFLATER_DONE;
		if (result == Z_STREAM_END && coding == INFLATER_GZIP) /* the next member */
			result = inflateReset(&inflater->stream);
		if (result != Z_OK ||
		    (inflater->stream.avail_in == 0 && inflater->stream.avail_out > 0))
			return INFLATER_BROKEN;
	}
}

enum inflater_result inflater_run(struct inflater *inflater, enum inflater_coding coding,
				  struct wc_span data, size_t limit, struct wc_span *plain)
{
	enum inflater_result result;
	size_t used = 0;

	if (inflater->cap > BUFFER_KEPT) {
		free(inflater->buffer);
		inflater->buffer = NULL;
		inflater->cap = 0;
	}
	if (data.len == 0 || data.len > UINT_MAX)
		return data.len ? INFLATER_TOO_LARGE : INFLATER_BROKEN;
	if (inflateReset2(&inflater->stream, window_bits(coding, data)) != Z_OK)
		return INFLATER_NO_MEMORY;
	inflater->stream.next_in = (Bytef *)(uintptr_t)data.ptr;
	inflater->stream.avail_in = (uInt)data.len;
	result = run(inflater, coding, limit, &used);
	if (result == INFLATER_DONE)
		*plain = (struct wc_span){inflater->buffer, used};
	return result;
}
