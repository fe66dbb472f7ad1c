/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handlers/json_reader.h"

extern CU_TestInfo json_reader_tests[];

/* In a copy with no octet to spare, so that a sanitizer sees what reads past its end. */
static bool is_valid(const char *text, size_t len)
{
	char *tight = malloc(len ? len : 1);
	struct json_reader reader;
	bool valid;

	CU_ASSERT_PTR_NOT_NULL_FATAL(tight);
	memcpy(tight, text, len);
	json_reader_init(&reader, (struct wc_span){tight, len});
	json_reader_skip(&reader);
	valid = json_reader_is_complete(&reader);
	free(tight);
	return valid;
}

#define TEXT(text) text, sizeof(text) - 1

static const struct {
	const char *text;
	size_t len;
	bool valid;
} texts[] = {
	{TEXT("{}"), true},
	{TEXT("[]"), true},
	{TEXT(" \t\r\n[ \t\r\n] \t\r\n"), true},
	{TEXT("{\"a\":{},\"b\":[],\"a\":[{},[[]]]}"), true},
	{TEXT("[true,false,null]"), true},
	{TEXT(""), false},
	{TEXT(" "), false},
	{TEXT("[] []"), false},
	{TEXT("[]\0"), false},
	{TEXT("\0[]"), false},
	{TEXT("[\f]"), false},
	{TEXT("\xef\xbb\xbf[]"), false},
	{TEXT("[,]"), false},
	{TEXT("[1,]"), false},
	{TEXT("[,1]"), false},
	{TEXT("[1 2]"), false},
	{TEXT("[1}"), false},
	{TEXT("{\"a\":1]"), false},
	{TEXT("{\"a\"}"), false},
	{TEXT("{\"a\",1}"), false},
	{TEXT("{\"a\":1,}"), false},
	{TEXT("{,}"), false},
	{TEXT("{a:1}"), false},
	{TEXT("{1:1}"), false},
	{TEXT("{\"a\":}"), false},
	{TEXT("{\"a\"::1}"), false},
	{TEXT("['a']"), false},
	{TEXT("[tru]"), false},
	{TEXT("[truefalse]"), false},
	{TEXT("[True]"), false},
	{TEXT("[nul"), false},
	{TEXT("[NaN]"), false},
	{TEXT("[//\n]"), false},
	/* Numbers. */
	{TEXT("[0,-0,1,-1,10,0.5,-0.5e1,1E+2,1e-2,0e0,123456789012345678901234567890]"), true},
	{TEXT("[1e999,-1e999,1e-999]"), true},
	{TEXT("[01]"), false},
	{TEXT("[-]"), false},
	{TEXT("[+1]"), false},
	{TEXT("[.5]"), false},
	{TEXT("[1.]"), false},
	{TEXT("[1.e1]"), false},
	{TEXT("[1e]"), false},
	{TEXT("[1e+]"), false},
	{TEXT("[0x1]"), false},
	{TEXT("[1a]"), false},
	{TEXT("[--1]"), false},
	{TEXT("[1.2.3]"), false},
	{TEXT("1"), false},
	/* Strings. */
	{TEXT("[\"\",\"a\x7f\",\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uABCD\\uabcd\"]"), true},
	{TEXT("[\"\\ud83d\\ude00\"]"), true},
	{TEXT("[\"\\ud83d\"]"), false},
	{TEXT("[\"\\ud83dx\"]"), false},
	{TEXT("[\"\\ud83d\\n\"]"), false},
	{TEXT("[\"\\ud83d\\u0041\"]"), false},
	{TEXT("[\"\\ud83d\\ud83d\"]"), false},
	{TEXT("[\"\\ude00\"]"), false},
	{TEXT("[\"\\ude00\\ud83d\"]"), false},
	{TEXT("[\"\\x\"]"), false},
	{TEXT("[\"\\\0\"]"), false},
	{TEXT("[\"\\u12g4\"]"), false},
	{TEXT("[\"\\u123\"]"), false},
	{TEXT("[\"\\U1234\"]"), false},
	{TEXT("[\"\x1f\"]"), false},
	{TEXT("[\"\n\"]"), false},
	{TEXT("[\"\0\"]"), false},
	{TEXT("[\"a]"), false},
	{TEXT("[\"a\\"), false},
	{TEXT("{\"\":1,\"\\n\":2}"), true},
	{TEXT("{\"a\\u0000\":1}"), false},
	{TEXT("{\"a\":{\"\\u0000\":1}}"), false},
	/* UTF-8: the first and last of each length, and what lies beside. */
	{TEXT("[\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"]"), true},
	{TEXT("[\"\xed\x9f\xbf\xee\x80\x80\"]"), true},
	{TEXT("[\"\x80\"]"), false},
	{TEXT("[\"\xc1\xbf\"]"), false},
	{TEXT("[\"\xe0\x9f\xbf\"]"), false},
	{TEXT("[\"\xed\xa0\x80\"]"), false},
	{TEXT("[\"\xf0\x8f\xbf\xbf\"]"), false},
	{TEXT("[\"\xf4\x90\x80\x80\"]"), false},
	{TEXT("[\"\xf5\x80\x80\x80\"]"), false},
	{TEXT("[\"\xff\"]"), false},
	{TEXT("[\"\xc2\"]"), false},
	{TEXT("[\"\xe2\x82\"]"), false},
	{TEXT("[\"\xe2\x82x\"]"), false},
	{TEXT("[\"\xf0\x9f\x98\"]"), false},
	{TEXT("[\"\xf0\x9f\x98"), false},
	{TEXT("{\"\xff\":1}"), false},
};

static void test_texts(void)
{
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		bool valid = is_valid(texts[i].text, texts[i].len);

		if (valid != texts[i].valid)
			fprintf(stderr, "%d: %s\n", valid, texts[i].text);
		CU_ASSERT_EQUAL(valid, texts[i].valid);
	}
}

