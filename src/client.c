/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "address.h"

enum { TIMEOUT_S = 5, ANSWER_MAX = 16 << 20, READ_SIZE = 65536 };

static int fail(struct err *err, const char *address, const char *what)
{
	err_add(err, "%s: %s", address, what);
	return -1;
}

static int open_connection(const char *text, struct err *err)
{
	const struct timeval timeout = {.tv_sec = TIMEOUT_S};
	struct address address;
	const char *expected;
	int fd;

	if (address_parse(&address, text, &expected) < 0 || address.kind == ADDRESS_PASSED)
		return fail(err, text, "cannot connect to such an address");
	fd = socket(address.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
	}
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address.sa, address.len) < 0) {
		fail(err, text, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

/* All until the server closes.  NULL with errno. */
static char *read_all(int fd, size_t *len)
{
	char *text = NULL, *grown;
	ssize_t got;

	for (*len = 0; *len < ANSWER_MAX; *len += (size_t)got) {
		grown = realloc(text, *len + READ_SIZE + 1);
		if (!grown)
			break;
		text = grown;
		got = read(fd, text + *len, READ_SIZE);
		if (got < 0)
			break;
		text[*len + (size_t)got] = '\0';
		if (got == 0)
			return text;
	}
	free(text);
	return NULL;
}

static int ask(int fd, const char *target)
{
	char request[256];
	int len = snprintf(request, sizeof request,
			   "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", target);

	return send(fd, request, (size_t)len, MSG_NOSIGNAL) == len ? 0 : -1;
}

/* Takes the head off.  The server closes at the end, so that no length is needed. */
static int split(char *text, size_t len, struct client_answer *answer)
{
	char *head_end = strstr(text, "\r\n\r\n");

	if (!head_end || sscanf(text, "HTTP/1.1 %d", &answer->status) != 1)
		return -1;
	answer->len = len - (size_t)(head_end + 4 - text);
	memmove(text, head_end + 4, answer->len + 1);
	answer->body = text;
	return 0;
}

int client_get(const char *address, const char *target, struct client_answer *answer,
	       struct err *err)
{
	int fd = open_connection(address, err);
	char *text = NULL;
	size_t len;

	if (fd < 0)
		return -1;
	if (ask(fd, target) == 0)
		text = read_all(fd, &len);
	if (!text)
		fail(err, address, errno == EAGAIN ? "no answer in time" : strerror(errno));
	close(fd);
	if (!text)
		return -1;
	if (split(text, len, answer) == 0)
		return 0;
	free(text);
	return fail(err, address, "that is no answer of a whitecap server");
}
