/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "admission.h"

#include "engine.h"
#include "request.h"
#include "route.h"
#include "tmax.h"

#define NS_PER_MS 1000000ull

bool admission_is_needed(const struct config_route *route)
{
	return route->shed.after_ms > 0 || route->shed.tmax;
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
	return route->shed->dry_run ? 0 : (int)route->shed->status;
}

static struct wc_span body_of(const struct request *request)
{
	return (struct wc_span){request->buf + request->pos + request->http.head_len,
				(size_t)request->http.body_len};
}

static uint64_t find_deadline(const struct request *request)
{
	struct wc_span body = body_of(request);
	uint32_t tmax_ms = tmax_find(body.ptr, body.len);

	return tmax_ms ? request->received_ns + tmax_ms * NS_PER_MS : 0;
}

/* A request of a worker that died may be older than the process: its age counts from its first octet all the same. */
int admission_decide(struct request *request)
{
	const struct config_shed *config = request->route->shed;
	uint64_t now_ns = latency_now(&request->engine->latency);

	if (config->after_ms && is_past(now_ns, request->received_ns + config->after_ms * NS_PER_MS))
		return shed(request);
	if (!config->tmax)
		return 0;
	request->deadline_ns = find_deadline(request);
	return is_past(now_ns, request->deadline_ns) ? shed(request) : 0;
}
