/* SPDX-License-Identifier: MIT */
/*
 * The handler of the tests of crashes and hangs.  The query says what it does, and where: "?null@thread".
 * Compiled with -DREPLAY its requests may be run again.
 */
#include <whitecap.h>

#include <assert.h>
#include <ev.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef REPLAY
#define REPLAY 0
#endif

#define NOINLINE __attribute__((noinline))

static volatile int zero;
static volatile int *volatile nowhere;
static struct wc_worker *worker_of_all;

/* What goes wrong. */

static void null(void)
{
	*nowhere = 1;
}

static void wild(void)
{
	*(volatile int *)0x1ead0000beefull = 1;
}

/* No canonical address: the kernel tells none. */
static void wilder(void)
{
	*(volatile int *)0x4141414141414141ull = 1;
}

static NOINLINE int deeper(int n)
{
	volatile char room[4096];

	memset((char *)room, n, sizeof(room));
	return n < 0 ? 0 : deeper(n + 1) + room[n % 4096];
}

static void overflow(void)
{
	zero = deeper(1) ? 0 : 0;
}

static void divide(void)
{
	zero = 100 / zero;
}

static void illegal(void)
{
	__builtin_trap();
}

static void assertion(void)
{
	assert(zero);
}

static void double_free(void)
{
	char *volatile p = malloc(100000);

	free(p);
	free(p);
}

static void smash_heap(void)
{
	volatile char *volatile a = malloc(2000);
	char *volatile b = malloc(2000);

	for (int i = 0; i < 2100; i++)
		a[i] = 0x41;
	free(b);
	free((char *)a);
}

static NOINLINE void smash(volatile char *room)
{
	for (int i = 0; i < 64; i++)
		room[i] = 0x41;
}

static NOINLINE void smash_stack(void)
{
	volatile char room[16];

	smash(room);
}

/* The list of free blocks leads nowhere: malloc() itself faults. */
static void in_malloc(void)
{
	volatile uintptr_t *volatile a, *volatile b;

	for (int i = 0; i < 8; i++) /* of this size none is free then */
		nowhere = malloc(1000);
	a = malloc(1000);
	b = malloc(1000);
	free((void *)a);
	free((void *)b);
	b[0] = ((uintptr_t)b >> 12) ^ 0x10;
	for (int i = 0; i < 3; i++)
		nowhere = malloc(1000);
}

static void run_for_ever(void)
{
	while (!zero)
		continue;
}

static void sleep_for_ever(void)
{
	for (;;)
		sleep(1000);
}

static void read_for_ever(void)
{
	int ends[2];
	char octet;

	while (pipe(ends) == 0 && read(ends[0], &octet, 1) > 0)
		continue;
}

static void lock_for_ever(void)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&mutex);
	pthread_mutex_lock(&mutex);
}

static void block_all(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
}

static void deaf(void)
{
	block_all();
	run_for_ever();
}

static void deaf_null(void)
{
	block_all();
	null();
}

static void leave(void)
{
	exit(0);
}

static void kill_self(void)
{
	kill(getpid(), SIGKILL);
}

/* Damage to whatever is in the heap, the server's own memory too; then a crash. */
static void scribble(void)
{
	unsigned long from = 0, to = 0;
	char line[256];
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "[heap]"))
			sscanf(line, "%lx-%lx", &from, &to);
	for (int i = 0; i < 2000; i++)
		((volatile unsigned long *)from)[(unsigned long)random() % ((to - from) / 8)] =
			(unsigned long)random() << 12;
	null();
}

static void if_flagged(void)
{
	if (access("flag", F_OK) == 0)
		null();
}

static void nameless(void);

static const struct kind {
	const char *name;
	void (*act)(void);
} kinds[] = {
	{"null", null},           {"wild", wild},         {"wilder", wilder},
	{"overflow", overflow},   {"divide", divide},     {"illegal", illegal},
	{"abort", abort},         {"assert", assertion},  {"double-free", double_free},
	{"heap", smash_heap},     {"stack", smash_stack}, {"malloc", in_malloc},
	{"loop", run_for_ever},   {"sleep", sleep_for_ever}, {"read", read_for_ever},
	{"lock", lock_for_ever},  {"deaf", deaf},         {"deaf-null", deaf_null},
	{"exit", leave},            {"kill", kill_self},      {"scribble", scribble},
	{"nameless", nameless},   {"flagged", if_flagged},
};

/* Where. */

struct later {
	ev_timer timer;
	void (*act)(void);
	struct wc_request *req;
};

static void on_time(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct later *later = timer->data;

	(void)loop, (void)events;
	if (later->act)
		later->act();
	wc_reply(later->req, 200, "later", 5);
	free(later);
}

static void after(double seconds, void (*act)(void), struct wc_request *req)
{
	struct later *later = calloc(1, sizeof(*later));

	later->act = act;
	later->req = req;
	ev_timer_init(&later->timer, on_time, seconds, 0.);
	later->timer.data = later;
	ev_timer_start(wc_loop(worker_of_all), &later->timer);
}

static void (*in_signal)(void);

static void on_signal(int number)
{
	(void)number;
	in_signal();
}

static void *run_thread(void *data)
{
	void (*act)(void) = ((const struct kind *)data)->act;

	usleep(2000);
	act();
	return NULL;
}

static int start_thread(const struct kind *kind)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, run_thread, (void *)kind);
}

static int do_handle(struct wc_request *req, const struct kind *kind)
{
	kind->act();
	return wc_reply(req, 200, "survived", 8);
}

