/* SPDX-License-Identifier: MIT */
/*
 * openloop: asks at a constant rate, whatever the server does, as an exchange does.
 *
 *	openloop [-p PORT] [-c CONNECTIONS] [-r RATE] [-s SECONDS] [-d DEADLINE] [-f FILE] [-l LOG]
 *
 * Request i is due at i / RATE seconds.  It goes out then, on the connection that has been free
 * for the longest time, or as soon as one is free; its latency counts from when it was due, so
 * that a server which holds up the client is charged for it (no coordinated omission).  An answer
 * is in time when it is 200 and there within DEADLINE ms.  FILE holds the request's octets.
 *
 * After SECONDS, or SIGTERM, nothing more is sent; answers are waited for as long again, and 2 seconds.  The
 * output is one line of JSON.  LOG gets a line for each answer: when its request was due, by
 * CLOCK_MONOTONIC, and its latency, both in µs.
 */
#define _GNU_SOURCE

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_EVENTS = 256, ANSWER_MAX = 65536, STATUS_MAX = 600, REQUEST_MAX = 1 << 20 };

#define NS_PER_S 1000000000ull

static struct {
	unsigned short port;
	size_t connections;
	double rate, seconds, deadline_ms;
	const char *file, *log;
} options = {.port = 8080, .connections = 256, .rate = 1000, .seconds = 5, .deadline_ms = 100};

struct conn {
	int fd;
	int asked;          /* 1: an answer is due */
	uint64_t due_ns;    /* when its request was */
	size_t len;         /* octets of the answer that are here */
	char answer[ANSWER_MAX];
	struct conn *next;  /* free one */
};

struct samples {
	uint32_t *us;
	size_t count;
};

static char request[REQUEST_MAX] = "GET / HTTP/1.1\r\nHost: bench\r\n\r\n";
static size_t request_len;
static int epoll;
static struct conn *conns, *first_free, *last_free;
static uint64_t start_ns, total, counted, sent, answered, in_time, waited, closed, failed, statuses[STATUS_MAX];
static struct samples all, good;
static FILE *answers;
static volatile sig_atomic_t is_over;

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t due_ns(uint64_t number)
{
	return start_ns + (uint64_t)((double)number * 1e9 / options.rate);
}

static void put_free(struct conn *conn)
{
	conn->next = NULL;
	if (first_free)
		last_free->next = conn;
	else
		first_free = conn;
	last_free = conn;
}

static void open_conn(struct conn *conn)
{
	static const int on = 1;
	const struct sockaddr_in address = {.sin_family = AF_INET,
					    .sin_port = htons(options.port),
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};

	conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (conn->fd < 0 || connect(conn->fd, (const struct sockaddr *)&address, sizeof address) ||
	    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) ||
	    fcntl(conn->fd, F_SETFL, O_NONBLOCK) || epoll_ctl(epoll, EPOLL_CTL_ADD, conn->fd, &event))
		err(1, "cannot connect");
	conn->asked = 0;
	conn->len = 0;
	put_free(conn);
}

/* The server has ended the connection, or something else has. */
static void lose(struct conn *conn)
{
	closed++;
	failed += (uint64_t)conn->asked;
	close(conn->fd);
	if (!conn->asked) { /* it is among the free ones: out of there */
		struct conn **link = &first_free;

		while (*link != conn)
			link = &(*link)->next;
		*link = conn->next;
		last_free = first_free;
		while (last_free && last_free->next)
			last_free = last_free->next;
	}
	open_conn(conn);
}

static void ask(uint64_t number)
{
	struct conn *conn = first_free;

	first_free = conn->next;
	conn->asked = 1;
	conn->due_ns = due_ns(number);
	/* Requests are small, and the buffer of a free connection is empty. */
	if (send(conn->fd, request, request_len, MSG_NOSIGNAL) != (ssize_t)request_len)
		lose(conn);
}

static void ask_what_is_due(void)
{
	uint64_t now_ns = clock_ns();

	while (sent < total && first_free && due_ns(sent) <= now_ns)
		ask(sent++);
	/* Those that are due and find no connection free. */
	for (counted = counted > sent ? counted : sent; counted < total && due_ns(counted) <= now_ns;
	     counted++)
		waited++;
}

static void add(struct samples *samples, uint64_t ns)
{
	samples->us[samples->count++] = ns / 1000 < UINT32_MAX ? (uint32_t)(ns / 1000) : UINT32_MAX;
}

/* The length of the whole answer; 0: not here yet. */
static size_t answer_len(const struct conn *conn)
{
	static const char field[] = "content-length:";
	const char *end = memmem(conn->answer, conn->len, "\r\n\r\n", 4), *at = conn->answer;
	size_t len;

	if (!end)
		return 0;
	len = (size_t)(end - conn->answer) + 4;
	while ((at = memchr(at, '\n', (size_t)(end - at))))
		if (strncasecmp(++at, field, sizeof field - 1) == 0)
			len += strtoul(at + sizeof field - 1, NULL, 10);
	return conn->len >= len ? len : 0;
}

