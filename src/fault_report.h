/* SPDX-License-Identifier: MIT */
/*
 * The crash report: what happened, where, in whose handler, on which request.  Called in signal
 * handlers: nothing here allocates or takes a lock, but for what backtrace() and dladdr() do (see
 * there).
 */
#ifndef FAULT_REPORT_H
#define FAULT_REPORT_H

#include <stdbool.h>
#include <sys/types.h>

struct engine;

enum { FAULT_SUMMARY_MAX = 512 };

struct fault_cause {
	int signal, code; /* code: si_code */
	bool is_hang;     /* signal is then what the process dies by */
	bool is_exit;     /* signal is then what exit() was turned into */
	void *address;    /* of the fault; NULL: none */
	pid_t sender;     /* 0: none */
	pid_t thread;
};

/* One line, without allocation: "SIGSEGV at 0x0 in handler crash (route /crash), GET /crash?x=1".
 * Where that itself faults, the beginning of it is in `out`.
 */
void fault_summary(const struct fault_cause *cause, const struct engine *engine,
		   char out[FAULT_SUMMARY_MAX]);

/* Logs that line, and the request's body where the configuration wants it. */
void fault_report(const struct fault_cause *cause, const struct engine *engine,
		  const char *summary);

/* Each of these logs a part more; `context` is the signal handler's third argument. */
void fault_report_registers(const void *context);
void fault_report_backtrace(const struct engine *engine, const void *context);

/* What the hand-over could not do: connections that the exchange did not take, with an errno, and
 * whether it was left before its end, for lack of time or by a fault.  Nothing where it did all. */
void fault_report_hand_over(unsigned unsent, int error, bool is_left);

/* For a thread that is not the main one, before the main one hands over: a line and its registers.
 */
void fault_report_thread(const struct fault_cause *cause, const void *context);

#endif
