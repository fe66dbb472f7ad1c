/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "handler_stub.h"

/* The descriptors of all handlers have one name: renamed, they fit in one program. */
#define wc_handler_descriptor hello_descriptor
#include "handlers/hello.c"

extern CU_TestInfo hello_tests[];

static void check_hello(const char *options, const char *body, size_t len)
{
	json_t *json = json_loads(options, JSON_ALLOW_NUL, NULL);
	struct wc_request *req = stub_request_new("", 0);
	void *state = NULL;

	CU_ASSERT_EQUAL_FATAL(hello_descriptor.init(&state, json, NULL), 0);
	CU_ASSERT_EQUAL(hello_descriptor.handle(req, state), WC_DONE);
	CU_ASSERT_EQUAL(req->status, 200);
	CU_ASSERT_EQUAL_FATAL(req->body_len, len);
	CU_ASSERT_EQUAL(memcmp(req->body_sent, body, len), 0);
	CU_ASSERT_STRING_EQUAL(stub_header(req, "Content-Type"), "text/plain");
	hello_descriptor.fini(state);
	stub_request_free(req);
	json_decref(json);
}

static void test_hello_answers(void)
{
	check_hello("{}", "hello world!", 12);
	check_hello("{\"text\":\"hi\"}", "hi", 2);
	check_hello("{\"text\":\"\"}", "", 0);
	check_hello("{\"text\":\"a\\u0000b\"}", "a\0b", 3);
}

static void check_refused(const char *options, const char *message)
{
	json_t *json = json_loads(options, 0, NULL);
	void *state = NULL;

	stub_log[0] = '\0';
	CU_ASSERT_EQUAL(hello_descriptor.init(&state, json, NULL), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(stub_log, message));
	json_decref(json);
}

static void test_hello_options(void)
{
	check_refused("{\"text\":5}", "options.text: expected a string");
	check_refused("{\"txt\":\"hi\"}", "options.txt: unknown key");
	check_refused("{\"text\":\"hi\",\"a\":1}", "options.a: unknown key");
}

CU_TestInfo hello_tests[] = {
	{"answers with its text", test_hello_answers},
	{"refuses unknown options", test_hello_options},
	CU_TEST_INFO_NULL,
};
