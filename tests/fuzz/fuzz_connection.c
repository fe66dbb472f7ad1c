/* SPDX-License-Identifier: MIT */
/*
 * A connection of a real worker's engine, from the first octet to its end: what the client sends in
 * pieces has the same answers as when it is sent at once.  The first octet says how it is cut.  The
 * handler answers with the body.
 */
#include "../../src/worker.c"

#include "fuzz.h"

#include <assert.h>

#include "peer.h"

enum { INPUT_MAX = 32768, OUTPUT_MAX = 1 << 20, TURNS_MAX = 200 };

struct transcript {
	size_t len;
	char text[OUTPUT_MAX];
};

static struct worker fuzzed;

static int answer(struct wc_request *req, void *state)
{
	struct wc_span body = wc_body(req);
	char *copy = wc_alloc(req, body.len + 1);

	(void)state;
	if (!copy)
		return WC_ERROR;
	memcpy(copy, body.ptr ? body.ptr : "", body.len);
	return wc_reply(req, 200, copy, body.len);
}

static const struct wc_handler handler = {.abi = WC_ABI, .name = "fuzz", .handle = answer};

static void set_up(void)
{
	static char *overrides[] = {"limits.header_size=2048",
				    "limits.target_size=500",
				    "limits.headers=20",
				    "limits.body_size=8192",
				    "limits.keepalive_requests=50",
				    "log.level=error",
				    NULL};
	static struct worker_args args = {.slot = 1,
					  .exchange = {-1, -1},
					  .ipc = -1,
					  .access_log = -1,
					  .admin_listener = -1,
					  .builtin = &handler};
	static struct err err;
	int fd;

	err_init(&err);
	signal(SIGPIPE, SIG_IGN);
	args.config = config_load(NULL, overrides, &err);
	args.scoreboard = scoreboard_open(&fd);
	if (!args.config || !args.scoreboard || engine_init(&fuzzed.engine, &args) < 0 ||
	    open_routes(&fuzzed, &err) < 0)
		abort();
	ev_set_userdata(fuzzed.engine.loop, &fuzzed);
	ev_set_invoke_pending_cb(fuzzed.engine.loop, on_turn);
}

static void read_answers(int fd, struct transcript *transcript)
{
	ssize_t got;

	while ((got = recv(fd, transcript->text + transcript->len, OUTPUT_MAX - transcript->len,
			   MSG_DONTWAIT)) > 0)
		transcript->len += (size_t)got;
}

static void turn(int fd, struct transcript *transcript)
{
	ev_run(fuzzed.engine.loop, EVRUN_NOWAIT);
	read_answers(fd, transcript);
}

/* Until nobody is left: the client has closed its side, and takes what comes. */
static void finish(int fd, struct transcript *transcript)
{
	struct scoreboard_slot *slot = fuzzed.engine.slot;

	shutdown(fd, SHUT_WR);
	for (int i = 0; i < TURNS_MAX && slot->active > 0; i++)
		turn(fd, transcript);
	read_answers(fd, transcript);
	close(fd);
	for (int i = 0; i < TURNS_MAX && slot->active > 0; i++)
		ev_run(fuzzed.engine.loop, EVRUN_NOWAIT);
	assert(slot->active == 0 && slot->busy == 0);
}

static void talk(const char *data, size_t len, size_t cut, struct transcript *transcript)
{
	static const struct peer peer = {.family = AF_UNIX};
	struct engine *engine = &fuzzed.engine;
	int pair[2], size = OUTPUT_MAX;

	transcript->len = 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	scoreboard_add(&engine->slot->active, 1);
	if (conn_open(engine, pair[1], &peer, 0) < 0)
		abort();
	for (size_t at = 0; at < len && engine->slot->active > 0; at += cut) {
		size_t piece = len - at < cut ? len - at : cut;

		if (send(pair[0], data + at, piece, MSG_NOSIGNAL) != (ssize_t)piece)
			break;
		turn(pair[0], transcript);
	}
	finish(pair[0], transcript);
}

/* What depends on time is taken out: dates, and 100 (Continue), which comes only where the body
 * does not. */
static void strip(struct transcript *transcript)
{
	static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n", date[] = "Date: ";
	char *at = transcript->text, *end = at + transcript->len;

	while ((at = memmem(at, (size_t)(end - at), interim, sizeof interim - 1))) {
		memmove(at, at + sizeof interim - 1, (size_t)(end - at) - (sizeof interim - 1));
		end -= sizeof interim - 1;
	}
	transcript->len = (size_t)(end - transcript->text);
	for (at = transcript->text; (at = memmem(at, (size_t)(end - at), date, sizeof date - 1));
	     at++)
		memset(at, 'x', (size_t)(end - at) < 35 ? (size_t)(end - at) : 35);
}

/* Which of its mistakes a refused request is refused for may depend on the pieces. */
static void cut_refusal(struct transcript *transcript)
{
	static const char close[] = "Connection: close\r\n";

	for (size_t at = transcript->len; at-- > 0;) {
		const char *text = transcript->text + at;
		size_t left = transcript->len - at;

		if (left < 13 || memcmp(text, "HTTP/1.1 ", 9) != 0)
			continue;
		if ((text[9] == '4' || text[9] == '5') &&
		    memmem(text, left, close, sizeof close - 1))
			transcript->len = at;
		return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct transcript whole, pieces;
	size_t cut;

	if (!fuzzed.engine.loop)
		set_up();
	if (len < 2 || len > INPUT_MAX)
		return 0;
	cut = data[0] < 128 ? (size_t)data[0] + 1 : ((size_t)data[0] - 127) * 64;
	talk((const char *)data + 1, len - 1, len, &whole);
	talk((const char *)data + 1, len - 1, cut, &pieces);
	strip(&whole);
	strip(&pieces);
	cut_refusal(&whole);
	cut_refusal(&pieces);
	if (whole.len != pieces.len || memcmp(whole.text, pieces.text, whole.len) != 0) {
		fprintf(stderr, "at once:\n%.*s\nin pieces of %zu:\n%.*s\n", (int)whole.len,
			whole.text, cut, (int)pieces.len, pieces.text);
		abort();
	}
	return 0;
}
