/* SPDX-License-Identifier: MIT */
/* Greets, numbers its answers, and counts them in the server's statistics. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <whitecap.h>

struct hello {
	const char *greeting; /* lies in the options, which live until fini */
	unsigned long answers;
	struct wc_counter *counter;
};

static int init(void **state, const json_t *options, struct wc_worker *worker)
{
	const json_t *greeting = json_object_get(options, "greeting");
	struct hello *hello;

	if (greeting && !json_is_string(greeting)) {
		wc_log(worker, WC_LOG_ERROR, "options.greeting: expected a string");
		return -1;
	}
	hello = calloc(1, sizeof(*hello));
	if (!hello)
		return -1;
	hello->greeting = greeting ? json_string_value(greeting) : "hello";
	hello->counter = wc_counter(worker, "greetings");
	*state = hello;
	return 0;
}

static int handle(struct wc_request *req, void *state)
{
	struct hello *hello = state;
	char number[24];

	snprintf(number, sizeof(number), "%lu", ++hello->answers);
	wc_count(hello->counter, 1);
	wc_header(req, "Content-Type", "text/plain; charset=utf-8");
	wc_header(req, "X-Answer", number);
	return wc_reply(req, 200, hello->greeting, strlen(hello->greeting));
}

WC_HANDLER(.name = "hello-counter", .init = init, .fini = free, .handle = handle);
