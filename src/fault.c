/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "fault.h"

#include <errno.h>
#include <execinfo.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "access_log.h"
#include "conn_rescue.h"
#include "engine.h"
#include "fault_report.h"
#include "ipc.h"
#include "probes.h"
#include "threads.h"

/*
 * What is called from the signal handlers, here, in conn_rescue.c, fault_report.c and access_log.c,
 * and why that is safe there.  The program is linked with -z now, so that no call has to be resolved then.
 *
 * sigaction, sigprocmask and their sets, alarm, timer_settime, pause, getpid, clock_gettime, time,
 * write, close                    on the list of signal-safety(7)
 * sendmsg (ipc.c, fdpass.c)       on that list: the message to the master, the connections
 * send, sendfile (exchange.c)     on that list, and a bare system call: answers while all stops
 * syscall(gettid, tgkill)         bare system calls: which thread this is; die by a signal again
 * nanosleep                       a bare system call: for room, for its turn, for another thread
 * memfd_create (exchange.c)       a bare system call: payloads larger than a message
 * writev, pwritev2, poll, fcntl,
 * fstat (log.c)                   bare system calls: one line of the report each
 * strerrordesc_np                 a table
 * memcpy, memset, strlen, strcmp  no state of their own; what they read may fault: see attempt()
 * atomic_*                        free of locks for these types; in shared memory
 * sigsetjmp, siglongjmp           leave a step that faulted or hangs; what it was at (own statics,
 *                                 one connection) is not used again
 * backtrace                       allocates and takes a lock once: the master has called it
 * dladdr                          takes the loader's lock, which the thread may hold twice; if
 *                                 another one has it, time ends the step; last of all
 *
 * No call formats with printf, allocates, or takes a lock of the C library's heap or streams: the
 * thread may have been interrupted inside them.
 */

enum {
	STACK_SIZE = 256 * 1024, /* for the handler, also for backtrace() and what it calls */
	GRACE_MS = 20, /* that a sound main thread has for a request in the rest of its turn */
	GRACES_MAX = 20,
	STEP_MS = 600,       /* that a step may take, then the next one has its turn */
	HAND_OVER_MS = 1500, /* the same for thousands of connections on a busy machine */
	ANSWER_MS = 2500,
	WAIT_MS = 3900, /* that another thread waits for the main one */
	ALARM_S = 3,    /* then the process dies, whatever it is at */
	SECOND_FAULTS_MAX = 4096,
};

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

static struct {
	struct engine *engine;
	pid_t process, main_thread;
	timer_t timer; /* sends FAULT_SIGNAL to the main thread */
	bool has_timer;
	bool may_exit;
	volatile bool exit_called;
	struct fault_cause cause;
	void *context; /* of the main thread's fault; NULL: none */
	char summary[FAULT_SUMMARY_MAX];
	bool hand_over_left; /* before its end */

	/* Each of the steps below can be left by a jump, when it faults itself or takes too long.
	 */
	sigjmp_buf next_step;
	volatile bool can_jump;
	volatile int second_faults;
	volatile unsigned half_ms; /* that is left of the step's time, once half of it is over */

	unsigned graces;
	uint64_t requests; /* handled when the last grace began */
} fault;

static atomic_flag taken = ATOMIC_FLAG_INIT; /* the first fault has the process */
static atomic_bool begun;                    /* the main thread does the work */
static atomic_bool done;

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid /* glibc up to 2.36 has no name for it */
#endif

static pid_t thread_id(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static void set_action(int number, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};

	sigaction(number, &action, NULL);
}

static void unblock(int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static void set_timer(unsigned ms)
{
	struct itimerspec time = {.it_value = {ms / 1000, (long)(ms % 1000) * 1000000}};

	if (fault.has_timer)
		timer_settime(fault.timer, 0, &time, NULL);
}

static void wait_for_ever(void)
{
	for (;;)
		pause();
}

static void leave_step(void)
{
	if (!fault.can_jump || fault.second_faults++ >= SECOND_FAULTS_MAX)
		return;
	fault.can_jump = false;
	siglongjmp(fault.next_step, 1);
}

/*
 * What is damaged must not cost the rest: a fault at work leaves out what caused it, a connection
 * or the step. One of another thread waits for the end.
 */
/* One that another process has sent is none. */
static void on_second_fault(int number, siginfo_t *info, void *context)
{
	bool is_reporting = atomic_load(&done) && thread_id() == fault.cause.thread;

	(void)context;
	if (info->si_code <= 0 && info->si_pid != getpid())
		return;
	if (thread_id() != fault.main_thread && !is_reporting)
		wait_for_ever();
	conn_rescue_skip();
	leave_step();
	set_action(number, SIG_DFL);
	unblock(number);
}

static void allow_second_faults(void)
{
	struct sigaction action = {.sa_sigaction = on_second_fault,
				   .sa_flags = SA_NODEFER | SA_ONSTACK | SA_SIGINFO};

	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		sigaction(signals[i], &action, NULL);
		unblock(signals[i]);
	}
}

