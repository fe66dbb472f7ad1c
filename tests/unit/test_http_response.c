/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_response.h"

extern CU_TestInfo http_response_tests[];

#define DATE "Sun, 06 Nov 1994 08:49:37 GMT"
#define DATE_LINE "Date: " DATE "\r\n"
#define SPAN(text) {text, sizeof(text) - 1}

static const struct {
	struct http_head head;
	const char *text;
} head_cases[] = {
	{{.status = 200, .content_length = 12},
	 "HTTP/1.1 200 OK\r\n" DATE_LINE "Content-Length: 12\r\n\r\n"},
	{{.status = 200}, "HTTP/1.1 200 OK\r\n" DATE_LINE "Content-Length: 0\r\n\r\n"},
	{{.status = 404, .content_length = UINT64_MAX},
	 "HTTP/1.1 404 Not Found\r\n" DATE_LINE "Content-Length: 18446744073709551615\r\n\r\n"},
	{{.status = 204}, "HTTP/1.1 204 No Content\r\n" DATE_LINE "\r\n"},
	{{.status = 304, .content_length = 5}, "HTTP/1.1 304 Not Modified\r\n" DATE_LINE "\r\n"},
	{{.status = 205}, "HTTP/1.1 205 Reset Content\r\n" DATE_LINE "Content-Length: 0\r\n\r\n"},
	{{.status = 299}, "HTTP/1.1 299 Unknown\r\n" DATE_LINE "Content-Length: 0\r\n\r\n"},
	{{.status = 599}, "HTTP/1.1 599 Unknown\r\n" DATE_LINE "Content-Length: 0\r\n\r\n"},
	{{.status = 200, .reason = SPAN("Fine, thanks")},
	 "HTTP/1.1 200 Fine, thanks\r\n" DATE_LINE "Content-Length: 0\r\n\r\n"},
	{{.status = 200, .reason = SPAN("")},
	 "HTTP/1.1 200 \r\n" DATE_LINE "Content-Length: 0\r\n\r\n"},
	{{.status = 200, .fields = SPAN("A: b\r\nC: d\r\n"), .content_length = 1},
	 "HTTP/1.1 200 OK\r\n" DATE_LINE "A: b\r\nC: d\r\nContent-Length: 1\r\n\r\n"},
	{{.status = 500, .connection = HTTP_CONNECTION_CLOSE},
	 "HTTP/1.1 500 Internal Server Error\r\n" DATE_LINE
	 "Content-Length: 0\r\nConnection: close\r\n\r\n"},
	{{.status = 204, .connection = HTTP_CONNECTION_KEEP_ALIVE},
	 "HTTP/1.1 204 No Content\r\n" DATE_LINE "Connection: keep-alive\r\n\r\n"},
};

/* Writes the head into memory that ends where the promised room ends. */
static size_t write_head(const struct http_head *head, char **out)
{
	struct http_head dated = *head;

	dated.date = DATE;
	if (!dated.fields.ptr)
		dated.fields.ptr = "";
	*out = malloc(HTTP_HEAD_ROOM + head->fields.len + head->reason.len);
	return http_response_head(*out, &dated);
}

static void test_head(void)
{
	for (size_t i = 0; i < sizeof head_cases / sizeof *head_cases; i++) {
		char *out;
		size_t len = write_head(&head_cases[i].head, &out);

		if (len != strlen(head_cases[i].text) || memcmp(out, head_cases[i].text, len) != 0)
			printf("\nwanted %s\ngot %.*s\n", head_cases[i].text, (int)len, out);
		CU_ASSERT_EQUAL_FATAL(len, strlen(head_cases[i].text));
		CU_ASSERT_NSTRING_EQUAL(out, head_cases[i].text, len);
		free(out);
	}
}

/* The longest heads fit in the room, and each begins with its status and its usual reason. */
static void test_every_status(void)
{
	for (int status = 200; status < 600; status++) {
		struct http_head head = {.status = status,
					 .content_length = UINT64_MAX,
					 .connection = HTTP_CONNECTION_KEEP_ALIVE};
		char *out, line[128];
		size_t len = write_head(&head, &out);

		snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\n", status, http_reason(status));
		CU_ASSERT(len <= HTTP_HEAD_ROOM);
		CU_ASSERT_NSTRING_EQUAL(out, line, strlen(line));
		CU_ASSERT_NSTRING_EQUAL(out + len - 4, "\r\n\r\n", 4);
		free(out);
	}
}

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{200, "OK"},	       {413, "Content Too Large"}, {505, "HTTP Version Not Supported"},
	{418, "Unknown"},      {199, "Unknown"},	   {600, "Unknown"},
	{0, "Unknown"},	       {-1, "Unknown"},		   {100, "Unknown"},
};

static void test_reason(void)
{
	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
		CU_ASSERT_STRING_EQUAL(http_reason(reasons[i].status), reasons[i].reason);
}

static void test_has_body(void)
{
	for (int status = 100; status < 600; status++)
		CU_ASSERT_EQUAL(http_has_body(status),
				status >= 200 && status != 204 && status != 304);
}

/* RFC 9110, 5.6.2: the octets of a token, and no others. */
static void test_field_name(void)
{
	static const char token[] = "!#$%&'*+-.^_`|~0123456789"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

	CU_ASSERT(http_is_field_name(token, strlen(token)));
	CU_ASSERT_FALSE(http_is_field_name("", 0));
	for (int octet = 0; octet < 256; octet++) {
		char name[3] = {'A', (char)octet, 'B'};

		CU_ASSERT_EQUAL(http_is_field_name(name, 3),
				octet != 0 && strchr(token, octet) != NULL);
	}
}

/* RFC 9110, 5.5: no control octet but the tab. */
static void test_field_value(void)
{
	CU_ASSERT(http_is_field_value("", 0));
	for (int octet = 0; octet < 256; octet++) {
		char value[3] = {'a', (char)octet, 'b'};

		CU_ASSERT_EQUAL(http_is_field_value(value, 3),
				octet == '\t' || (octet >= ' ' && octet != 127));
	}
}

CU_TestInfo http_response_tests[] = {
	{"head", test_head},
	{"every status", test_every_status},
	{"reason", test_reason},
	{"has body", test_has_body},
	{"field name", test_field_name},
	{"field value", test_field_value},
	CU_TEST_INFO_NULL,
};
