/* SPDX-License-Identifier: MIT */
/* The crash report: what happened, where, in whose handler, on which request.  Called in signal handlers. */
#ifndef FAULT_REPORT_H
#define FAULT_REPORT_H

#include <stdbool.h>
#include <sys/types.h>

struct engine;

enum { FAULT_SUMMARY_MAX = 512 };

struct fault_cause {
	int signal, code;   /* code: si_code */
	bool is_hang;       /* signal is then what the process dies by */
	void *address;      /* of the fault; NULL: none */
	pid_t sender;       /* 0: none */
	pid_t thread;
};

/* One line, without allocation: "SIGSEGV at 0x0 in handler crash (route /crash), GET /crash?x=1". */
void fault_summary(const struct fault_cause *cause, const struct engine *engine,
		   char out[FAULT_SUMMARY_MAX]);

/* Logs registers and backtrace; `context` is the signal handler's third argument, NULL: none. */
void fault_report(const struct fault_cause *cause, const struct engine *engine, void *context);

/* The same for a thread that is not the main one, before the main one hands over. */
void fault_report_thread(const struct fault_cause *cause, void *context);

#endif
