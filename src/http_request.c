/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "http_request.h"

#include <assert.h>
#include <http_parser.h>
#include <string.h>

#include "http_chunked.h"
#include "octet.h"

enum item { ITEM_NONE, ITEM_NAME, ITEM_VALUE };

/* How often blanks that http-parser does not take are rewritten in one head. */
enum { REWRITES_MAX = 4 };

/* A method is a token of at most so many octets; a longer one is refused as it arrives. */
enum { METHOD_MAX = 64 };

_Static_assert(sizeof(http_parser) <= sizeof(((struct http_request *)0)->parser),
	       "http_request.parser is too small");

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static http_parser *parser_of(struct http_request *request)
{
	return (http_parser *)request->parser;
}

static int refuse(struct http_request *request, unsigned status)
{
	request->status = (uint16_t)status;
	return -1;
}

static int on_url(http_parser *parser, const char *at, size_t len)
{
	struct http_request *request = parser->data;

	if (request->target.len == 0)
		request->target.at = (uint32_t)(at - request->base);
	request->target.len += (uint32_t)len;
	return request->target.len > request->limits->target_size ? refuse(request, 414) : 0;
}

static int on_name(http_parser *parser, const char *at, size_t len)
{
	struct http_request *request = parser->data;
	struct http_field *field = &request->fields[request->field_count];

	if (request->item == ITEM_NAME) {
		field[-1].name.len += (uint32_t)len;
		return 0;
	}
	if (request->field_count == request->limits->max_fields)
		return refuse(request, 431);
	field->name = (struct http_span){(uint32_t)(at - request->base), (uint32_t)len};
	field->value = (struct http_span){0, 0};
	request->field_count++;
	request->item = ITEM_NAME;
	return 0;
}

static int on_value(http_parser *parser, const char *at, size_t len)
{
	struct http_request *request = parser->data;
	struct http_span *value = &request->fields[request->field_count - 1].value;
	uint32_t offset = (uint32_t)(at - request->base);

	request->item = ITEM_VALUE;
	if (len == 0)
		return 0;
	if (value->len == 0)
		value->at = offset;
	else if (value->at + value->len != offset) /* a folded line */
		return refuse(request, 400);
	value->len += (uint32_t)len;
	return 0;
}

static int on_head(http_parser *parser)
{
	http_parser_pause(parser, 1);
	return 0;
}

static const http_parser_settings settings = {
	.on_url = on_url,
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_headers_complete = on_head,
};

void http_request_setup(const struct http_limits *limits)
{
	http_parser_set_max_header_size(limits->head_size);
}

size_t http_request_size(const struct http_limits *limits)
{
	return sizeof(struct http_request) + limits->max_fields * sizeof(struct http_field);
}

void http_request_init(struct http_request *request, const struct http_limits *limits)
{
	memset(request, 0, offsetof(struct http_request, fields));
	request->limits = limits;
	http_parser_init(parser_of(request), HTTP_REQUEST);
	parser_of(request)->data = request;
}

/* METHOD SP target SP "HTTP/" DIGIT "." DIGIT CRLF, to the octet.  Returns the offset behind it, 0:
 * bad. */
static uint32_t check_request_line(struct http_request *request, const char *buf)
{
	struct http_span target = request->target;
	const char *version = buf + target.at + target.len;
	uint32_t end = target.at + target.len + 11;

	if (target.len == 0 || target.at < request->start + 2 || request->head_len < end ||
	    buf[target.at - 1] != ' ' || buf[target.at - 2] == ' ')
		return 0;
	if (memcmp(version, " HTTP/", 6) != 0 || version[6] < '0' || version[6] > '9' ||
	    version[7] != '.' || version[8] < '0' || version[8] > '9' || version[9] != '\r' ||
	    version[10] != '\n')
		return 0;
	request->method = (struct http_span){request->start, target.at - 1 - request->start};
	request->version = version[8] == '0' ? 10 : 11;
	if (version[6] != '1')
		refuse(request, 505);
	return end;
}

/* One field as the spans say, to the octet, beginning at `at`.  Returns the offset behind its CRLF,
 * 0: bad. */