/* Whatever is valid begins with a bracket, so no part of it is. */
static void test_cuts(void)
{
	size_t i, cut;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		size_t len = texts[i].len;

		while (len && strchr(" \t\r\n", texts[i].text[len - 1]))
			len--;
		for (cut = 0; texts[i].valid && cut < len; cut++)
			CU_ASSERT_FALSE(is_valid(texts[i].text, cut));
	}
}

static const struct {
	const char *text;
	double value;
} numbers[] = {
	{"0", 0}, {"300", 300}, {"-1.25", -1.25}, {"0.1", 0.1}, {"2.675", 2.675},
	{"123456789012345", 123456789012345}, {"0.0000000000001", 1e-13},
	{"999999999999999", 999999999999999}, {"9007199254740993", 9007199254740992},
	{"0.1000000000000000055511151231257827", 0.1}, {"3e2", 300}, {"1E-2", 0.01},
	{"123456789012345678901234", 123456789012345678901234.0}, {"1e999", INFINITY},
	{"-1e999", -INFINITY}, {"1e-999", 0},
};

static void test_numbers(void)
{
	char text[64];
	size_t i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		int len = snprintf(text, sizeof(text), "[ %s]", numbers[i].text);
		struct json_reader reader;

		json_reader_init(&reader, (struct wc_span){text, (size_t)len});
		CU_ASSERT(json_reader_enter(&reader) && json_reader_next_item(&reader));
		CU_ASSERT_EQUAL(json_reader_kind(&reader), JSON_READER_NUMBER);
		CU_ASSERT(json_reader_number(&reader) == numbers[i].value);
		CU_ASSERT(!json_reader_next_item(&reader) && json_reader_is_complete(&reader));
	}
}

static void test_strings(void)
{
	static const char expected[] = "a\0\"\\/\b\f\n\r\t\x7f\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
	static const char text[] = "{\"\\u0069m\\u0070\":\"a\\u0000\\\"\\\\\\/\\b\\f\\n\\r\\t\\u007F"
				   "\\u00e9\\u20AC\\ud83d\\uDE00z\"}";
	struct json_reader_string string;
	struct json_reader reader;
	char decoded[sizeof(expected)];

	json_reader_init(&reader, (struct wc_span){TEXT(text)});
	CU_ASSERT(json_reader_enter(&reader) && json_reader_next_key(&reader, &string));
	CU_ASSERT_EQUAL_FATAL(string.len, 3);
	json_reader_decode(&string, decoded);
	CU_ASSERT_EQUAL(memcmp(decoded, "imp", 3), 0);
	CU_ASSERT(json_reader_string(&reader, &string));
	CU_ASSERT(string.has_nul);
	CU_ASSERT_EQUAL_FATAL(string.len, sizeof(expected) - 1);
	json_reader_decode(&string, decoded);
	CU_ASSERT_EQUAL(memcmp(decoded, expected, sizeof(expected) - 1), 0);
	CU_ASSERT(!json_reader_next_key(&reader, &string) && json_reader_is_complete(&reader));
}

