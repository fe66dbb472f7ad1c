/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "sandbox.h"

#ifdef HAVE_SECCOMP

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* Linux 5.17 */
#endif

#define CALL(name) SCMP_SYS(name)

/* Whatever their arguments are.  Neither files' names nor memory that is pointed at can be told
 * apart here. */
static const int calls[] = {
	/* connections and events, the worker's own first */
	CALL(recvfrom), CALL(sendto), CALL(sendmsg), CALL(epoll_wait), CALL(epoll_ctl), CALL(accept4),
	CALL(setsockopt), CALL(recvmsg), CALL(close), CALL(shutdown), CALL(getsockopt),
	CALL(getsockname), CALL(getpeername), CALL(accept), CALL(connect), CALL(sendmmsg),
	CALL(recvmmsg), CALL(epoll_create1), CALL(epoll_pwait), CALL(epoll_pwait2), CALL(poll),
	CALL(ppoll), CALL(select), CALL(pselect6), CALL(eventfd2), CALL(pipe), CALL(pipe2),

	/* time */
	CALL(clock_gettime), CALL(clock_getres), CALL(gettimeofday), CALL(time), CALL(times),
	CALL(nanosleep), CALL(clock_nanosleep), CALL(timer_create), CALL(timer_settime),
	CALL(timer_gettime), CALL(timer_getoverrun), CALL(timer_delete), CALL(timerfd_create),
	CALL(timerfd_settime), CALL(timerfd_gettime), CALL(alarm),

	/* memory */
	CALL(brk), CALL(mmap), CALL(munmap), CALL(mremap), CALL(mprotect), CALL(madvise),
	CALL(memfd_create), CALL(membarrier), CALL(mincore), CALL(msync),

	/* threads and signals of its own */
	CALL(futex), CALL(set_robust_list), CALL(get_robust_list), CALL(rseq), CALL(sched_yield),
	CALL(sched_getaffinity), CALL(getcpu), CALL(gettid), CALL(getpid), CALL(getppid), CALL(exit),
	CALL(exit_group), CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn),
	CALL(rt_sigpending), CALL(rt_sigsuspend), CALL(rt_sigtimedwait), CALL(sigaltstack), CALL(pause),
	CALL(signalfd4), CALL(restart_syscall),

	/* files: the log, what a handler reads and writes, what the admin process reads in /proc */
	CALL(read), CALL(readv), CALL(pread64), CALL(preadv), CALL(preadv2), CALL(write), CALL(writev),
	CALL(pwrite64), CALL(pwritev), CALL(pwritev2), CALL(open), CALL(openat), CALL(lseek),
	CALL(stat), CALL(lstat), CALL(fstat), CALL(newfstatat), CALL(statx), CALL(statfs),
	CALL(fstatfs), CALL(access), CALL(faccessat), CALL(faccessat2), CALL(readlink),
	CALL(readlinkat), CALL(getdents64), CALL(getcwd), CALL(dup), CALL(dup2), CALL(dup3),
	CALL(close_range), CALL(flock), CALL(fsync), CALL(fdatasync), CALL(ftruncate), CALL(fallocate),
	CALL(fadvise64), CALL(sendfile), CALL(inotify_init1), CALL(inotify_add_watch),
	CALL(inotify_rm_watch),

	/* who and where it is */
	CALL(getuid), CALL(geteuid), CALL(getgid), CALL(getegid), CALL(getresuid), CALL(getresgid),
	CALL(getgroups), CALL(getrlimit), CALL(getrusage), CALL(sysinfo), CALL(uname), CALL(getrandom),
};

/* An int: what the register holds above it means nothing. */
#define IS(number, value)                                                                          \
	{                                                                                          \
		.arg = (number), .op = SCMP_CMP_MASKED_EQ, .datum_a = 0xffffffffu,                 \
		.datum_b = (value) & 0xffffffffu                                                   \
	}