static uint32_t check_field(struct http_field *field, const char *buf, uint32_t at)
{
	struct http_span *name = &field->name, *value = &field->value;
	uint32_t pos = name->at + name->len;

	if (name->at != at || buf[pos] != ':' || memchr(buf + at, ' ', name->len))
		return 0;
	for (pos++; is_blank(buf[pos]);)
		pos++;
	if (value->len == 0)
		value->at = pos;
	/* http-parser checks all octets of a value but the first. */
	if (value->at != pos ||
	    (value->len > 0 && ((unsigned char)buf[pos] < ' ' || buf[pos] == 127)))
		return 0;
	pos += value->len;
	while (value->len > 0 && is_blank(buf[value->at + value->len - 1]))
		value->len--;
	return buf[pos] == '\r' && buf[pos + 1] == '\n' ? pos + 2 : 0;
}

static bool value_is(const char *buf, struct http_span value, const char *text)
{
	return value.len == strlen(text) && octet_equal_case(buf + value.at, text, value.len);
}

/* Calls `each` for every element of a comma-separated list that is not empty. */
static void for_each_element(struct http_request *request, const char *buf, struct http_span list,
			     void (*each)(struct http_request *, const char *, struct http_span))
{
	uint32_t end = list.at + list.len, at = list.at;

	while (at < end) {
		const char *comma = memchr(buf + at, ',', end - at);
		uint32_t next = comma ? (uint32_t)(comma - buf) : end;
		struct http_span element = {at, next - at};

		while (element.len > 0 && is_blank(buf[element.at]))
			element.at++, element.len--;
		while (element.len > 0 && is_blank(buf[element.at + element.len - 1]))
			element.len--;
		if (element.len > 0)
			each(request, buf, element);
		at = next + 1;
	}
}

/* What the fields say together, gathered while they are walked. */
enum { SEEN_CLOSE = 1, SEEN_KEEP_ALIVE = 2, SEEN_CODING = 4, SEEN_UNKNOWN = 8, SEEN_HOST = 16 };

static void see_connection(struct http_request *request, const char *buf, struct http_span element)
{
	if (value_is(buf, element, "close"))
		request->item |= SEEN_CLOSE;
	else if (value_is(buf, element, "keep-alive"))
		request->item |= SEEN_KEEP_ALIVE;
}

static void see_coding(struct http_request *request, const char *buf, struct http_span element)
{
	if (octet_all(buf + element.at, element.len, OCTET_TOKEN) &&
	    !value_is(buf, element, "chunked"))
		request->item |= SEEN_UNKNOWN;
}

/* uri-host [ ":" port ] (RFC 3986), or nothing. */
static bool is_host(const char *s, uint32_t len)
{
	const char *end = s + len, *host = s;

	if (s < end && *s == '[') {
		for (s++; s < end && (octet_is(*s, OCTET_HEX) || *s == ':' || *s == '.');)
			s++;
		if (s == end || *s != ']' || s - host < 3)
			return false;
		s++;
	} else {
		while (s < end && (octet_is(*s, OCTET_HOST) ||
				   (*s == '%' && end - s > 2 && octet_is(s[1], OCTET_HEX) &&
				    octet_is(s[2], OCTET_HEX))))
			s++;
	}
	if (s == end)
		return true;
	if (*s != ':' || s == host)
		return false;
	while (++s < end)
		if (*s < '0' || *s > '9')
			return false;
	return true;
}

static int see_host(struct http_request *request, const char *buf, struct http_span value)
{
	if ((request->item & SEEN_HOST) || !is_host(buf + value.at, value.len))
		return refuse(request, 400);
	request->item |= SEEN_HOST;
	return 0;
}

/* Exactly "chunked", on one line, in HTTP/1.1; other codings are 501, anything else 400. */
static int see_transfer_encoding(struct http_request *request, const char *buf,
				 struct http_span value)
{
	if (request->version < 11)
		return refuse(request, 400);
	for_each_element(request, buf, value, see_coding);
	if (request->item & SEEN_UNKNOWN)
		return refuse(request, 501);
	if ((request->item & SEEN_CODING) || !value_is(buf, value, "chunked"))
		return refuse(request, 400);
	request->item |= SEEN_CODING;
	return 0;
}

static int see_expect(struct http_request *request, const char *buf, struct http_span value)
{
	if (request->version < 11)
		return 0;
	request->expect_continue = value_is(buf, value, "100-continue");
	return request->expect_continue ? 0 : refuse(request, 417);
}

/* The fields that the server itself reads, told apart by their length first. */
static int see_field(struct http_request *request, const char *buf, const struct http_field *field)
{
	struct http_span name = field->name, value = field->value;

	switch (name.len) {
	case 4:
		return value_is(buf, name, "Host") ? see_host(request, buf, value) : 0;
	case 6:
		return value_is(buf, name, "Expect") ? see_expect(request, buf, value) : 0;
	case 10:
		if (value_is(buf, name, "Connection"))
			for_each_element(request, buf, value, see_connection);
		return 0;
	case 17:
		return value_is(buf, name, "Transfer-Encoding")
			       ? see_transfer_encoding(request, buf, value)
			       : 0;
	default:
		return 0;
	}
}