/* The last resort, should the timer not do: the default action of SIGALRM is to end the process. */
static void set_alarm(void)
{
	set_action(SIGALRM, SIG_DFL);
	unblock(SIGALRM);
	alarm(ALARM_S);
}

/* The steps. */

/* Step by step: a fault in here leaves the text as far as it has come. */
static void summarise(void)
{
	fault_summary(&fault.cause, fault.engine, fault.summary);
}

/* Before all else, so that a replacement starts meanwhile.  It is in no turn and takes nobody in
 * any more: the others need not wait for it, nor the master look after it. */
static void tell_master(void)
{
	struct scoreboard_slot *slot = fault.engine->slot;

	PROBE(crash, fault.cause.signal);
	atomic_store(&slot->accepting, 0);
	scoreboard_add(&slot->turn, atomic_load(&slot->turn) & 1);
	ipc_send(fault.engine->args->ipc, IPC_FAULT, fault.summary, NULL, 0);
}

static void hand_over(void)
{
	conn_rescue_all(fault.engine, &fault.cause);
}

/* Lines of what was answered before. */
static void rescue_access_log(void)
{
	if (fault.engine->access_log)
		access_log_rescue(fault.engine->access_log);
}

static void report(void)
{
	fault_report(&fault.cause, fault.engine, fault.summary);
}

static void report_registers(void)
{
	fault_report_registers(fault.context);
}

static void report_backtrace(void)
{
	fault_report_backtrace(fault.engine, fault.context);
}

static void answer(void)
{
	alarm(ALARM_S); /* anew: this takes its time */
	conn_rescue_answer();
}

/* False: it was left. */
static bool attempt(void (*step)(void), unsigned ms)
{
	volatile bool is_done = false;

	if (sigsetjmp(fault.next_step, 1) == 0) {
		fault.half_ms = ms / 2;
		set_timer(ms - ms / 2); /* first: the one before may be over just now */
		fault.can_jump = true;
		step();
		is_done = true;
	}
	fault.can_jump = false;
	return is_done;
}

static void report_hand_over(void)
{
	int error;
	unsigned unsent = conn_rescue_unsent(&error);

	fault_report_hand_over(unsent, error, fault.hand_over_left);
}

/* Registers first: the backtrace itself may fault, on a smashed stack. */
static void report_all(void)
{
	attempt(report, STEP_MS);
	if (!fault.context)
		return;
	attempt(report_registers, STEP_MS);
	attempt(report_backtrace, STEP_MS);
}

/* By the original signal: a fault comes again when its instruction does, with code and address in
 * the core. */
static void die(void)
{
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		set_action(signals[i], SIG_DFL);
	unblock(fault.cause.signal);
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* a bare system call: the sandbox turned it off */
	if (fault.cause.code <= 0) /* sent by somebody: send it again */
		syscall(SYS_tgkill, getpid(), thread_id(), fault.cause.signal);
}

/* The main thread's work.  Returns when its own instruction is to fault again. */
static void finish(void *context)
{
	if (atomic_exchange(&begun, true))
		return;
	fault.context = context;
	set_alarm();
	allow_second_faults();
	unblock(FAULT_SIGNAL);
	attempt(summarise, STEP_MS);
	attempt(tell_master, STEP_MS);
	fault.hand_over_left = !attempt(hand_over, HAND_OVER_MS);
	fault.hand_over_left |= !attempt(conn_rescue_end, STEP_MS);
	attempt(rescue_access_log, STEP_MS);
	if (fault.cause.thread == fault.main_thread)
		report_all();
	attempt(answer, ANSWER_MS);
	attempt(report_hand_over, STEP_MS);
	set_timer(0);
	atomic_store(&done, true);
	if (fault.cause.thread != fault.main_thread)
		wait_for_ever(); /* until the thread that faulted dies, and all of us with it */
	die();
}

void fault_now(void)
{
	finish(NULL);
}

static uint64_t count_requests(void)
{
	return atomic_load(&fault.engine->slot->counter[COUNTER_requests]);
}

/* The main thread is sound: it works at the end of its turn, or after a while wherever it is. */
static void finish_soon(void)
{
	fault.engine->fault_due = 1;
	fault.requests = count_requests();
	set_timer(GRACE_MS);
	if (!fault.has_timer)
		finish(NULL);
}

