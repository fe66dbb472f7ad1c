/* SPDX-License-Identifier: MIT */
/* hello: answers every request with the same text, the option "text". */
#include "autoconf.h"

#include <stdlib.h>
#include <string.h>

#include "whitecap.h"

static const char default_text[] = "hello world!";

static bool is_valid(const json_t *options, struct wc_worker *worker)
{
	const json_t *text = json_object_get(options, "text");
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)options, key, value)
		if (value != text)
			wc_log(worker, WC_LOG_ERROR, "options.%s: unknown key", key);
	if (text && !json_is_string(text))
		wc_log(worker, WC_LOG_ERROR, "options.text: expected a string");
	return json_object_size(options) == (text ? 1 : 0) && (!text || json_is_string(text));
}

static int init(void **state, const json_t *options, struct wc_worker *worker)
{
	const json_t *value = json_object_get(options, "text");
	struct wc_span *text;

	if (!is_valid(options, worker))
		return -1;
	text = malloc(sizeof(*text));
	if (!text) {
		wc_log(worker, WC_LOG_ERROR, "out of memory");
		return -1;
	}
	*text = (struct wc_span){default_text, strlen(default_text)};
	if (value)
		*text = (struct wc_span){json_string_value(value), json_string_length(value)};
	*state = text;
	return 0;
}

static int handle(struct wc_request *req, void *state)
{
	const struct wc_span *text = state;

	wc_header(req, "Content-Type", "text/plain");
	return wc_reply(req, 200, text->ptr, text->len);
}

WC_HANDLER(.name = "hello", .init = init, .fini = free, .handle = handle, .replay = true);
