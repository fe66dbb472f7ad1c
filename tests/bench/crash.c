/* SPDX-License-Identifier: MIT */
/* A handler that crashes its worker with each request. */
#include <whitecap.h>

static int *volatile nowhere;

static int handle(struct wc_request *req, void *state)
{
	(void)state;
	*nowhere = 1;
	return wc_reply(req, 200, "", 0);
}

WC_HANDLER(.name = "crash", .handle = handle);