/* Another thread has faulted: it sleeps while the main one does the work. */
static void pass_to_main_thread(void *context)
{
	struct timespec pause = {0, 1000000};

	fault_report_thread(&fault.cause, context);
	fault.engine->fault_due = 1;
	syscall(SYS_tgkill, fault.process, fault.main_thread, FAULT_SIGNAL);
	for (int i = 0; i < WAIT_MS && !atomic_load(&done); i++)
		nanosleep(&pause, NULL);
	fault.context = context;
	allow_second_faults();
	attempt(report_backtrace, 0);
	die();
}

/* Not the first fault of the process. */
static void on_later_fault(int number)
{
	if (thread_id() != fault.main_thread)
		wait_for_ever();
	set_action(number, SIG_DFL); /* abort() comes again when its handler returns */
	unblock(number);
}

static bool is_from_outside(const siginfo_t *info)
{
	return info->si_code <= 0 && info->si_pid != fault.process;
}

static struct fault_cause cause_of(int number, const siginfo_t *info)
{
	struct fault_cause cause = {.signal = number, .code = info->si_code, .thread = thread_id()};

	if (info->si_code > 0)
		cause.address = info->si_addr;
	else
		cause.sender = info->si_pid;
	cause.is_exit = number == SIGABRT && fault.exit_called;
	return cause;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	bool is_main = thread_id() == fault.main_thread;
	bool is_first = !atomic_flag_test_and_set(&taken);

	if (getpid() !=
	    fault.process) { /* a child that a handler forked: nothing here is its own */
		set_action(number, SIG_DFL);
		return;
	}
	/* What waits for the end of a turn gives way to a fault in that turn. */
	if (!is_first && !(is_main && !atomic_load(&begun))) {
		on_later_fault(number);
		return;
	}
	fault.cause = cause_of(number, info);
	if (!is_main)
		pass_to_main_thread(context);
	else if (is_first && is_from_outside(info))
		finish_soon();
	else
		finish(context);
}

/* Inside the server's own code the connection at hand would be lost: it is let out of there, unless
 * it is stuck. */
static bool is_stuck(void)
{
	return (fault.engine->running && fault.requests == count_requests()) ||
	       ++fault.graces >= GRACES_MAX;
}

/* In two halves: a machine that stood still must not have taken all of a step's time. */
static void on_half_time(void)
{
	unsigned left_ms = fault.half_ms;

	fault.half_ms = 0;
	if (left_ms > 0)
		set_timer(left_ms);
	else
		leave_step();
}

/* The time is over: of the turn that was to be ended, or of the step at work. */
static void on_time(void *context)
{
	if (atomic_load(&begun))
		on_half_time();
	else if (fault.engine->fault_due && is_stuck())
		finish(context);
	else if (fault.engine->fault_due)
		finish_soon();
}

/* From the timer; from the master: a handler has not returned; from another thread: it has faulted.
 */
static void on_fault_signal(int number, siginfo_t *info, void *context)
{
	struct scoreboard_slot *slot = fault.engine->slot;

	(void)number;
	if (info->si_code == SI_TIMER) {
		on_time(context);
		return;
	}
	if (atomic_load(&begun)) /* the end of the turn was sooner; the timer is the steps' now */
		return;
	if (fault.engine->fault_due) {
		finish_soon();
		return;
	}
	/* It may have returned meanwhile. */
	if (atomic_load(&slot->hang_turn) != atomic_load(&slot->turn) ||
	    atomic_flag_test_and_set(&taken))
		return;
	fault.cause = (struct fault_cause){
		.signal = SIGABRT, .thread = fault.main_thread, .is_hang = true};
	finish(context);
}

static int install(int number, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = {.sa_sigaction = handler,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

	sigfillset(&action.sa_mask);
	return sigaction(number, &action, NULL);
}

/* A handler that ends the process would take all connections along: that is a crash like any other.
 */
static void on_exit_called(void)
{
	if (fault.may_exit || getpid() != fault.process)
		return;
	fault.exit_called = true;
	abort();
}

void fault_allow_exit(void)
{
	fault.may_exit = true;
}

static bool open_timer(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = FAULT_SIGNAL};

	event.sigev_notify_thread_id = fault.main_thread;
	return timer_create(CLOCK_MONOTONIC, &event, &fault.timer) == 0;
}

/* Later backtrace() must not allocate. */
void fault_prepare(void)
{
	void *frames[4];

	backtrace(frames, 4);
}

int fault_install(struct engine *engine)
{
	stack_t stack = {.ss_size = STACK_SIZE};

	fault.engine = engine;
	fault.process = getpid();
	fault.main_thread = engine->thread = thread_id();
	fault.has_timer = open_timer();
	stack.ss_sp =
		mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack.ss_sp == MAP_FAILED || sigaltstack(&stack, NULL) < 0)
		return -1;
	threads_guard();
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		if (install(signals[i], on_fault) < 0)
			return -1;
	if (atexit(on_exit_called) != 0)
		return -1;
	return install(FAULT_SIGNAL, on_fault_signal);
}
