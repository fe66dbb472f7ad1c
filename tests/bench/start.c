/* SPDX-License-Identifier: MIT */
/*
 * start PORT COMMAND...: starts COMMAND, asks 127.0.0.1:PORT until it answers, prints the µs that this
 * took, and ends it when standard input ends.
 */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_NS = 200000, MOST_US = 15000000 };

static const char request[] = "GET / HTTP/1.1\r\nHost: bench\r\n\r\n";

static long clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static bool answers(const struct sockaddr_in *server)
{
	char octet;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool answered = connect(fd, (const struct sockaddr *)server, sizeof *server) == 0 &&
			send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0 && recv(fd, &octet, 1, 0) > 0;

	close(fd);
	return answered;
}

int main(int argc, char *argv[])
{
	struct sockaddr_in server = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct timespec step = {.tv_nsec = PAUSE_NS};
	extern char **environ;
	long began = clock_us();
	int status;
	pid_t pid;
	char octet;

	if (argc < 3 || posix_spawn(&pid, argv[2], NULL, NULL, argv + 2, environ) != 0)
		return 2;
	server.sin_port = htons((uint16_t)atoi(argv[1]));
	while (!answers(&server)) {
		if (waitpid(pid, &status, WNOHANG) == pid || clock_us() - began > MOST_US)
			return 1;
		nanosleep(&step, NULL);
	}
	printf("%ld\n", clock_us() - began);
	fflush(stdout);
	while (read(STDIN_FILENO, &octet, 1) > 0)
		continue;
	kill(pid, SIGTERM);
	return waitpid(pid, &status, 0) == pid ? 0 : 1;
}
