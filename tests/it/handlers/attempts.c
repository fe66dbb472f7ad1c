/* SPDX-License-Identifier: MIT */
/* Tries what a handler has no business to do, and answers with a line "NAME RESULT" for each attempt. */
#include <whitecap.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t other; /* the process to be reached: the master, or a sibling */

static int try_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid < 0 ? -1 : (int)waitpid(pid, NULL, 0);
}

/* Fails with ENOENT where it is allowed: this process is not to end. */
static int try_execve(void)
{
	char *none[] = {NULL};

	return execve("/nonexistent", none, none);
}

static int try_system(void)
{
	int status = system("exit 0");

	errno = status == 0 ? 0 : EPERM;
	return status == 0 ? 0 : -1;
}

static int try_ptrace(void)
{
	if (ptrace(PTRACE_SEIZE, other, NULL, NULL) < 0)
		return -1;
	ptrace(PTRACE_INTERRUPT, other, NULL, NULL);
	waitpid(other, NULL, __WALL);
	return (int)ptrace(PTRACE_DETACH, other, NULL, NULL);
}

static int try_kill(void)
{
	return kill(other, 0);
}

static int try_vm_read(void)
{
	char octets[8];
	void *head = (void *)getauxval(AT_PHDR); /* of the program, which all of them are */
	struct iovec mine = {octets, sizeof octets}, theirs = {head, sizeof octets};

	return (int)process_vm_readv(other, &mine, 1, &theirs, 1, 0);
}

static int open_of(const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/%s", (int)other, name);
	return open(path, flags);
}

static int close_if_open(int fd)
{
	return fd < 0 ? -1 : close(fd);
}

static int try_memory(void)
{
	return close_if_open(open_of("mem", O_RDWR));
}

static int try_environ(void)
{
	return close_if_open(open_of("environ", O_RDONLY));
}

static int try_descriptor(void)
{
	int process = (int)syscall(SYS_pidfd_open, other, 0);
	int fd = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, 0, 0);

	close_if_open(fd);
	close_if_open(process);
	return fd;
}

static int try_owner(void)
{
	return fcntl(0, F_SETOWN, other);
}

static int try_limits(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_CORE, &limit) < 0 ? -1 : setrlimit(RLIMIT_CORE, &limit);
}

static int try_listen(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int result = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&any, sizeof any);
	int error = errno;

	close_if_open(fd);
	errno = error;
	return result;
}

static int try_netlink(void)
{
	return close_if_open(socket(AF_NETLINK, SOCK_RAW, 0));
}

/* What must work. */

static void *get_thread_id(void *data)
{
	*(long *)data = syscall(SYS_gettid);
	return NULL;
}

static int do_thread(void)
{
	pthread_t thread;
	long id = 0;

	errno = pthread_create(&thread, NULL, get_thread_id, &id);
	if (errno != 0)
		return -1;
	pthread_join(thread, NULL);
	return id > 0 && id != getpid() ? 0 : -1;
}

static int do_file(void)
{
	char octets[8];
	int fd = open("/proc/self/status", O_RDONLY);
	int result = fd < 0 ? -1 : (int)read(fd, octets, sizeof octets);

	close_if_open(fd);
	return result > 0 ? 0 : -1;
}

static int do_connect(void)
{
	struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(9),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	int result = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&nobody, sizeof nobody);

	close_if_open(fd);
	return result;
}

static const struct {
	const char *name;
	int (*attempt)(void);
} attempts[] = {
	{"fork", try_fork},       {"execve", try_execve},   {"system", try_system},
	{"ptrace", try_ptrace},   {"kill", try_kill},       {"vm-read", try_vm_read},
	{"memory", try_memory},   {"environ", try_environ}, {"descriptor", try_descriptor},
	{"owner", try_owner},     {"limits", try_limits},   {"listen", try_listen},
	{"netlink", try_netlink}, {"thread", do_thread},    {"file", do_file},
	{"connect", do_connect},
};

/* The query is the number of the process to be reached. */
static int handle(struct wc_request *req, void *state)
{
	struct wc_span query = wc_query(req);
	char number[16] = "", text[1024];
	size_t len = 0;

	(void)state;
	if (query.len < sizeof number)
		memcpy(number, query.ptr, query.len);
	other = atoi(number);
	for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
		errno = 0;
		len += (size_t)snprintf(text + len, sizeof text - len, "%s %s\n", attempts[i].name,
					attempts[i].attempt() >= 0 ? "done" : strerrorname_np(errno));
	}
	return wc_reply_copy(req, 200, text, len);
}

WC_HANDLER(.name = "attempts", .handle = handle);
