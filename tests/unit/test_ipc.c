/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "fdpass.h"
#include "ipc.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct ipc_message message;
static int pair[2];

static void open_pair(void)
{
	CU_ASSERT_EQUAL_FATAL(ipc_open(pair), 0);
}

static void close_pair(void)
{
	close(pair[0]);
	close(pair[1]);
}

/* The lowest free descriptor: the same before and after means that none leaked. */
static int lowest_free(void)
{
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

	close(fd);
	return fd;
}

static void test_messages(void)
{
	open_pair();
	CU_ASSERT_EQUAL(fcntl(pair[0], F_GETFD), FD_CLOEXEC);
	CU_ASSERT_EQUAL(ipc_receive(pair[0], &message), -1);
	CU_ASSERT_EQUAL(errno, EAGAIN);
	CU_ASSERT_EQUAL(ipc_send(pair[1], IPC_READY, NULL, NULL, 0), 0);
	CU_ASSERT_EQUAL(ipc_send(pair[1], IPC_FAILED, "why\nand how", NULL, 0), 0);
	CU_ASSERT_EQUAL(ipc_receive(pair[0], &message), 1);
	CU_ASSERT_EQUAL(message.type, IPC_READY);
	CU_ASSERT_EQUAL(message.text_len, 0);
	CU_ASSERT_STRING_EQUAL(message.text, "");
	CU_ASSERT_EQUAL(ipc_receive(pair[0], &message), 1);
	CU_ASSERT_EQUAL(message.type, IPC_FAILED);
	CU_ASSERT_EQUAL(message.fd_count, 0);
	CU_ASSERT_STRING_EQUAL(message.text, "why\nand how");
	CU_ASSERT_EQUAL(message.text_len, strlen(message.text));
	close_pair();
}

static void test_long_text(void)
{
	static char text[IPC_TEXT_MAX + 100];

	memset(text, 'x', sizeof(text) - 1);
	open_pair();
	CU_ASSERT_EQUAL(ipc_send(pair[1], IPC_FAILED, text, NULL, 0), 0);
	CU_ASSERT_EQUAL(ipc_receive(pair[0], &message), 1);
	CU_ASSERT_EQUAL(message.text_len, IPC_TEXT_MAX - 1);
	CU_ASSERT_EQUAL(strlen(message.text), IPC_TEXT_MAX - 1);
	close_pair();
}

static void test_fds(void)
{
	int fds[2], before = lowest_free();
	char octet = 0;

	open_pair();
	CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
	CU_ASSERT_EQUAL(ipc_send(pair[0], IPC_REOPEN, NULL, fds, 2), 0);
	close(fds[0]);
	CU_ASSERT_EQUAL(write(fds[1], "!", 1), 1);
	close(fds[1]);
	CU_ASSERT_EQUAL(ipc_receive(pair[1], &message), 1);
	CU_ASSERT_EQUAL_FATAL(message.fd_count, 2);
	CU_ASSERT_EQUAL(fcntl(message.fds[0], F_GETFD), FD_CLOEXEC);
	CU_ASSERT_EQUAL(read(message.fds[0], &octet, 1), 1);
	CU_ASSERT_EQUAL(octet, '!');
	close(message.fds[0]);
	close(message.fds[1]);
	close_pair();
	CU_ASSERT_EQUAL(lowest_free(), before);
}

static void test_peer_gone(void)
{
	open_pair();
	CU_ASSERT_EQUAL(ipc_send(pair[1], IPC_READY, NULL, NULL, 0), 0);
	CU_ASSERT_EQUAL(ipc_send(pair[0], IPC_GO, NULL, NULL, 0), 0);
	close(pair[1]); /* with a message unread: the other side sees a reset */
	CU_ASSERT_EQUAL(ipc_send(pair[0], IPC_GO, NULL, NULL, 0), -1);
	CU_ASSERT(errno == EPIPE || errno == ECONNRESET);
	while (ipc_receive(pair[0], &message) == 1)
		CU_ASSERT_EQUAL(message.type, IPC_READY);
	CU_ASSERT_EQUAL(ipc_receive(pair[0], &message), 0);
	CU_ASSERT_EQUAL(ipc_receive(pair[0], &message), 0);
	close(pair[0]);
}