static bool is_target_text(const char *s, uint32_t len)
{
	for (const char *end = s + len; s < end; s++)
		if (!octet_is(*s, OCTET_TARGET) &&
		    !(*s == '%' && end - s > 2 && octet_is(s[1], OCTET_HEX) &&
		      octet_is(s[2], OCTET_HEX)))
			return false;
	return true;
}

/* Length of "http://authority" in front of an absolute target; 0: it is none, or a bad one. */
static uint32_t authority_end(const char *target, uint32_t len)
{
	uint32_t scheme = len > 7 && octet_equal_case(target, "http://", 7)    ? 7
			  : len > 8 && octet_equal_case(target, "https://", 8) ? 8
									       : 0;
	uint32_t end = scheme;

	if (scheme == 0)
		return 0;
	while (end < len && target[end] != '/' && target[end] != '?')
		end++;
	return end > scheme && is_host(target + scheme, end - scheme) ? end : 0;
}

/* Splits the target (RFC 9112, 3.2): origin form, absolute form, or "*" for OPTIONS. */
static int split_target(struct http_request *request, const char *buf)
{
	struct http_span target = request->target;
	const char *text = buf + target.at, *mark;
	uint32_t skip = 0;

	if (!is_target_text(text, target.len))
		return refuse(request, 400);
	if (text[0] == '*' && target.len == 1 && value_is(buf, request->method, "OPTIONS")) {
		request->path = target;
		return 0;
	}
	if (text[0] != '/' && (skip = authority_end(text, target.len)) == 0)
		return refuse(request, 400);
	request->path = (struct http_span){target.at + skip, target.len - skip};
	mark = memchr(text + skip, '?', target.len - skip);
	if (mark) {
		uint32_t at = (uint32_t)(mark - buf);

		request->path.len = at - request->path.at;
		request->query = (struct http_span){at + 1, target.at + target.len - at - 1};
	}
	return 0;
}

/* The head is whole: checks what http-parser does not, and says how the body is framed. */
static int check_head(struct http_request *request, const char *buf)
{
	http_parser *parser = parser_of(request);
	uint32_t pos = check_request_line(request, buf);

	request->item = 0;
	if (pos == 0)
		return refuse(request, 400);
	for (uint32_t i = 0; i < request->field_count; i++)
		if ((pos = check_field(&request->fields[i], buf, pos)) == 0)
			return refuse(request, 400);
	if (pos + 2 != request->head_len || buf[pos] != '\r' || buf[pos + 1] != '\n')
		return refuse(request, 400);
	if (request->status) /* the version */
		return -1;
	for (uint32_t i = 0; i < request->field_count; i++)
		if (see_field(request, buf, &request->fields[i]) < 0)
			return -1;
	if (!(request->item & SEEN_HOST) && request->version >= 11)
		return refuse(request, 400);
	if (parser->method == HTTP_CONNECT)
		return refuse(request, 501);
	if (split_target(request, buf) < 0)
		return -1;
	request->is_head = parser->method == HTTP_HEAD;
	request->keep_alive = !(request->item & SEEN_CLOSE) &&
			      (request->version >= 11 || (request->item & SEEN_KEEP_ALIVE));
	if (request->item & SEEN_CODING) {
		request->phase = HTTP_PHASE_CHUNKED;
		return 0;
	}
	request->phase = HTTP_PHASE_LENGTH;
	if (parser->flags & F_CONTENTLENGTH)
		request->content_length = parser->content_length;
	return request->content_length > request->limits->body_size ? refuse(request, 413) : 0;
}

/*
 * http-parser left its list of methods, perhaps before the token was whole.  A token followed by a
 * blank is a method that this server does not know.
 */
static enum http_progress unknown_method(struct http_request *request, const char *buf, size_t len)
{
	size_t pos = request->start;

	while (pos < len && octet_is(buf[pos], OCTET_TOKEN))
		pos++;
	if (pos == len && len - request->start <= METHOD_MAX) {
		request->fed = request->start; /* look again from its first octet */
		http_parser_init(parser_of(request), HTTP_REQUEST);
		return HTTP_MORE;
	}
	refuse(request, pos > request->start && (pos == len || buf[pos] == ' ') ? 501 : 400);
	return HTTP_BAD;
}