static void take_answer(struct conn *conn)
{
	uint64_t ns = clock_ns() - conn->due_ns;
	int status = atoi(conn->answer + sizeof "HTTP/1.1");

	answered++;
	statuses[status > 0 && status < STATUS_MAX ? status : 0]++;
	add(&all, ns);
	if (answers)
		fprintf(answers, "%llu %llu\n", (unsigned long long)conn->due_ns / 1000,
			(unsigned long long)ns / 1000);
	if (status == 200) {
		add(&good, ns);
		in_time += (double)ns <= options.deadline_ms * 1e6;
	}
	conn->asked = 0;
	conn->len = 0;
	put_free(conn);
}

static void on_readable(struct conn *conn)
{
	ssize_t got = recv(conn->fd, conn->answer + conn->len, ANSWER_MAX - 1 - conn->len, 0);

	if (got < 0 && errno == EAGAIN)
		return;
	if (got <= 0 || !conn->asked) {
		lose(conn);
		return;
	}
	conn->len += (size_t)got;
	conn->answer[conn->len] = '\0';
	if (answer_len(conn) == conn->len)
		take_answer(conn);
}

/* Until the next request is due, or something has come. */
static void wait_for_events(uint64_t until_ns)
{
	struct epoll_event events[MAX_EVENTS];
	uint64_t now_ns = clock_ns(), left = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec timeout = {(time_t)(left / NS_PER_S), (long)(left % NS_PER_S)};
	int count = epoll_pwait2(epoll, events, MAX_EVENTS, &timeout, NULL);

	for (int i = 0; i < count; i++)
		on_readable(events[i].data.ptr);
}

static void stop(int signal_number)
{
	(void)signal_number;
	is_over = 1;
}

static void run(void)
{
	uint64_t end_ns = due_ns(total) + (uint64_t)(options.seconds * 1e9) + 2 * NS_PER_S, now_ns;

	while (answered + failed < total && (now_ns = clock_ns()) < end_ns) {
		if (is_over && total > counted) {
			total = counted > sent ? counted : sent;
			end_ns = now_ns + 2 * NS_PER_S;
			continue;
		}
		ask_what_is_due();
		wait_for_events(sent < total && first_free ? due_ns(sent) : end_ns);
	}
}

static int compare(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

static void print_samples(const char *name, struct samples *samples)
{
	static const struct {
		const char *name;
		double share;
	} marks[] = {{"p50", .5}, {"p99", .99}, {"p999", .999}, {"max", 1}};

	qsort(samples->us, samples->count, sizeof *samples->us, compare);
	printf(", \"%s\": {\"count\": %zu", name, samples->count);
	for (size_t i = 0; samples->count > 0 && i < sizeof marks / sizeof *marks; i++) {
		size_t at = (size_t)((double)samples->count * marks[i].share);

		printf(", \"%s_us\": %u", marks[i].name,
		       samples->us[at < samples->count ? at : samples->count - 1]);
	}
	printf("}");
}

static void print(void)
{
	const char *comma = "";

	printf("{\"due\": %llu, \"sent\": %llu, \"answered\": %llu, \"in_time\": %llu, \"waited\": %llu, "
	       "\"closed\": %llu, \"failed\": %llu, \"status\": {",
	       (unsigned long long)total, (unsigned long long)sent, (unsigned long long)answered,
	       (unsigned long long)in_time, (unsigned long long)waited, (unsigned long long)closed,
	       (unsigned long long)failed);
	for (int i = 0; i < STATUS_MAX; i++) {
		if (statuses[i] == 0)
			continue;
		printf("%s\"%d\": %llu", comma, i, (unsigned long long)statuses[i]);
		comma = ", ";
	}
	printf("}");
	print_samples("all", &all);
	print_samples("ok", &good);
	printf("}\n");
}

static void read_request(void)
{
	FILE *file = options.file ? fopen(options.file, "rb") : NULL;

	request_len = strlen(request);
	if (!options.file)
		return;
	if (!file || (request_len = fread(request, 1, sizeof request, file)) == 0)
		err(1, "%s", options.file);
	fclose(file);
}

static void read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "p:c:r:s:d:f:l:")) != -1)
		switch (option) {
		case 'p': options.port = (unsigned short)atoi(optarg); break;
		case 'c': options.connections = strtoul(optarg, NULL, 10); break;
		case 'r': options.rate = atof(optarg); break;
		case 's': options.seconds = atof(optarg); break;
		case 'd': options.deadline_ms = atof(optarg); break;
		case 'f': options.file = optarg; break;
		case 'l': options.log = optarg; break;
		default: exit(64);
		}
}

int main(int argc, char **argv)
{
	const struct sched_param first = {.sched_priority = 1};

	read_options(argc, argv);
	read_request();
	total = (uint64_t)(options.rate * options.seconds);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	conns = calloc(options.connections, sizeof *conns);
	all.us = calloc(total + 1, sizeof *all.us);
	good.us = calloc(total + 1, sizeof *good.us);
	if (epoll < 0 || !conns || !all.us || !good.us)
		err(1, "cannot begin");
	for (size_t i = 0; i < options.connections; i++)
		open_conn(&conns[i]);
	if (options.log && !(answers = fopen(options.log, "w")))
		err(1, "%s", options.log);
	signal(SIGTERM, stop);
	sched_setscheduler(0, SCHED_FIFO, &first); /* where it may: it must not wait for attackers */
	start_ns = clock_ns();
	run();
	if (answers && fclose(answers))
		err(1, "%s", options.log);
	print();
	return 0;
}
