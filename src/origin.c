/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "origin.h"

#include <assert.h>
#include <stdlib.h>

#include "conn.h"
#include "engine.h"
#include "request.h"

int origin_read_networks(const struct config *config, struct networks *networks)
{
	size_t count = 0;

	while (config->trusted_proxies[count])
		count++;
	networks->list = calloc(count + 1, sizeof *networks->list);
	if (!networks->list)
		return -1;
	networks->count = count;
	for (size_t i = 0; i < count; i++) {
		bool parsed = network_parse(&networks->list[i], config->trusted_proxies[i]);

		assert(parsed); /* the configuration was checked */
	}
	return 0;
}

static struct wc_span span_in(const struct request *request, struct http_span span)
{
	return (struct wc_span){request->buf + request->pos + span.at, span.len};
}

void origin_find(const struct conn *conn, const struct request *request, struct peer *peer)
{
	const struct networks *trusted = &request->engine->trusted;
	const struct http_request *http = &request->http;
	bool whole = http->method.len > 0; /* else the head was refused before it was understood */

	*peer = conn->peer;
	if (!whole || !forwarded_is_trusted(trusted, peer))
		return;
	for (uint32_t i = http->field_count; i-- > 0;)
		if (span_is_case(span_in(request, http->fields[i].name), "X-Forwarded-For") &&
		    !forwarded_walk(peer, trusted, span_in(request, http->fields[i].value)))
			return;
}