/* With this argument only; more than one rule of a call: with one of them. */
static const struct rule {
	int call;
	struct scmp_arg_cmp argument;
} rules[] = {
	{CALL(socket), IS(0, AF_UNIX)},
	{CALL(socket), IS(0, AF_INET)},
	{CALL(socket), IS(0, AF_INET6)},
	{CALL(socketpair), IS(0, AF_UNIX)},

	/* Threads, no processes. */
	{CALL(clone), {.arg = 0, .op = SCMP_CMP_MASKED_EQ, .datum_a = CLONE_THREAD,
		       .datum_b = CLONE_THREAD}},

	/* To ask for limits, not to set them. */
	{CALL(prlimit64), {.arg = 2, .op = SCMP_CMP_EQ, .datum_a = 0}},

	{CALL(prctl), IS(0, PR_SET_NAME)},
	{CALL(prctl), IS(0, PR_GET_NAME)},
	{CALL(prctl), IS(0, PR_SET_VMA)},
	{CALL(prctl), IS(0, PR_GET_DUMPABLE)},
	{CALL(prctl), IS(0, PR_SET_DUMPABLE)}, /* before it dies, for the core dump */

	/* Not F_SETOWN and F_SETSIG: they have the kernel send any signal to any process. */
	{CALL(fcntl), IS(1, F_DUPFD)},
	{CALL(fcntl), IS(1, F_DUPFD_CLOEXEC)},
	{CALL(fcntl), IS(1, F_GETFD)},
	{CALL(fcntl), IS(1, F_SETFD)},
	{CALL(fcntl), IS(1, F_GETFL)},
	{CALL(fcntl), IS(1, F_SETFL)},
	{CALL(fcntl), IS(1, F_GETLK)},
	{CALL(fcntl), IS(1, F_SETLK)},
	{CALL(fcntl), IS(1, F_SETLKW)},
	{CALL(fcntl), IS(1, F_OFD_GETLK)},
	{CALL(fcntl), IS(1, F_OFD_SETLK)},
	{CALL(fcntl), IS(1, F_OFD_SETLKW)},
	{CALL(fcntl), IS(1, F_ADD_SEALS)},
	{CALL(fcntl), IS(1, F_GET_SEALS)},
	{CALL(fcntl), IS(1, F_GETPIPE_SZ)},
	{CALL(fcntl), IS(1, F_SETPIPE_SZ)},

	/* Not TIOCSTI, which types on the operator's terminal. */
	{CALL(ioctl), IS(1, FIONBIO)},
	{CALL(ioctl), IS(1, FIONREAD)},
	{CALL(ioctl), IS(1, FIOCLEX)},
	{CALL(ioctl), IS(1, FIONCLEX)},
	{CALL(ioctl), IS(1, SIOCOUTQ)},
	{CALL(ioctl), IS(1, TCGETS)},
};

static int add_calls(scmp_filter_ctx filter)
{
	int result = 0;

	for (size_t i = 0; result == 0 && i < sizeof calls / sizeof *calls; i++)
		result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
	return result;
}

static int add_rules(scmp_filter_ctx filter)
{
	int result = 0;

	for (size_t i = 0; result == 0 && i < sizeof rules / sizeof *rules; i++)
		result = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, rules[i].call, 1,
						&rules[i].argument);
	return result;
}

/* raise() and abort(), and to die of a signal. */
static int add_own_signals(scmp_filter_ctx filter)
{
	const struct scmp_arg_cmp own = IS(0, (scmp_datum_t)getpid());
	int result = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, CALL(kill), 1, &own);

	if (result == 0)
		result = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, CALL(tgkill), 1, &own);
	return result;
}

static int fill(scmp_filter_ctx filter)
{
	int result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);

	if (result == 0)
		result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree */
	if (result == 0)
		result = add_calls(filter);
	if (result == 0)
		result = add_rules(filter);
	if (result == 0)
		result = add_own_signals(filter);
	/* Its flags are in memory; without it the C library makes threads by clone. */
	if (result == 0)
		result = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), CALL(clone3), 0);
	return result;
}

static int load(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int result = filter ? fill(filter) : -ENOMEM;

	if (result == 0)
		result = seccomp_load(filter);
	seccomp_release(filter);
	return result;
}

int sandbox_enter(struct err *err)
{
	int result;

	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
		err_add(err, "seccomp: PR_SET_DUMPABLE: %s", strerror(errno));
		return -1;
	}
	result = load();
	if (result == 0)
		return 0;
	err_add(err, "seccomp: cannot install the filter: %s", strerror(-result));
	return -1;
}

#else /* the configuration has refused it */

int sandbox_enter(struct err *err)
{
	err_add(err, "seccomp: not built in");
	return -1;
}

#endif
