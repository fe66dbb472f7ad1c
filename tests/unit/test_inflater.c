/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "inflater.h"

extern CU_TestInfo inflater_tests[];

enum { GZIP = MAX_WBITS + 16, ZLIB = MAX_WBITS, BARE = -MAX_WBITS };

static char packed[1 << 17];

static size_t pack_at(size_t at, int bits, const char *plain, size_t len)
{
	z_stream stream = {0};
	size_t end;

	deflateInit2(&stream, 9, Z_DEFLATED, bits, 9, Z_DEFAULT_STRATEGY);
	stream.next_in = (Bytef *)(uintptr_t)plain;
	stream.avail_in = (uInt)len;
	stream.next_out = (Bytef *)packed + at;
	stream.avail_out = (uInt)(sizeof packed - at);
	CU_ASSERT_EQUAL(deflate(&stream, Z_FINISH), Z_STREAM_END);
	end = at + stream.total_out;
	deflateEnd(&stream);
	return end;
}

/* In memory of exactly that size, so that a sanitizer sees what is read behind it. */
static enum inflater_result run(struct inflater *inflater, enum inflater_coding coding, size_t len,
				size_t limit, struct wc_span *plain)
{
	char *copy = malloc(len + !len);
	enum inflater_result result;

	memcpy(copy, packed, len);
	result = inflater_run(inflater, coding, (struct wc_span){copy, len}, limit, plain);
	free(copy);
	return result;
}

static const struct {
	enum inflater_coding coding;
	int bits;
} forms[] = {{INFLATER_GZIP, GZIP}, {INFLATER_DEFLATE, ZLIB}, {INFLATER_DEFLATE, BARE}};

static void test_forms_and_cuts(void)
{
	static const char text[] = "{\"id\":\"1\",\"imp\":[{\"id\":\"1\"},{\"id\":\"2\"}],\"tmax\":100}";
	struct inflater *inflater = inflater_new();
	struct wc_span plain;

	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		size_t len = pack_at(0, forms[i].bits, text, sizeof text - 1);

		CU_ASSERT_EQUAL(run(inflater, forms[i].coding, len, 4096, &plain), INFLATER_DONE);
		CU_ASSERT(span_is(plain, text));
		CU_ASSERT_EQUAL(run(inflater, forms[i].coding, len, sizeof text - 1, &plain), INFLATER_DONE);
		CU_ASSERT_EQUAL(run(inflater, forms[i].coding, len, sizeof text - 2, &plain),
				INFLATER_TOO_LARGE);
		for (size_t cut = 0; cut < len; cut++)
			CU_ASSERT_EQUAL(run(inflater, forms[i].coding, cut, 4096, &plain),
					INFLATER_BROKEN);
		packed[len] = 'x';
		CU_ASSERT_EQUAL(run(inflater, forms[i].coding, len + 1, 4096, &plain), INFLATER_BROKEN);
	}
	inflater_free(inflater);
}

static void test_empty_and_members(void)
{
	struct inflater *inflater = inflater_new();
	struct wc_span plain;
	size_t len = pack_at(0, GZIP, "", 0);

	CU_ASSERT_EQUAL(run(inflater, INFLATER_GZIP, len, 0, &plain), INFLATER_DONE);
	CU_ASSERT_EQUAL(plain.len, 0);
	len = pack_at(pack_at(0, GZIP, "hello ", 6), GZIP, "world", 5);
	CU_ASSERT_EQUAL(run(inflater, INFLATER_GZIP, len, 11, &plain), INFLATER_DONE);
	CU_ASSERT(span_is(plain, "hello world"));
	CU_ASSERT_EQUAL(run(inflater, INFLATER_GZIP, len, 10, &plain), INFLATER_TOO_LARGE);
	packed[len - 5] ^= 1; /* the checksum */
	CU_ASSERT_EQUAL(run(inflater, INFLATER_GZIP, len, 11, &plain), INFLATER_BROKEN);
	inflater_free(inflater);
}

/* 64 MiB of zeros in 64 KiB: given up at the limit, and the next one is as good as ever. */
static void test_bomb(void)
{
	enum { SIZE = 64 << 20, LIMIT = 1 << 20 };
	struct inflater *inflater = inflater_new();
	char *zeros = calloc(1, SIZE);
	struct wc_span plain;
	size_t len = pack_at(0, GZIP, zeros, SIZE);

	CU_ASSERT_EQUAL(run(inflater, INFLATER_GZIP, len, LIMIT, &plain), INFLATER_TOO_LARGE);
	len = pack_at(0, GZIP, zeros, LIMIT);
	CU_ASSERT_EQUAL(run(inflater, INFLATER_GZIP, len, LIMIT, &plain), INFLATER_DONE);
	CU_ASSERT_EQUAL(plain.len, LIMIT);
	free(zeros);
	inflater_free(inflater);
}

static void test_codings(void)
{
	static const char *const others[] = {"", "br", "zstd", "gzip, gzip", "gzipx", "compress", "identity"};
	enum inflater_coding coding;

	CU_ASSERT(inflater_find_coding(span_of("GZip"), &coding) && coding == INFLATER_GZIP);
	CU_ASSERT(inflater_find_coding(span_of("x-gzip"), &coding) && coding == INFLATER_GZIP);
	CU_ASSERT(inflater_find_coding(span_of("deflate"), &coding) && coding == INFLATER_DEFLATE);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		CU_ASSERT_FALSE(inflater_find_coding(span_of(others[i]), &coding));
}

CU_TestInfo inflater_tests[] = {
	{"every form, cut anywhere", test_forms_and_cuts},
	{"nothing, and several members", test_empty_and_members},
	{"a bomb", test_bomb},
	{"names of codings", test_codings},
	CU_TEST_INFO_NULL,
};