static void test_full(void)
{
	unsigned sent = 0;

	open_pair();
	while (ipc_send(pair[0], IPC_GO, NULL, NULL, 0) == 0)
		sent++;
	CU_ASSERT_EQUAL(errno, EAGAIN);
	for (; sent > 0; sent--)
		CU_ASSERT_EQUAL(ipc_receive(pair[1], &message), 1);
	CU_ASSERT_EQUAL(ipc_receive(pair[1], &message), -1);
	close_pair();
}

/* Packets that no ipc_send() made: refused, and their descriptors closed. */
static void test_garbage(void)
{
	static char big[IPC_TEXT_MAX + 100];
	struct iovec little = {"abc", 3}, much = {big, sizeof(big)};
	int before, fds[1] = {STDIN_FILENO};

	open_pair();
	before = lowest_free();
	CU_ASSERT_EQUAL(fdpass_send(pair[1], &little, 1, fds, 1), 3);
	CU_ASSERT_EQUAL(ipc_receive(pair[0], &message), -1);
	CU_ASSERT_EQUAL(errno, EPROTO);
	CU_ASSERT_EQUAL(fdpass_send(pair[1], &much, 1, fds, 1), (ssize_t)sizeof(big));
	CU_ASSERT_EQUAL(ipc_receive(pair[0], &message), -1);
	CU_ASSERT_EQUAL(errno, EPROTO);
	CU_ASSERT_EQUAL(lowest_free(), before);
	close_pair();
}

static void test_many_fds(void)
{
	struct iovec iov = {"x", 1};
	struct fdpass_extra extra;
	int fds[FDPASS_MAX] = {0}, got[FDPASS_MAX], before;
	char octet;
	struct iovec in = {&octet, 1};

	open_pair();
	before = lowest_free();
	CU_ASSERT_EQUAL(fdpass_send(pair[0], &iov, 1, fds, FDPASS_MAX), 1);
	CU_ASSERT_EQUAL(fdpass_receive(pair[1], &in, 1, got, FDPASS_MAX, &extra), 1);
	CU_ASSERT_EQUAL(extra.fd_count, FDPASS_MAX);
	CU_ASSERT_FALSE(extra.fds_cut);
	for (size_t i = 0; i < extra.fd_count; i++)
		CU_ASSERT_EQUAL(close(got[i]), 0);
	/* An odd room, which CMSG_SPACE would round up. */
	CU_ASSERT_EQUAL(fdpass_send(pair[0], &iov, 1, fds, 7), 1);
	CU_ASSERT_EQUAL(fdpass_receive(pair[1], &in, 1, got, 3, &extra), 1);
	CU_ASSERT_EQUAL(extra.fd_count, 3);
	CU_ASSERT_TRUE(extra.fds_cut);
	for (size_t i = 0; i < extra.fd_count; i++)
		close(got[i]);
	CU_ASSERT_EQUAL(fdpass_send(pair[0], &iov, 1, fds, 2), 1);
	CU_ASSERT_EQUAL(fdpass_receive(pair[1], &in, 1, NULL, 0, &extra), 1);
	CU_ASSERT_EQUAL(extra.fd_count, 0);
	CU_ASSERT_TRUE(extra.fds_cut);
	CU_ASSERT_EQUAL(lowest_free(), before);
	close_pair();
}

static void test_no_free_descriptor(void)
{
	struct iovec iov = {"x", 1};
	struct fdpass_extra extra;
	struct rlimit limit, little;
	int fds[10] = {0}, got[10];
	char octet;
	struct iovec in = {&octet, 1};

	open_pair();
	getrlimit(RLIMIT_NOFILE, &limit);
	little = limit;
	CU_ASSERT_EQUAL(fdpass_send(pair[0], &iov, 1, fds, 10), 1);
	little.rlim_cur = (rlim_t)lowest_free() + 4;
	setrlimit(RLIMIT_NOFILE, &little);
	CU_ASSERT_EQUAL(fdpass_receive(pair[1], &in, 1, got, 10, &extra), 1);
	setrlimit(RLIMIT_NOFILE, &limit);
	CU_ASSERT(extra.fd_count < 10);
	CU_ASSERT_TRUE(extra.fds_cut);
	for (size_t i = 0; i < extra.fd_count; i++)
		close(got[i]);
	close_pair();
}

CU_TestInfo ipc_tests[] = {
	{"messages", test_messages},
	{"long text", test_long_text},
	{"descriptors", test_fds},
	{"peer gone", test_peer_gone},
	{"queue full", test_full},
	{"garbage", test_garbage},
	{"many descriptors", test_many_fds},
	{"no free descriptor", test_no_free_descriptor},
	CU_TEST_INFO_NULL,
};
