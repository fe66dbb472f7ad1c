/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "admission.h"

#include <string.h>

#include "engine.h"
#include "inflater.h"
#include "request.h"
#include "route.h"
#include "tmax.h"

#define NS_PER_MS 1000000ull

bool admission_is_needed(const struct config_route *route)
{
	return route->shed.after_ms > 0 || route->shed.tmax || route->decompress;
}

static struct wc_span span_in(const struct request *request, struct http_span span)
{
	return (struct wc_span){request->buf + request->pos + span.at, span.len};
}

/* Whether the body is compressed.  Several fields count as one with several codings. */
static bool find_encoding(const struct request *request, struct wc_span *value)
{
	unsigned found = 0;

	for (uint32_t i = 0; i < request->http.field_count; i++) {
		const struct http_field *field = &request->http.fields[i];

		if (!span_is_case(span_in(request, field->name), "Content-Encoding"))
			continue;
		*value = span_in(request, field->value);
		found++;
	}
	if (found > 1)
		*value = span_of("several");
	return found > 0 && !span_is_case(*value, "identity");
}

/* The plain body goes with the request, which may outlive the next one's. */
static int keep_plain(struct request *request, struct wc_span plain)
{
	char *copy;

	request->arena.limit = SIZE_MAX;
	copy = arena_alloc(&request->arena, plain.len + 1);
	if (!copy)
		return 503;
	if (plain.len > 0)
		memcpy(copy, plain.ptr, plain.len);
	request->plain = (struct wc_span){copy, plain.len};
	return 0;
}

/* Status of the answer, 0: the body is plain, or now there is a plain one. */
static int decompress(struct request *request)
{
	static const int statuses[] = {
		[INFLATER_BROKEN] = 400, [INFLATER_TOO_LARGE] = 413, [INFLATER_NO_MEMORY] = 503};
	struct engine *engine = request->engine;
	enum inflater_coding coding;
	enum inflater_result result;
	struct wc_span value, plain;

	if (request->http.body_len == 0 || !find_encoding(request, &value))
		return 0;
	if (!inflater_find_coding(value, &coding))
		return 415;
	if (!engine->inflater && !(engine->inflater = inflater_new()))
		return 503;
	result = inflater_run(engine->inflater, coding, request_body(request),
			      (size_t)engine->limits.body_size, &plain);
	return result == INFLATER_DONE ? keep_plain(request, plain) : statuses[result];
}

static bool is_past(uint64_t now_ns, uint64_t deadline_ns)
{
	return deadline_ns > 0 && now_ns >= deadline_ns;
}

/* Status of the answer, 0: none. */
static int shed(const struct request *request)
{
	const struct route *route = request->route;

	engine_count(request->engine, COUNTER_shed, 1);
	if (route->counts)
		scoreboard_add(&route->counts->shed, 1);
	return route->config->shed.dry_run ? 0 : (int)route->config->shed.status;
}

static uint64_t find_deadline(const struct request *request)
{
	struct wc_span body = request_body(request);
	uint32_t tmax_ms = tmax_find(body.ptr, body.len);

	return tmax_ms ? request->received_ns + tmax_ms * NS_PER_MS : 0;
}

/* By age first: what is shed costs as little as possible. */
int admission_decide(struct request *request)
{
	const struct config_route *config = request->route->config;
	uint64_t now_ns = latency_now(&request->engine->latency);
	bool is_old = config->shed.after_ms &&
		      is_past(now_ns, request->received_ns + config->shed.after_ms * NS_PER_MS);
	int status;

	if (is_old && (status = shed(request)))
		return status;
	if (config->decompress && (status = decompress(request)))
		return status;
	if (!config->shed.tmax)
		return 0;
	request->deadline_ns = find_deadline(request);
	return !is_old && is_past(now_ns, request->deadline_ns) ? shed(request) : 0;
}
