/* SPDX-License-Identifier: MIT */
/*
 * The test handler: what it does with a request is said by the route's option "do"; "init" and
 * "fini" make those misbehave.  Numbers come from the query ("?n=5"), else from the option "n".
 */
#include <whitecap.h>

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

struct kit {
	int (*act)(struct wc_request *req, struct kit *kit);
	const json_t *options;
	struct wc_worker *worker;
	struct wc_counter *calls;
	const char *fini;
	char *big;
};

/* What a pending answer needs; in the heap, since it outlives its request where the test says so. */
struct later {
	ev_timer timer;
	struct wc_request *req;
	struct kit *kit;
	int answers;
};

enum { BIG_MAX = 64 << 20 };

static long number(struct wc_request *req, const struct kit *kit)
{
	struct wc_span query = wc_query(req);
	char text[32] = "";

	if (query.len > 2 && query.len < sizeof(text) && !memcmp(query.ptr, "n=", 2)) {
		memcpy(text, query.ptr + 2, query.len - 2);
		return strtol(text, NULL, 10);
	}
	return (long)json_integer_value(json_object_get(kit->options, "n"));
}

static const char *text_option(const struct kit *kit, const char *name)
{
	const char *text = json_string_value(json_object_get(kit->options, name));

	return text ? text : "";
}

static uint64_t hash(const char *ptr, size_t len)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)ptr[i]) * 1099511628211u;
	return h;
}

static int do_ok(struct wc_request *req, struct kit *kit)
{
	(void)kit;
	return wc_reply(req, 200, "ok", 2);
}

/* Everything the server says of the request, one fact a line. */
static int do_facts(struct wc_request *req, struct kit *kit)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	struct wc_span m = wc_method(req), t = wc_target(req), p = wc_path(req), q = wc_query(req);
	struct wc_span body = wc_body(req), name, value;

	(void)kit;
	fprintf(f, "method=%.*s\ntarget=%.*s\npath=%.*s\n", (int)m.len, m.ptr, (int)t.len, t.ptr,
		(int)p.len, p.ptr);
	fprintf(f, "query=%s%.*s\n", q.ptr ? "" : "(none)", (int)q.len, q.ptr ? q.ptr : "");
	fprintf(f, "version=%d\npeer=%s\n", wc_version(req), wc_peer(req));
	for (size_t i = 0; wc_get_header_at(req, i, &name, &value); i++)
		fprintf(f, "header=%.*s=%.*s\n", (int)name.len, name.ptr, (int)value.len,
			value.ptr ? value.ptr : "");
	value = wc_get_header(req, "x-wanted");
	fprintf(f, "wanted=%s%.*s\n", value.ptr ? "" : "(none)", (int)value.len,
		value.ptr ? value.ptr : "");
	fprintf(f, "body=%zu:%016llx\n", body.len, (unsigned long long)hash(body.ptr, body.len));
	fclose(f);
	int result = wc_reply_copy(req, 200, text, len);
	free(text);
	return result;
}

static int do_who(struct wc_request *req, struct kit *kit)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%u %d", wc_worker_id(kit->worker), (int)getpid());

	return wc_reply_copy(req, 200, text, (size_t)n);
}

static int do_block(struct wc_request *req, struct kit *kit)
{
	long ms = number(req, kit);
	struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		continue;
	return wc_reply(req, 200, "ok", 2);
}

static int do_big(struct wc_request *req, struct kit *kit)
{
	long n = number(req, kit);

	return wc_reply(req, 200, kit->big, n > BIG_MAX ? BIG_MAX : (size_t)n);
}

static int do_status(struct wc_request *req, struct kit *kit)
{
	const char *body = text_option(kit, "body");

	return wc_reply(req, (int)number(req, kit), body, strlen(body));
}

static int do_nothing(struct wc_request *req, struct kit *kit)
{
	(void)req, (void)kit;
	return WC_DONE;
}

static int do_error(struct wc_request *req, struct kit *kit)
{
	(void)req, (void)kit;
	return WC_ERROR;
}

static int do_error_after_answer(struct wc_request *req, struct kit *kit)
{
	do_ok(req, kit);
	return WC_ERROR;
}

static int do_bad_return(struct wc_request *req, struct kit *kit)
{
	(void)req, (void)kit;
	return 42;
}

static int do_twice(struct wc_request *req, struct kit *kit)
{
	do_ok(req, kit);
	return wc_reply(req, 200, "again", 5);
}

static int do_pending_after_answer(struct wc_request *req, struct kit *kit)
{
	do_ok(req, kit);
	return WC_PENDING;
}

static int do_header(struct wc_request *req, struct kit *kit)
{
	int result = wc_header(req, text_option(kit, "name"), text_option(kit, "value"));

	if (json_is_true(json_object_get(kit->options, "see")))
		wc_log(kit->worker, WC_LOG_INFO, "wc_header said %d", result);
	return wc_reply(req, 200, "ok", 2);
}

