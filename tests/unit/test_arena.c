/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "arena.h"

extern CU_TestInfo arena_tests[];

enum { LIMIT = 1048576 };

/* Sizes that meet and cross the ends of blocks, whatever size blocks have. */
static const size_t sizes[] = {0, 1, 15, 16, 17, 4096, 8192, 8193, 65536, 65537, 200000, 3};

static void open_arena(struct arena *arena)
{
	CU_ASSERT_EQUAL_FATAL(arena_init(arena, LIMIT), 0);
}

static void test_pieces(void)
{
	struct { unsigned char *ptr; size_t len; } pieces[sizeof sizes / sizeof *sizes];
	size_t count = sizeof sizes / sizeof *sizes;
	struct arena arena;

	open_arena(&arena);
	for (size_t i = 0; i < count; i++) {
		pieces[i].len = sizes[i];
		pieces[i].ptr = arena_alloc(&arena, sizes[i]);
		CU_ASSERT_PTR_NOT_NULL_FATAL(pieces[i].ptr);
		CU_ASSERT_EQUAL((uintptr_t)pieces[i].ptr % alignof(max_align_t), 0);
		memset(pieces[i].ptr, (int)i, sizes[i]);
	}
	for (size_t i = 0; i < count; i++)
		for (size_t at = 0; at < pieces[i].len; at++)
			if (pieces[i].ptr[at] != i)
				CU_FAIL_FATAL("pieces overlap");
	CU_ASSERT_FALSE(arena.overflow);
	arena_fini(&arena);
}

static void test_limit(void)
{
	struct arena arena;

	open_arena(&arena);
	CU_ASSERT_PTR_NULL(arena_alloc(&arena, LIMIT + 1));
	CU_ASSERT(arena.overflow);
	arena_reset(&arena);
	CU_ASSERT_PTR_NOT_NULL(arena_alloc(&arena, LIMIT));
	CU_ASSERT_FALSE(arena.overflow);
	CU_ASSERT_PTR_NULL(arena_alloc(&arena, 1));
	CU_ASSERT(arena.overflow);
	arena_fini(&arena);
}

/* What is past all limits is refused, and not taken for little by an overflow. */
static void test_huge(void)
{
	static const size_t limits[] = {LIMIT, SIZE_MAX};

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		for (size_t less = 0; less < 64; less++) {
			struct arena arena;

			CU_ASSERT_EQUAL_FATAL(arena_init(&arena, limits[i]), 0);
			CU_ASSERT_PTR_NOT_NULL(arena_alloc(&arena, 32));
			CU_ASSERT_PTR_NULL(arena_alloc(&arena, SIZE_MAX - less));
			CU_ASSERT(arena.overflow);
			arena_fini(&arena);
		}
}

static void test_overflow_is_sticky(void)
{
	struct arena arena;

	open_arena(&arena);
	CU_ASSERT_PTR_NULL(arena_alloc(&arena, SIZE_MAX));
	CU_ASSERT_PTR_NOT_NULL(arena_alloc(&arena, 1));
	CU_ASSERT(arena.overflow);
	arena_reset(&arena);
	CU_ASSERT_FALSE(arena.overflow);
	arena_fini(&arena);
}

/* After a reset the same memory is given again: ordinary requests make no blocks. */
static void test_reset(void)
{
	struct arena arena;
	void *first, *second, *large;

	open_arena(&arena);
	first = arena_alloc(&arena, 100);
	second = arena_alloc(&arena, 8192);
	large = arena_alloc(&arena, 100000);
	CU_ASSERT_PTR_NOT_NULL(large);
	for (int i = 0; i < 10; i++) {
		arena_reset(&arena);
		CU_ASSERT_EQUAL(arena.used, 0);
		CU_ASSERT_PTR_EQUAL(arena_alloc(&arena, 100), first);
		CU_ASSERT_PTR_EQUAL(arena_alloc(&arena, 8192), second);
	}
	arena_fini(&arena);
	arena_fini(&arena); /* as after a failed init */
}

CU_TestInfo arena_tests[] = {
	{"pieces", test_pieces},
	{"limit", test_limit},
	{"huge sizes", test_huge},
	{"overflow is sticky", test_overflow_is_sticky},
	{"reset", test_reset},
	CU_TEST_INFO_NULL,
};
