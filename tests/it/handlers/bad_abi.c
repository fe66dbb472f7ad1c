/* SPDX-License-Identifier: MIT */
/* A handler of another interface. */
#include <whitecap.h>

static int handle(struct wc_request *req, void *state)
{
	(void)state;
	return wc_reply(req, 200, "ok", 2);
}

WC_EXPORT const struct wc_handler wc_handler_descriptor = {
	.abi = WC_ABI + 1000, .size = sizeof(struct wc_handler), .name = "bad_abi", .handle = handle};