static int do_header_nul(struct wc_request *req, struct kit *kit)
{
	struct wc_span name = {"X-Test", 6}, value = {"a\0b", 3};

	wc_header_span(req, name, value);
	return do_ok(req, kit);
}

static int do_many_headers(struct wc_request *req, struct kit *kit)
{
	for (long i = 0, n = number(req, kit); i < n; i++)
		wc_header(req, "X-Many", "0123456789012345678901234567890123456789");
	return do_ok(req, kit);
}

static int do_reason(struct wc_request *req, struct kit *kit)
{
	wc_reason(req, text_option(kit, "reason"));
	return do_ok(req, kit);
}

static int do_iov(struct wc_request *req, struct kit *kit)
{
	static char digits[] = "0123456789";
	struct iovec iov[4096];
	long n = number(req, kit);

	for (long i = 0; i < n && i < 4096; i++)
		iov[i] = (struct iovec){.iov_base = &digits[i % 10], .iov_len = i % 3 ? 1 : 0};
	return wc_reply_iov(req, 200, iov, (int)n);
}

/* Allocates pieces of 64 KiB and answers with the last; too many of them are a 500. */
static int do_alloc(struct wc_request *req, struct kit *kit)
{
	char *last = NULL;

	for (long i = 0, n = number(req, kit); i < n; i++) {
		last = wc_alloc(req, 65536);
		if (last)
			memset(last, 'a' + (int)(i % 26), 65536);
	}
	return wc_reply(req, 200, last ? last : "none", last ? 65536 : 4);
}

static int do_copy(struct wc_request *req, struct kit *kit)
{
	size_t n = (size_t)number(req, kit);
	char *text = malloc(n + 1);
	int result;

	memset(text, 'c', n);
	result = wc_reply_copy(req, 200, text, n);
	memset(text, '!', n);
	free(text);
	return result;
}

static int do_times(struct wc_request *req, struct kit *kit)
{
	struct timespec now;
	char text[96];
	int n;

	(void)kit;
	clock_gettime(CLOCK_MONOTONIC, &now);
	n = snprintf(text, sizeof(text), "%lld %lld",
		     (long long)now.tv_sec * 1000000000 + now.tv_nsec - (long long)wc_received(req),
		     (long long)wc_remaining(req));
	return wc_reply_copy(req, 200, text, (size_t)n);
}

