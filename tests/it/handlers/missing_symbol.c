/* SPDX-License-Identifier: MIT */
/* Needs a function that nobody has. */
#include <whitecap.h>

int nobody_has_this(struct wc_request *req);

static int handle(struct wc_request *req, void *state)
{
	(void)state;
	return nobody_has_this(req);
}

WC_HANDLER(.name = "missing_symbol", .handle = handle);
