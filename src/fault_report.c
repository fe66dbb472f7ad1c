/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "fault_report.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "engine.h"
#include "log.h"
#include "request.h"
#include "route.h"

enum { FRAMES_MAX = 48, TARGET_SHOWN = 200, LINE = 1024 };

/* Text that is put together without the C library's formatting, which may allocate. */
struct text {
	char *at, *end;
};

static void put(struct text *text, const char *from, size_t len)
{
	size_t room = (size_t)(text->end - text->at);

	if (len > room)
		len = room;
	memcpy(text->at, from, len);
	text->at += len;
}

static void put_string(struct text *text, const char *from)
{
	put(text, from, strlen(from));
}

static void put_number(struct text *text, uint64_t value, unsigned base)
{
	char digits[20], *at = digits + sizeof digits;

	do
		*--at = "0123456789abcdef"[value % base];
	while (value /= base);
	if (base == 16)
		put_string(text, "0x");
	put(text, at, (size_t)(digits + sizeof digits - at));
}

static void put_escaped(struct text *text, const char *from, size_t len)
{
	for (size_t i = 0; i < len && i < TARGET_SHOWN; i++)
		put(text, from[i] > ' ' && from[i] < 127 ? &from[i] : "?", 1);
}

static const char *signal_name(int number)
{
	static const struct {
		int number;
		const char *name;
	} names[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},	 {SIGFPE, "SIGFPE"},
		     {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"}, {SIGTRAP, "SIGTRAP"},
		     {SIGSYS, "SIGSYS"}};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].number == number)
			return names[i].name;
	return "a signal";
}

static void put_request(struct text *text, const struct request *request)
{
	const struct http_request *http = &request->http;
	const char *base = request->buf + request->pos;

	put_string(text, " in handler ");
	put_string(text, request->route->handler->name);
	put_string(text, " (route ");
	put_string(text, request->route->path);
	put_string(text, "), ");
	put_escaped(text, base + http->method.at, http->method.len);
	put_string(text, " ");
	put_escaped(text, base + http->target.at, http->target.len);
}

static void put_cause(struct text *text, const struct fault_cause *cause)
{
	if (cause->is_hang) {
		put_string(text, "did not return in time");
		return;
	}
	put_string(text, signal_name(cause->signal));
	if (cause->sender) {
		put_string(text, " sent by process ");
		put_number(text, (uint64_t)cause->sender, 10);
	} else {
		put_string(text, " at ");
		put_number(text, (uint64_t)(uintptr_t)cause->address, 16);
	}
}

void fault_summary(const struct fault_cause *cause, const struct engine *engine,
		   char out[FAULT_SUMMARY_MAX])
{
	struct text text = {out, out + FAULT_SUMMARY_MAX - 1};

	put_cause(&text, cause);
	if (engine->running)
		put_request(&text, engine->running);
	*text.at = '\0';
}

static void log_text(struct text *text, char *start)
{
	put(text, "\n", 1);
	log_write(log_fd(), start, (size_t)(text->at - start));
}

static struct text begin_line(char line[LINE])
{
	struct text text = {line, line + LINE - 1};

	put_string(&text, "whitecap worker ");
	put_number(&text, (uint64_t)getpid(), 10);
	put_string(&text, " fault: ");
	return text;
}

static void log_registers(void *context)
{
#ifdef __x86_64__
	static const struct {
		int index;
		const char *name;
	} registers[] = {{REG_RIP, "rip"}, {REG_RSP, "rsp"}, {REG_RBP, "rbp"}, {REG_RAX, "rax"},
			 {REG_RBX, "rbx"}, {REG_RCX, "rcx"}, {REG_RDX, "rdx"}, {REG_RSI, "rsi"},
			 {REG_RDI, "rdi"}, {REG_R8, "r8"},   {REG_R9, "r9"},   {REG_R10, "r10"},
			 {REG_R11, "r11"}, {REG_R12, "r12"}, {REG_R13, "r13"}, {REG_R14, "r14"},
			 {REG_R15, "r15"}};
	const ucontext_t *state = context;
	char line[LINE];
	struct text text = begin_line(line);

	for (size_t i = 0; i < sizeof registers / sizeof *registers; i++) {
		put_string(&text, registers[i].name);
		put_string(&text, "=");
		put_number(&text, (uint64_t)state->uc_mcontext.gregs[registers[i].index], 16);
		put_string(&text, " ");
	}
	log_text(&text, line);
#else
	(void)context;
#endif
}

/* object(function+offset), or object+offset where the function has no exported name. */
static void log_frame(int number, void *address)
{
	char line[LINE];
	struct text text = begin_line(line);
	Dl_info info;

	put_string(&text, "#");
	put_number(&text, (uint64_t)number, 10);
	put_string(&text, " ");
	put_number(&text, (uint64_t)(uintptr_t)address, 16);
	if (dladdr(address, &info) && info.dli_fname) {
		const void *base = info.dli_sname ? info.dli_saddr : info.dli_fbase;

		put_string(&text, " ");
		put_string(&text, info.dli_fname);
		put_string(&text, info.dli_sname ? " " : "");
		put_string(&text, info.dli_sname ? info.dli_sname : "");
		put_string(&text, "+");
		put_number(&text, (uint64_t)((const char *)address - (const char *)base), 16);
	}
	log_text(&text, line);
}

static void log_backtrace(void)
{
	void *frames[FRAMES_MAX];
	int count = backtrace(frames, FRAMES_MAX);

	for (int i = 0; i < count; i++)
		log_frame(i, frames[i]);
}

/* The registers first: backtrace() itself may fault, on a smashed stack. */
static void log_state(void *context)
{
	if (context)
		log_registers(context);
	log_backtrace();
}

void fault_report(const struct fault_cause *cause, const struct engine *engine, void *context)
{
	char line[LINE];
	struct text text = begin_line(line);

	put_cause(&text, cause);
	if (engine->running)
		put_request(&text, engine->running);
	log_text(&text, line);
	if (context)
		log_state(context);
}

void fault_report_thread(const struct fault_cause *cause, void *context)
{
	char line[LINE];
	struct text text = begin_line(line);

	put_string(&text, "in thread ");
	put_number(&text, (uint64_t)cause->thread, 10);
	log_text(&text, line);
	log_registers(context);
}