static int do_count(struct wc_request *req, struct kit *kit)
{
	wc_count(kit->calls, 1);
	return do_ok(req, kit);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void spin(long us)
{
	uint64_t end = now_ns() + (uint64_t)us * 1000;

	while (now_ns() < end)
		continue;
}

/* Takes n µs; 299 where the request is older than the option "limit" says, in ms, when it begins. */
static int do_work(struct wc_request *req, struct kit *kit)
{
	uint64_t age = now_ns() - wc_received(req);
	json_int_t limit = json_integer_value(json_object_get(kit->options, "limit"));

	spin(number(req, kit));
	return wc_reply(req, age > (uint64_t)limit * 1000000 ? 299 : 200, "ok", 2);
}

/* Takes n µs and says how many requests this process has handled by now. */
static int do_sequence(struct wc_request *req, struct kit *kit)
{
	static unsigned long count;
	char text[32];
	int n = snprintf(text, sizeof(text), "%lu", ++count);

	spin(number(req, kit));
	return wc_reply_copy(req, 200, text, (size_t)n);
}

static int do_log(struct wc_request *req, struct kit *kit)
{
	wc_log(kit->worker, WC_LOG_WARN, "%s", text_option(kit, "text"));
	return do_ok(req, kit);
}

static int do_crash(struct wc_request *req, struct kit *kit)
{
	(void)req;
	signal((int)number(req, kit), SIG_DFL);
	raise((int)number(req, kit));
	return WC_ERROR;
}

static int do_exit(struct wc_request *req, struct kit *kit)
{
	_exit((int)number(req, kit));
}

/* Runs the option "command" and answers with its output and its status. */
static int do_run(struct wc_request *req, struct kit *kit)
{
	char text[16384];
	FILE *f = popen(text_option(kit, "command"), "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 32, f) : 0;
	int status = f ? pclose(f) : -1;

	n += (size_t)snprintf(text + n, 32, "=%d", status < 0 ? -errno : status >> 8);
	return wc_reply_copy(req, 200, text, n);
}

static int do_default_sigpipe(struct wc_request *req, struct kit *kit)
{
	signal(SIGPIPE, SIG_DFL);
	return do_big(req, kit);
}

static struct later *later_new(struct wc_request *req, struct kit *kit,
			       void (*on_time)(struct ev_loop *, ev_timer *, int))
{
	struct later *later = calloc(1, sizeof(*later));

	later->req = req;
	later->kit = kit;
	ev_timer_init(&later->timer, on_time, (double)number(req, kit) / 1000, 0.);
	later->timer.data = later;
	ev_timer_start(wc_loop(kit->worker), &later->timer);
	return later;
}

static void on_cancel(struct wc_request *req, void *data)
{
	struct later *later = data;

	(void)req;
	wc_log(later->kit->worker, WC_LOG_INFO, "cancelled");
	ev_timer_stop(wc_loop(later->kit->worker), &later->timer);
	free(later);
}

static void on_time(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct later *later = timer->data;

	(void)loop, (void)events;
	wc_reply(later->req, 200, "later", 5);
	for (int i = 0; i < later->answers; i++)
		wc_log(later->kit->worker, WC_LOG_INFO, "one more: %d",
		       wc_reply(later->req, 200, "again", 5));
	free(later);
}

static int do_later(struct wc_request *req, struct kit *kit)
{
	wc_on_cancel(req, on_cancel, later_new(req, kit, on_time));
	return WC_PENDING;
}

static int do_later_uncancelled(struct wc_request *req, struct kit *kit)
{
	later_new(req, kit, on_time);
	return WC_PENDING;
}

static int do_later_twice(struct wc_request *req, struct kit *kit)
{
	later_new(req, kit, on_time)->answers = 1;
	return WC_PENDING;
}

/* Answers although it was told that the request is over. */
static void on_cancel_ignored(struct wc_request *req, void *data)
{
	struct later *later = data;

	wc_log(later->kit->worker, WC_LOG_INFO, "cancelled, answering all the same: %d",
	       wc_reply(req, 200, "wrong", 5));
}

static int do_answer_after_cancel(struct wc_request *req, struct kit *kit)
{
	wc_on_cancel(req, on_cancel_ignored, later_new(req, kit, on_time));
	return WC_PENDING;
}

/* Answers at once, then says that the answer comes later, and uses the request after its end. */
static int do_stale(struct wc_request *req, struct kit *kit)
{
	later_new(req, kit, on_time);
	return do_ok(req, kit);
}

/* Answers from within handle, by way of the pending interface. */
static int do_inside(struct wc_request *req, struct kit *kit)
{
	(void)kit;
	wc_on_cancel(req, on_cancel, NULL);
	return wc_reply(req, 200, "inside", 6);
}

static const struct action {
	const char *name;
	int (*act)(struct wc_request *req, struct kit *kit);
} actions[] = {
	{"ok", do_ok},
	{"facts", do_facts},
	{"who", do_who},
	{"block", do_block},
	{"big", do_big},
	{"status", do_status},
	{"nothing", do_nothing},
	{"error", do_error},
	{"error-after-answer", do_error_after_answer},
	{"bad-return", do_bad_return},
	{"twice", do_twice},
	{"pending-after-answer", do_pending_after_answer},
	{"header", do_header},
	{"header-nul", do_header_nul},
	{"many-headers", do_many_headers},
	{"reason", do_reason},
	{"iov", do_iov},
	{"alloc", do_alloc},
	{"copy", do_copy},
	{"times", do_times},
	{"count", do_count},
	{"sequence", do_sequence},
	{"work", do_work},
	{"log", do_log},
	{"crash", do_crash},
	{"exit", do_exit},
	{"run", do_run},
	{"default-sigpipe", do_default_sigpipe},
	{"later", do_later},
	{"later-uncancelled", do_later_uncancelled},
	{"later-twice", do_later_twice},
	{"answer-after-cancel", do_answer_after_cancel},
	{"stale", do_stale},
	{"inside", do_inside},
};

static void misbehave(const char *how)
{
	if (!strcmp(how, "wait"))
		usleep(500000);
	if (!strcmp(how, "crash"))
		raise(SIGSEGV);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "exit"))
		_exit(7);
	while (!strcmp(how, "hang"))
		pause();
}

static int init(void **state, const json_t *options, struct wc_worker *worker)
{
	struct kit *kit = calloc(1, sizeof(*kit));
	const char *how, *flag;

	*state = kit;
	kit->options = options;
	kit->worker = worker;
	kit->calls = wc_counter(worker, "calls");
	kit->fini = text_option(kit, "fini");
	flag = text_option(kit, "only_with");
	how = !*flag || !access(flag, F_OK) ? text_option(kit, "init") : "";
	if (!strcmp(how, "fail")) {
		wc_log(worker, WC_LOG_ERROR, "told to fail");
		free(kit);
		return -1;
	}
	misbehave(how);
	if (*text_option(kit, "touch"))
		close(creat(text_option(kit, "touch"), 0666));
	for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++)
		if (!strcmp(actions[i].name, text_option(kit, "do")))
			kit->act = actions[i].act;
	if (kit->act == do_big || kit->act == do_default_sigpipe) {
		kit->big = malloc(BIG_MAX);
		memset(kit->big, 'b', BIG_MAX);
	}
	return kit->act ? 0 : -1;
}

static void fini(void *state)
{
	struct kit *kit = state;

	misbehave(kit->fini);
	free(kit->big);
	free(kit);
}

static int handle(struct wc_request *req, void *state)
{
	struct kit *kit = state;

	return kit->act(req, kit);
}

WC_HANDLER(.name = "kit", .init = init, .fini = fini, .handle = handle);
