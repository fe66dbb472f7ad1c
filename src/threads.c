/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "whitecap.h"

enum { STACK_SIZE = 64 * 1024 };

typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

struct start {
	void *(*run)(void *);
	void *data;
};

static create_function *libc_create;
static bool guarded;

static void drop_stack(void *stack)
{
	const stack_t none = {.ss_flags = SS_DISABLE};

	if (stack == MAP_FAILED)
		return;
	sigaltstack(&none, NULL);
	munmap(stack, STACK_SIZE);
}

static void unblock_faults(void)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		sigaddset(&set, faults[i]);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void *begin(void *data)
{
	struct start start = *(struct start *)data;
	stack_t stack = {.ss_size = STACK_SIZE};
	void *result;

	free(data);
	stack.ss_sp = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack.ss_sp != MAP_FAILED)
		sigaltstack(&stack, NULL);
	unblock_faults();
	/* Also when it is left by pthread_exit() or cancelled. */
	pthread_cleanup_push(drop_stack, stack.ss_sp);
	result = start.run(start.data);
	pthread_cleanup_pop(1);
	return result;
}

void threads_guard(void)
{
	guarded = true;
}

WC_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			     void *(*run)(void *), void *data)
{
	struct start *start;
	int error;

	if (!libc_create)
		libc_create = (create_function *)dlsym(RTLD_NEXT, "pthread_create");
	if (!guarded)
		return libc_create(thread, attributes, run, data);
	start = malloc(sizeof *start);
	if (!start)
		return EAGAIN;
	*start = (struct start){run, data};
	error = libc_create(thread, attributes, begin, start);
	if (error)
		free(start);
	return error;
}
