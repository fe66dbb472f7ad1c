/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "ipc.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fdpass.h"

/* What goes before the text. */
struct head {
	uint32_t type;
	uint32_t fd_count;
};

int ipc_open(int pair[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
}

int ipc_send(int fd, enum ipc_type type, const char *text, const int *fds, unsigned fd_count)
{
	struct head head = {.type = (uint32_t)type, .fd_count = fd_count};
	struct iovec iov[2] = {
		{.iov_base = &head, .iov_len = sizeof(head)},
		{.iov_base = (char *)text, .iov_len = text ? strnlen(text, IPC_TEXT_MAX - 1) : 0},
	};

	assert(fd_count <= IPC_FDS_MAX);
	return fdpass_send(fd, iov, 2, fds, fd_count) < 0 ? -1 : 0;
}

static void close_all(const int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
}

int ipc_receive(int fd, struct ipc_message *message)
{
	struct head head = {0};
	struct iovec iov[2] = {
		{.iov_base = &head, .iov_len = sizeof(head)},
		{.iov_base = message->text, .iov_len = sizeof(message->text) - 1},
	};
	struct fdpass_extra extra;
	ssize_t n = fdpass_receive(fd, iov, 2, message->fds, IPC_FDS_MAX, &extra);

	/* A peer that died with our messages unread is a reset, once, and only then the end. */
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return 0;
	if (n < 0)
		return -1;
	if ((size_t)n < sizeof(head) || extra.octets_cut || extra.fd_count != head.fd_count) {
		close_all(message->fds, extra.fd_count);
		errno = EPROTO;
		return -1;
	}
	message->type = head.type;
	message->fd_count = head.fd_count;
	message->text_len = (size_t)n - sizeof(head);
	message->text[message->text_len] = '\0';
	return 1;
}
