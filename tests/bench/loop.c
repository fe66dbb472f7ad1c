/* SPDX-License-Identifier: MIT */
/*
 * loop: what this machine's kernel asks for one request, and nothing else.  An epoll loop that
 * answers whatever it reads with fixed bytes: one recv, one send, no parsing, no clock, no state.
 * scripts/bench measures the servers as multiples of it.
 *
 *	loop [-p PORT] [-w WORKERS] [-b BODY] [-r REQUEST] [-c]
 *
 * -b: octets of the answer's body.  -r: the length of every request, in octets: reads are counted,
 * and as many answers sent together as whole requests have come (pipelining, split requests).
 * Without it each read is taken for one request.  -c: closes after the answer.
 */
#define _GNU_SOURCE

#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_EVENTS = 256, MAX_TOGETHER = 64, MAX_ACCEPTS = 8, MAX_FD = 1 << 20 };

static struct {
	unsigned short port;
	int workers;
	size_t body;
	size_t request; /* 0: every read is one request */
	int close;
} options = {.port = 8080, .workers = 1, .body = 12};

static char *answers; /* MAX_TOGETHER copies of the answer, one after the other */
static size_t answer_size;
static unsigned pending[MAX_FD]; /* octets of a request that has not come whole, per connection */

static void prepare_answers(void)
{
	static const char text[] = "hello world!";
	char head[80];
	size_t head_size = (size_t)snprintf(
		head, sizeof(head), "HTTP/1.1 200 OK\r\n%sContent-Length: %zu\r\n\r\n",
		options.close ? "Connection: close\r\n" : "", options.body);

	answer_size = head_size + options.body;
	answers = malloc(MAX_TOGETHER * answer_size);
	if (!answers)
		err(1, "malloc");
	for (size_t i = 0; i < MAX_TOGETHER; i++) {
		char *answer = answers + i * answer_size;

		memcpy(answer, head, head_size);
		for (size_t at = 0; at < options.body; at++)
			answer[head_size + at] = text[at % (sizeof(text) - 1)];
	}
}

static int open_listener(void)
{
	static const int on = 1;
	const struct sockaddr_in address = {.sin_family = AF_INET,
					    .sin_port = htons(options.port),
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	/* Connections inherit TCP_NODELAY: no call per connection. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    bind(fd, (const struct sockaddr *)&address, sizeof(address)) || listen(fd, 4096))
		err(3, "listen");
	return fd;
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		err(1, "epoll_ctl");
}

static void accept_some(int epoll, int listener)
{
	for (int i = 0; i < MAX_ACCEPTS; i++) {
		/* Not O_NONBLOCK: a large answer is one send, however long the client reads it. */
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			return;
		if (fd >= MAX_FD)
			errx(1, "too many connections");
		pending[fd] = 0;
		watch(epoll, fd);
	}
}

static size_t count_requests(int fd, size_t got)
{
	size_t total = pending[fd] + got;

	pending[fd] = (unsigned)(total % options.request);
	return total / options.request;
}

static void send_answers(int fd, size_t count)
{
	while (count > 0) {
		size_t now = count < MAX_TOGETHER ? count : MAX_TOGETHER;

		/* A client that is gone shows up at the next recv. */
		send(fd, answers, now * answer_size, MSG_NOSIGNAL);
		count -= now;
	}
}

static void serve_one(int fd)
{
	static char input[1 << 16];
	ssize_t got = recv(fd, input, sizeof(input), MSG_DONTWAIT);

	if (got <= 0) {
		close(fd);
		return;
	}
	size_t count = options.request ? count_requests(fd, (size_t)got) : 1;

	send_answers(fd, count);
	if (options.close && count > 0)
		close(fd);
}

static void serve(int listener)
{
	struct epoll_event events[MAX_EVENTS];
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0)
		err(1, "epoll_create1");
	watch(epoll, listener);
	for (;;) {
		int ready = epoll_wait(epoll, events, MAX_EVENTS, -1);

		for (int i = 0; i < ready; i++) {
			int fd = events[i].data.fd;

			if (fd == listener)
				accept_some(epoll, listener);
			else
				serve_one(fd);
		}
	}
}

static void start_worker(int listener)
{
	pid_t parent = getpid();

	switch (fork()) {
	case -1:
		err(1, "fork");
	case 0:
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		serve(listener);
	}
}

static void read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "p:w:b:r:c")) != -1)
		switch (option) {
		case 'p': options.port = (unsigned short)atoi(optarg); break;
		case 'w': options.workers = atoi(optarg); break;
		case 'b': options.body = strtoul(optarg, NULL, 10); break;
		case 'r': options.request = strtoul(optarg, NULL, 10); break;
		case 'c': options.close = 1; break;
		default: exit(64);
		}
}

int main(int argc, char **argv)
{
	read_options(argc, argv);
	prepare_answers();
	int listener = open_listener();

	for (int i = 0; i < options.workers; i++)
		start_worker(listener);
	wait(NULL); /* a worker that ends was in trouble; the others end with their parent */
	return 1;
}
