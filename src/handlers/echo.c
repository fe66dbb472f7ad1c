/* SPDX-License-Identifier: MIT */
/* echo: answers with the request's own body, referred to where it lies. */
#include "autoconf.h"

#include "whitecap.h"

static int handle(struct wc_request *req, void *state)
{
	struct wc_span type = wc_get_header(req, "Content-Type");
	struct wc_span body = wc_body(req);

	(void)state;
	if (type.ptr)
		wc_header_span(req, (struct wc_span){"Content-Type", 12}, type);
	else
		wc_header(req, "Content-Type", "application/octet-stream");
	return wc_reply(req, 200, body.ptr, body.len);
}

WC_HANDLER(.name = "echo", .handle = handle, .replay = true);
