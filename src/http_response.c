/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "http_response.h"

#include <string.h>

#include "octet.h"

/* clang-format off */
#define STATUSES(S) \
	S(200, "OK") S(201, "Created") S(202, "Accepted") S(203, "Non-Authoritative Information") \
	S(204, "No Content") S(205, "Reset Content") S(206, "Partial Content") \
	S(300, "Multiple Choices") S(301, "Moved Permanently") S(302, "Found") S(303, "See Other") \
	S(304, "Not Modified") S(307, "Temporary Redirect") S(308, "Permanent Redirect") \
	S(400, "Bad Request") S(401, "Unauthorized") S(402, "Payment Required") S(403, "Forbidden") \
	S(404, "Not Found") S(405, "Method Not Allowed") S(406, "Not Acceptable") \
	S(407, "Proxy Authentication Required") S(408, "Request Timeout") S(409, "Conflict") \
	S(410, "Gone") S(411, "Length Required") S(412, "Precondition Failed") \
	S(413, "Content Too Large") S(414, "URI Too Long") S(415, "Unsupported Media Type") \
	S(416, "Range Not Satisfiable") S(417, "Expectation Failed") S(421, "Misdirected Request") \
	S(422, "Unprocessable Content") S(426, "Upgrade Required") S(428, "Precondition Required") \
	S(429, "Too Many Requests") S(431, "Request Header Fields Too Large") \
	S(500, "Internal Server Error") S(501, "Not Implemented") S(502, "Bad Gateway") \
	S(503, "Service Unavailable") S(504, "Gateway Timeout") S(505, "HTTP Version Not Supported")
/* clang-format on */

struct status_line {
	const char *line;
	size_t len;
};

#define LINE(code, reason) "HTTP/1.1 " #code " " reason "\r\n"
#define STATUS(code, reason) \
	[code - 200] = {LINE(code, reason), sizeof LINE(code, reason) - 1},

static const struct status_line status_lines[400] = {STATUSES(STATUS)};

/* Nothing may be NULL, which memcpy() must not be given. */
static char *text(char *out, const char *from, size_t len)
{
	if (len > 0)
		memcpy(out, from, len);
	return out + len;
}

#define TEXT(out, literal) text(out, literal, sizeof(literal) - 1)

static char *number(char *out, uint64_t value)
{
	char digits[20], *at = digits + sizeof digits;

	do
		*--at = (char)('0' + value % 10);
	while (value /= 10);
	return text(out, at, (size_t)(digits + sizeof digits - at));
}

const char *http_reason(int status)
{
#define REASON(code, reason) [code - 200] = reason,
	static const char *const reasons[400] = {STATUSES(REASON)};
	const char *reason = status >= 200 && status < 600 ? reasons[status - 200] : NULL;

	return reason ? reason : "Unknown";
}

static char *status_line(char *out, const struct http_head *head)
{
	const struct status_line *ready = &status_lines[head->status - 200];

	if (ready->line && !head->reason.ptr)
		return text(out, ready->line, ready->len);
	out = TEXT(out, "HTTP/1.1 ");
	out = number(out, (uint64_t)head->status);
	out = TEXT(out, " ");
	if (head->reason.ptr)
		out = text(out, head->reason.ptr, head->reason.len);
	else
		out = TEXT(out, "Unknown");
	return TEXT(out, "\r\n");
}

size_t http_response_head(char *out, const struct http_head *head)
{
	char *start = out;

	out = status_line(out, head);
	out = TEXT(out, "Date: ");
	out = text(out, head->date, HTTP_DATE_LEN);
	out = TEXT(out, "\r\n");
	out = text(out, head->fields.ptr, head->fields.len);
	if (http_has_body(head->status)) {
		out = TEXT(out, "Content-Length: ");
		out = number(out, head->content_length);
		out = TEXT(out, "\r\n");
	}
	if (head->connection == HTTP_CONNECTION_CLOSE)
		out = TEXT(out, "Connection: close\r\n");
	else if (head->connection == HTTP_CONNECTION_KEEP_ALIVE)
		out = TEXT(out, "Connection: keep-alive\r\n");
	out = TEXT(out, "\r\n");
	return (size_t)(out - start);
}

bool http_is_field_name(const char *name, size_t len)
{
	return len > 0 && octet_all(name, len, OCTET_TOKEN);
}

bool http_is_field_value(const char *value, size_t len)
{
	return octet_all(value, len, OCTET_TEXT);
}