static void test_counting(void)
{
	static const char text[] = "[[1,[2,3],{\"a\":[4]},\"]\"],[]]";
	struct json_reader reader;
	size_t items = 0;

	json_reader_init(&reader, (struct wc_span){TEXT(text)});
	CU_ASSERT(json_reader_enter(&reader) && json_reader_next_item(&reader));
	CU_ASSERT_EQUAL(json_reader_count(&reader), 4);
	for (json_reader_enter(&reader); json_reader_next_item(&reader); items++)
		json_reader_skip(&reader);
	CU_ASSERT_EQUAL(items, 4);
	CU_ASSERT(json_reader_next_item(&reader));
	CU_ASSERT_EQUAL(json_reader_count(&reader), 0);
	json_reader_skip(&reader);
	CU_ASSERT(!json_reader_next_item(&reader) && json_reader_is_complete(&reader));
}

/* What is asked of a reader that has failed is answered with nothing. */
static void test_failure_is_final(void)
{
	static const char text[] = "[[x],1]";
	struct json_reader_string string;
	struct json_reader reader;

	json_reader_init(&reader, (struct wc_span){TEXT(text)});
	CU_ASSERT(json_reader_enter(&reader) && json_reader_next_item(&reader));
	CU_ASSERT_EQUAL(json_reader_count(&reader), 0);
	CU_ASSERT_EQUAL(json_reader_kind(&reader), JSON_READER_NONE);
	CU_ASSERT_FALSE(json_reader_next_item(&reader));
	CU_ASSERT_FALSE(json_reader_next_key(&reader, &string));
	CU_ASSERT_FALSE(json_reader_enter(&reader));
	CU_ASSERT_FALSE(json_reader_string(&reader, &string));
	CU_ASSERT(json_reader_number(&reader) == 0);
	json_reader_skip(&reader);
	CU_ASSERT_FALSE(json_reader_is_complete(&reader));
}

/* `count` times `open`, then `inner`, then `count` times `close`. */
static bool is_nesting_valid(const char *open, const char *inner, const char *close, size_t count)
{
	size_t i, size = count * (strlen(open) + strlen(close)) + strlen(inner) + 1;
	char *text = malloc(size);
	char *end = text;
	bool valid;

	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	for (i = 0; i < count; i++)
		end = stpcpy(end, open);
	end = stpcpy(end, inner);
	for (i = 0; i < count; i++)
		end = stpcpy(end, close);
	valid = is_valid(text, (size_t)(end - text));
	free(text);
	return valid;
}

static void test_depth(void)
{
	CU_ASSERT(is_nesting_valid("[", "", "]", 2048));
	CU_ASSERT_FALSE(is_nesting_valid("[", "", "]", 2049));
	CU_ASSERT(is_nesting_valid("[", "1", "]", 2047));
	CU_ASSERT_FALSE(is_nesting_valid("[", "1", "]", 2048));
	CU_ASSERT(is_nesting_valid("{\"a\":", "{}", "}", 2047));
	CU_ASSERT_FALSE(is_nesting_valid("{\"a\":", "{}", "}", 2048));
	CU_ASSERT(is_nesting_valid("[{\"a\":", "[]", "}]", 1000));
	CU_ASSERT_FALSE(is_nesting_valid("[", "", "", 100000));
	CU_ASSERT_FALSE(is_nesting_valid("[", "", "]", 100000));
	CU_ASSERT_FALSE(is_nesting_valid("{\"a\":", "", "", 100000));
}

CU_TestInfo json_reader_tests[] = {
	{"valid and invalid texts", test_texts},
	{"texts cut at every octet", test_cuts},
	{"numbers", test_numbers},
	{"escapes", test_strings},
	{"counting ahead", test_counting},
	{"a failure is final", test_failure_is_final},
	{"depth", test_depth},
	CU_TEST_INFO_NULL,
};
