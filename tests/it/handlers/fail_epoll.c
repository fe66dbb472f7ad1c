/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into the server: while the file of FAIL_EPOLL is there, the kernel has no room for the
 * descriptor that each child is the FAIL_EPOLL_NTH to watch.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

static pid_t master, counted;
static int count;

__attribute__((constructor)) static void start(void)
{
	master = getpid();
}

static int fails(void)
{
	if (getpid() == master)
		return 0;
	if (getpid() != counted)
		count = 0;
	counted = getpid();
	return ++count == atoi(getenv("FAIL_EPOLL_NTH")) && access(getenv("FAIL_EPOLL"), F_OK) == 0;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	int (*next)(int, int, int, struct epoll_event *) =
		(int (*)(int, int, int, struct epoll_event *))dlsym(RTLD_NEXT, "epoll_ctl");

	if (operation != EPOLL_CTL_DEL && fails()) {
		errno = ENOSPC;
		return -1;
	}
	return next(epoll, operation, fd, event);
}