static uint32_t blanks_to_spaces(char *buf, size_t len, size_t pos)
{
	while (pos < len && is_blank(buf[pos]))
		buf[pos++] = ' ';
	return (uint32_t)pos;
}

/*
 * http-parser takes no tab behind a Content-Length, though it is only a blank.  Turns the run of
 * blanks into spaces; the head has to be read again.
 */
static bool rewrite_blanks(struct http_request *request, char *buf, size_t len, size_t pos)
{
	if (pos >= len || buf[pos] != '\t' || request->rewrites == REWRITES_MAX)
		return false;
	request->blanks_end = blanks_to_spaces(buf, len, pos);
	return true;
}

static enum http_progress feed_head(struct http_request *request, char *buf, size_t len);

static enum http_progress head_error(struct http_request *request, char *buf, size_t len,
				     size_t pos)
{
	enum http_errno error = HTTP_PARSER_ERRNO(parser_of(request));

	if (request->status) /* a callback refused */
		return HTTP_BAD;
	if (error == HPE_INVALID_METHOD)
		return unknown_method(request, buf, len);
	if (error == HPE_INVALID_CONTENT_LENGTH && rewrite_blanks(request, buf, len, pos)) {
		uint8_t rewrites = request->rewrites;
		uint32_t start = request->start, blanks_end = request->blanks_end;

		http_request_init(request, request->limits);
		request->rewrites = rewrites + 1;
		request->blanks_end = blanks_end;
		request->start = request->fed = start;
		return feed_head(request, buf, len);
	}
	if (error == HPE_HEADER_OVERFLOW)
		refuse(request,
		       memchr(buf + request->start, '\n', pos - request->start) ? 431 : 414);
	else
		refuse(request, 400);
	return HTTP_BAD;
}

/* Empty lines before a request are skipped (RFC 9112, 2.2), each a whole CRLF. */
static enum http_progress skip_empty_lines(struct http_request *request, const char *buf,
					   size_t len)
{
	size_t pos = request->fed;

	while (len - pos >= 2 && buf[pos] == '\r' && buf[pos + 1] == '\n')
		pos += 2;
	request->start = request->fed = (uint32_t)pos;
	if (pos < request->limits->head_size) {
		if (pos == len || (buf[pos] == '\r' && pos + 1 == len))
			return HTTP_MORE;
		if (octet_is(buf[pos], OCTET_TOKEN))
			return HTTP_DONE;
	}
	refuse(request, 400);
	return HTTP_BAD;
}

static enum http_progress feed_head(struct http_request *request, char *buf, size_t len)
{
	http_parser *parser = parser_of(request);
	enum http_progress progress;
	size_t parsed;

	if (request->fed == request->start) {
		progress = skip_empty_lines(request, buf, len);
		if (progress != HTTP_DONE)
			return progress;
	}
	if (request->fed == len) /* to http-parser, no octets mean the end of the stream */
		return HTTP_MORE;
	if (request->blanks_end == request->fed) /* the run goes on */
		request->blanks_end = blanks_to_spaces(buf, len, request->fed);
	parser->data = request;
	request->base = buf;
	parsed = http_parser_execute(parser, &settings, buf + request->fed, len - request->fed);
	if (HTTP_PARSER_ERRNO(parser) == HPE_OK) {
		request->fed = (uint32_t)len;
		return HTTP_MORE;
	}
	if (HTTP_PARSER_ERRNO(parser) != HPE_PAUSED)
		return head_error(request, buf, len, request->fed + parsed);
	/* Paused in on_headers_complete: the last octet of the head is not counted. */
	request->head_len = request->fed = (uint32_t)(request->fed + parsed + 1);
	return check_head(request, buf) < 0 ? HTTP_BAD : HTTP_DONE;
}

static enum http_progress feed_length(struct http_request *request, size_t len, size_t *used)
{
	uint64_t have = len - request->head_len;

	request->body_len = have < request->content_length ? have : request->content_length;
	*used = request->head_len + (size_t)request->body_len;
	return request->body_len < request->content_length ? HTTP_MORE : HTTP_DONE;
}

enum http_progress http_request_feed(struct http_request *request, char *buf, size_t len,
				     size_t *used)
{
	enum http_progress progress;

	if (request->phase == HTTP_PHASE_HEAD) {
		progress = feed_head(request, buf, len);
		*used = len;
		if (progress != HTTP_DONE)
			return progress;
	}
	if (request->phase == HTTP_PHASE_LENGTH)
		return feed_length(request, len, used);
	return http_chunked_feed(request, buf, len, used);
}
