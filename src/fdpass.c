/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "fdpass.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
	char octets[CMSG_SPACE(FDPASS_MAX * sizeof(int))];
	struct cmsghdr align;
};

static void put_fds(struct msghdr *message, union control *control, const int *fds, size_t count)
{
	struct cmsghdr *head = &control->align;

	memset(control, 0, sizeof(*control));
	message->msg_control = control->octets;
	message->msg_controllen = CMSG_SPACE(count * sizeof(int));
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(head), fds, count * sizeof(int));
}

ssize_t fdpass_send(int fd, const struct iovec *iov, size_t iov_count, const int *fds,
		    size_t fd_count)
{
	struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = iov_count};
	union control control;
	ssize_t n;

	assert(fd_count <= FDPASS_MAX);
	if (fd_count > 0)
		put_fds(&message, &control, fds, fd_count);
	do
		n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

static size_t take_fds(struct msghdr *message, int *fds)
{
	struct cmsghdr *head = CMSG_FIRSTHDR(message);
	size_t len;

	if (head == NULL || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
		return 0;
	len = head->cmsg_len - CMSG_LEN(0);
	memcpy(fds, CMSG_DATA(head), len);
	return len / sizeof(int);
}

ssize_t fdpass_receive(int fd, const struct iovec *iov, size_t iov_count, int *fds, size_t room,
		       struct fdpass_extra *extra)
{
	struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = iov_count};
	union control control;
	ssize_t n;

	assert(room <= FDPASS_MAX);
	*extra = (struct fdpass_extra){0};
	do {
		/* CMSG_SPACE would pad, and let one descriptor more in than there is room for. */
		message.msg_control = room > 0 ? control.octets : NULL;
		message.msg_controllen = room > 0 ? CMSG_LEN(room * sizeof(int)) : 0;
		n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -1;
	extra->fd_count = take_fds(&message, fds);
	extra->fds_cut = (message.msg_flags & MSG_CTRUNC) != 0;
	extra->octets_cut = (message.msg_flags & MSG_TRUNC) != 0;
	return n;
}
