/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>

#include "handler_stub.h"

/* The descriptors of all handlers have one name: renamed, they fit in one program. */
#define wc_handler_descriptor echo_descriptor
#include "handlers/echo.c"

extern CU_TestInfo echo_tests[];

static void test_echo(void)
{
	struct wc_request *req = stub_request_new("a\0b", 3);

	req->content_type = "text/x-test; charset=utf-8";
	CU_ASSERT_EQUAL(echo_descriptor.handle(req, NULL), WC_DONE);
	CU_ASSERT_EQUAL(req->status, 200);
	CU_ASSERT_EQUAL(req->body_len, 3);
	CU_ASSERT_PTR_EQUAL(req->body_ptr, req->body.ptr);
	CU_ASSERT_STRING_EQUAL(stub_header(req, "content-type"), "text/x-test; charset=utf-8");
	stub_request_free(req);
}

static void test_echo_of_nothing(void)
{
	struct wc_request *req = stub_request_new("", 0);

	CU_ASSERT_EQUAL(echo_descriptor.handle(req, NULL), WC_DONE);
	CU_ASSERT_EQUAL(req->body_len, 0);
	CU_ASSERT_STRING_EQUAL(stub_header(req, "content-type"), "application/octet-stream");
	stub_request_free(req);
}

CU_TestInfo echo_tests[] = {
	{"refers to the body", test_echo},
	{"body and type absent", test_echo_of_nothing},
	CU_TEST_INFO_NULL,
};