static int do_callback(struct wc_request *req, const struct kind *kind)
{
	after(0.002, kind->act, req);
	return WC_PENDING;
}

/* Not in the course of a request: that one is answered. */
static int do_timer(struct wc_request *req, const struct kind *kind)
{
	after(0.002, kind->act, NULL);
	return wc_reply(req, 200, "armed", 5);
}

static int do_thread(struct wc_request *req, const struct kind *kind)
{
	(void)req;
	start_thread(kind);
	return WC_PENDING;
}

/* With all signals blocked when the thread begins. */
static int do_deaf_thread(struct wc_request *req, const struct kind *kind)
{
	sigset_t all, before;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	do_thread(req, kind);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return WC_PENDING;
}

static int do_threads(struct wc_request *req, const struct kind *kind)
{
	for (int i = 0; i < 8; i++)
		start_thread(kind);
	return do_thread(req, kind);
}

/* While the main thread sleeps, or waits for what nobody gives. */
static int do_sleeping(struct wc_request *req, const struct kind *kind)
{
	start_thread(kind);
	sleep_for_ever();
	return do_handle(req, kind);
}

static int do_locked(struct wc_request *req, const struct kind *kind)
{
	start_thread(kind);
	lock_for_ever();
	return do_handle(req, kind);
}

static int do_signal(struct wc_request *req, const struct kind *kind)
{
	struct sigaction action = {.sa_handler = on_signal};

	in_signal = kind->act;
	sigaction(SIGUSR2, &action, NULL);
	raise(SIGUSR2);
	return wc_reply(req, 200, "survived", 8);
}

/* A child that crashes is no concern of the worker's. */
static int do_child(struct wc_request *req, const struct kind *kind)
{
	char text[32];
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		kind->act();
		_exit(0);
	}
	waitpid(child, &status, 0);
	return wc_reply_copy(req, 200, text,
			     (size_t)snprintf(text, sizeof(text), "child %d", WTERMSIG(status)));
}

static int do_exec(struct wc_request *req, const struct kind *kind)
{
	char text[32];
	int status;

	(void)kind;
	status = system("kill -SEGV $$");
	return wc_reply_copy(req, 200, text,
			     (size_t)snprintf(text, sizeof(text), "child %d", WTERMSIG(status)));
}

static const struct place {
	const char *name;
	int (*act)(struct wc_request *req, const struct kind *kind);
} places[] = {
	{"handle", do_handle},     {"callback", do_callback}, {"timer", do_timer},
	{"thread", do_thread},     {"signal", do_signal},     {"deaf-thread", do_deaf_thread},
	{"threads", do_threads},   {"sleeping", do_sleeping}, {"locked", do_locked},
	{"child", do_child},       {"exec", do_exec},
};

/* As a parser does that works in place. */
static int do_insitu(struct wc_request *req)
{
	struct wc_span body = wc_body(req);

	for (size_t i = 0; i < body.len; i++)
		((char *)(uintptr_t)body.ptr)[i] ^= 1;
	null();
	return wc_reply(req, 200, "survived", 8);
}

static bool is_name(struct wc_span span, const char *name)
{
	return span.len == strlen(name) && !memcmp(span.ptr, name, span.len);
}

static const struct kind *find_kind(struct wc_span name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (is_name(name, kinds[i].name))
			return &kinds[i];
	return NULL;
}

static const struct place *find_place(struct wc_span name)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (is_name(name, places[i].name))
			return &places[i];
	return NULL;
}

/* "?ms=20": is slow; "?pend=20": answers later; what it ran is in the log with the body. */
static int do_other(struct wc_request *req, struct wc_span query)
{
	struct wc_span body = wc_body(req);
	char text[32] = "";

	wc_log(worker_of_all, WC_LOG_INFO, "ran %.*s %.*s", (int)query.len, query.ptr,
	       (int)body.len, body.ptr ? body.ptr : "");
	if (query.len > 5 && query.len < sizeof(text)) {
		memcpy(text, query.ptr, query.len);
		if (!strncmp(text, "pend=", 5)) {
			after(atof(text + 5) / 1000, NULL, req);
			return WC_PENDING;
		}
		if (!strncmp(text, "slow=", 5))
			usleep((useconds_t)atol(text + 5) * 1000);
	}
	return wc_reply(req, 200, "ok", 2);
}

static int init(void **state, const json_t *options, struct wc_worker *worker)
{
	(void)state, (void)options;
	worker_of_all = worker;
	return 0;
}

static int handle(struct wc_request *req, void *state)
{
	struct wc_span query = wc_query(req), name = query, where = {"handle", 6};
	const char *at = query.len ? memchr(query.ptr, '@', query.len) : NULL;
	const struct kind *kind;
	const struct place *place;

	(void)state;
	if (at) {
		name.len = (size_t)(at - query.ptr);
		where = (struct wc_span){at + 1, query.len - name.len - 1};
	}
	if (is_name(query, "insitu"))
		return do_insitu(req);
	if (is_name(query, "flag") && wc_get_header(req, "X-Crash").ptr)
		null();
	kind = find_kind(name);
	place = find_place(where);
	return kind && place ? place->act(req, kind) : do_other(req, query);
}

WC_HANDLER(.name = "crash", .init = init, .handle = handle, .replay = REPLAY);

/* Where the fault handler looks, too. */
static void nameless(void)
{
	const struct wc_handler *own = &wc_handler_descriptor;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)own / page * page;

	mprotect((void *)first, (uintptr_t)(own + 1) - first, PROT_READ | PROT_WRITE);
	*(const char *volatile *)(uintptr_t)&own->name = (const char *)16;
	null();
}
