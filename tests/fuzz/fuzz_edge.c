/* SPDX-License-Identifier: MIT */
/*
 * Small parsers of what clients send, in one: the PROXY header, tmax, X-Forwarded-For, compressed bodies.  Each sees the
 * input whole and in a shorter form, in memory of its own.
 */
#include "autoconf.h"

#include "fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "forwarded.h"
#include "inflater.h"
#include "proxy_header.h"
#include "tmax.h"

enum { INPUT_MAX = 65536, PLAIN_MAX = 65536 };

/* What is decided of the first octets stays so when more come. */
static void check_proxy_header(const char *data, size_t len)
{
	struct proxy_header whole, cut;
	enum proxy_progress now = proxy_header_parse(data, len, &whole);
	enum proxy_progress before = proxy_header_parse(data, len / 2, &cut);
	char text[PEER_TEXT];

	assert(before != PROXY_BAD || now == PROXY_BAD);
	assert(before != PROXY_DONE || (now == PROXY_DONE && cut.len == whole.len));
	assert(now != PROXY_DONE || (whole.len <= len && whole.len <= PROXY_HEADER_V2_MAX));
	if (now == PROXY_DONE && whole.has_peer)
		assert(*peer_text(&whole.peer, text));
}

static void check_forwarded(const char *data, size_t len)
{
	struct network network = {.bits = 0};
	struct networks trusted = {1, &network};
	struct peer peer;
	char text[PEER_TEXT];

	network_parse(&network, "10.0.0.0/8");
	peer_parse(&peer, "10.0.0.1:1", 10);
	forwarded_walk(&peer, &trusted, (struct wc_span){data, len});
	assert(*peer_text(&peer, text));
}

static void check_inflater(const char *data, size_t len)
{
	static struct inflater *inflater;
	struct wc_span plain;

	if (!inflater)
		inflater = inflater_new();
	for (unsigned coding = INFLATER_GZIP; coding <= INFLATER_DEFLATE; coding++)
		if (inflater_run(inflater, coding, (struct wc_span){data, len}, PLAIN_MAX, &plain) ==
		    INFLATER_DONE)
			assert(plain.len <= PLAIN_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *copy;

	if (len > INPUT_MAX)
		return 0;
	copy = malloc(len + !len);
	memcpy(copy, data, len);
	check_proxy_header(copy, len);
	check_forwarded(copy, len);
	check_inflater(copy, len);
	assert(tmax_find(copy, len) <= 999999999);
	free(copy);
	return 0;
}
