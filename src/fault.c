/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "fault.h"

#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "conn_rescue.h"
#include "engine.h"
#include "fault_report.h"
#include "ipc.h"

enum {
	STACK_SIZE = 256 * 1024, /* for the handler, also for backtrace() and what it calls */
	WAIT_MS = 1500,          /* that another thread waits for the main one */
	ALARM_S = 3,             /* then the process dies, whatever it is at */
};

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

static struct engine *engine;
static pid_t main_thread;
static atomic_flag taken = ATOMIC_FLAG_INIT; /* the first fault has the process */
static atomic_bool handed_over;
static struct fault_cause cause;

static pid_t thread_id(void)
{
	return (pid_t)syscall(SYS_gettid); /* safe: a bare system call */
}

static void set_action(int number, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};

	sigaction(number, &action, NULL); /* safe (signal-safety(7)) */
}

static void unblock(int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, NULL); /* safe (signal-safety(7)) */
}

/* A damaged connection must not cost the others: a fault while handing over skips what caused it. */
static void on_second_fault(int number)
{
	(void)number;
	if (thread_id() == main_thread)
		conn_rescue_skip();
	set_action(number, SIG_DFL);
	unblock(number);
}

static void allow_second_faults(void)
{
	struct sigaction action = {.sa_handler = on_second_fault, .sa_flags = SA_NODEFER | SA_ONSTACK};

	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		sigaction(signals[i], &action, NULL);
		unblock(signals[i]);
	}
}

/* Nothing here may take for ever: the default action of SIGALRM is to end the process. */
static void set_alarm(void)
{
	set_action(SIGALRM, SIG_DFL);
	unblock(SIGALRM);
	alarm(ALARM_S); /* safe (signal-safety(7)) */
}

static void hand_over(void)
{
	char summary[FAULT_SUMMARY_MAX];

	set_alarm();
	allow_second_faults();
	fault_summary(&cause, engine, summary);
	/* First of all, so that a replacement starts meanwhile.  A sendmsg, which is safe. */
	ipc_send(engine->args->ipc, IPC_FAULT, summary, NULL, 0);
	conn_rescue_all(engine, cause.is_hang ? 504 : 500);
	atomic_store(&handed_over, true);
}

/* By the original signal: a fault comes again when its instruction does, with code and address in the core. */
static void die(void)
{
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		set_action(signals[i], SIG_DFL);
	unblock(cause.signal);
	if (cause.code <= 0) /* sent by somebody: send it again */
		syscall(SYS_tgkill, getpid(), thread_id(), cause.signal);
}

static void finish(void *context)
{
	hand_over();
	fault_report(&cause, engine, context);
	die();
}

/* Another thread has faulted: it sleeps, while the main one, wherever it is, does the work. */
static void pass_to_main_thread(void)
{
	struct timespec pause = {0, 1000000};

	syscall(SYS_tgkill, getpid(), main_thread, FAULT_SIGNAL);
	for (int i = 0; i < WAIT_MS && !atomic_load(&handed_over); i++)
		nanosleep(&pause, NULL); /* a bare system call */
	die();
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	if (atomic_flag_test_and_set(&taken)) {
		/* abort() comes again when its handler returns; another thread's fault waits for the end. */
		if (thread_id() == main_thread || atomic_load(&handed_over)) {
			set_action(number, SIG_DFL);
			unblock(number);
			return;
		}
		for (;;)
			pause();
	}
	cause = (struct fault_cause){.signal = number, .code = info->si_code, .thread = thread_id()};
	cause.address = info->si_code > 0 ? info->si_addr : NULL;
	cause.sender = info->si_code <= 0 ? info->si_pid : 0;
	if (cause.thread == main_thread) {
		finish(context);
	} else {
		fault_report_thread(&cause, context);
		pass_to_main_thread();
	}
}

/* From the master: a handler has not returned.  From another thread: it has faulted. */
static void on_fault_signal(int number, siginfo_t *info, void *context)
{
	struct scoreboard_slot *slot = engine->slot;

	(void)number, (void)info;
	if (cause.thread && cause.thread != main_thread) {
		hand_over();
		fault_report(&cause, engine, NULL);
		for (;;)
			pause(); /* until the thread that faulted dies, and all of us with it */
	}
	/* It may have returned meanwhile. */
	if (atomic_load(&slot->hang_turn) != atomic_load(&slot->turn) ||
	    atomic_flag_test_and_set(&taken))
		return;
	cause = (struct fault_cause){.signal = SIGABRT, .thread = main_thread, .is_hang = true};
	finish(context);
}

static int install(int number, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	sigfillset(&action.sa_mask);
	return sigaction(number, &action, NULL);
}

int fault_install(struct engine *owner)
{
	void *frames[4];
	stack_t stack = {.ss_size = STACK_SIZE};

	engine = owner;
	main_thread = thread_id();
	stack.ss_sp = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack.ss_sp == MAP_FAILED || sigaltstack(&stack, NULL) < 0)
		return -1;
	backtrace(frames, 4); /* loads what it needs now: later it must not allocate */
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		if (install(signals[i], on_fault) < 0)
			return -1;
	return install(FAULT_SIGNAL, on_fault_signal);
}
