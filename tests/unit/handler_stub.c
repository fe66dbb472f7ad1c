/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "handler_stub.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct wc_counter {
	char name[32];
	uint64_t value;
};

char stub_log[STUB_LOG];
static struct wc_counter counters[64];

/* A copy with no octet to spare, so that a sanitizer sees what reads past its end. */
static struct wc_span copy(const char *text, size_t len)
{
	char *tight = len ? malloc(len) : NULL;

	if (tight)
		memcpy(tight, text, len);
	return (struct wc_span){tight, len};
}

struct wc_request *stub_request_new(const char *body, size_t len)
{
	struct wc_request *req = calloc(1, sizeof(*req));

	if (!req)
		abort();
	req->body = copy(body, len);
	req->room = STUB_MEMORY;
	return req;
}

void stub_request_free(struct wc_request *req)
{
	while (req->pieces) {
		struct stub_piece *next = req->pieces->next;

		free(req->pieces);
		req->pieces = next;
	}
	free((void *)req->body.ptr);
	free(req->body_sent);
	free(req);
}

const char *stub_header(const struct wc_request *req, const char *name)
{
	size_t i;

	for (i = 0; i < req->header_count; i++)
		if (strcasecmp(req->headers[i].name, name) == 0)
			return req->headers[i].value;
	return "";
}

uint64_t stub_counter(const char *name)
{
	return wc_counter(NULL, name)->value;
}

struct wc_span wc_body(struct wc_request *req)
{
	return req->body;
}

struct wc_span wc_get_header(struct wc_request *req, const char *name)
{
	if (!req->content_type || strcasecmp(name, "Content-Type") != 0)
		return (struct wc_span){NULL, 0};
	return (struct wc_span){req->content_type, strlen(req->content_type)};
}

int wc_header_span(struct wc_request *req, struct wc_span name, struct wc_span value)
{
	struct stub_header *header = &req->headers[req->header_count++];

	if (req->header_count == STUB_HEADERS)
		abort();
	snprintf(header->name, sizeof(header->name), "%.*s", (int)name.len, name.ptr);
	snprintf(header->value, sizeof(header->value), "%.*s", (int)value.len, value.ptr);
	return 0;
}

int wc_header(struct wc_request *req, const char *name, const char *value)
{
	return wc_header_span(req, (struct wc_span){name, strlen(name)},
			      (struct wc_span){value, strlen(value)});
}

int wc_reply(struct wc_request *req, int status, const void *body, size_t len)
{
	char *kept = malloc(len + 1);

	if (!kept || req->replies++ || (status == 204 && len > 0))
		abort();
	req->status = status;
	req->body_ptr = body;
	req->body_len = len;
	if (len)
		memcpy(kept, body, len);
	kept[len] = '\0';
	req->body_sent = kept;
	return WC_DONE;
}

void *wc_alloc(struct wc_request *req, size_t size)
{
	struct stub_piece *piece;

	if (size > req->room || !(piece = malloc(sizeof(*piece) + size))) {
		req->room = 0;
		return NULL;
	}
	req->room -= size;
	piece->next = req->pieces;
	req->pieces = piece;
	return piece->bytes;
}

void wc_log(struct wc_worker *worker, enum wc_log_level level, const char *format, ...)
{
	size_t len = strlen(stub_log);
	va_list args;

	(void)worker;
	(void)level;
	va_start(args, format);
	vsnprintf(stub_log + len, sizeof(stub_log) - len, format, args);
	va_end(args);
	len = strlen(stub_log);
	if (len + 1 < sizeof(stub_log))
		strcpy(stub_log + len, "\n");
}

struct wc_counter *wc_counter(struct wc_worker *worker, const char *name)
{
	struct wc_counter *counter = counters;

	(void)worker;
	while (counter->name[0] && strcmp(counter->name, name) != 0)
		counter++;
	snprintf(counter->name, sizeof(counter->name), "%s", name);
	return counter;
}

void wc_count(struct wc_counter *counter, uint64_t n)
{
	counter->value += n;
}
