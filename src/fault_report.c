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

enum {
	FRAMES_MAX = 48,
	TARGET_SHOWN = 200,
	BODY_SHOWN = 4096, /* of a body, in lines of so many octets: */
	BODY_LINE = 512,
	LINE = 3072,
};

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

/* As it is, or as \xNN. */
static void put_octet(struct text *text, char octet)
{
	static const char hex[] = "0123456789abcdef";
	const char escaped[] = {'\\', 'x', hex[(unsigned char)octet >> 4], hex[octet & 15]};

	if (octet >= ' ' && octet < 127 && octet != '\\')
		put(text, &octet, 1);
	else
		put(text, escaped, sizeof escaped);
}

static const char *signal_name(int number)
{
	static const struct {
		int number;
		const char *name;
	} names[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
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
		put_string(text, "hang");
		return;
	}
	if (cause->is_exit) {
		put_string(text, "exit() called");
		return;
	}
	put_string(text, signal_name(cause->signal));
	if (cause->sender && cause->sender != getpid()) {
		put_string(text, " sent by process ");
		put_number(text, (uint64_t)cause->sender, 10);
	} else if (cause->code > 0 && cause->code != SI_KERNEL) {
		put_string(text, " at ");
		put_number(text, (uint64_t)(uintptr_t)cause->address, 16);
	}
}

/* The request whose handler the main thread was in; that of another thread is not known. */
static void put_place(struct text *text, const struct fault_cause *cause,
		      const struct engine *engine)
{
	if (cause->thread != engine->thread) {
		put_string(text, " in thread ");
		put_number(text, (uint64_t)cause->thread, 10);
	} else if (engine->running) {
		put_request(text, engine->running);
	} else if (cause->is_hang) {
		put_string(text, " in a callback of a handler");
	}
}

void fault_summary(const struct fault_cause *cause, const struct engine *engine,
		   char out[FAULT_SUMMARY_MAX])
{
	struct text text = {out, out + FAULT_SUMMARY_MAX - 1};

	memset(out, 0, FAULT_SUMMARY_MAX);
	put_cause(&text, cause);
	put_place(&text, cause, engine);
}

static struct text begin_line(char line[LINE])
{
	struct text text = {line, line + LINE - 1};

	put_string(&text, "fault: ");
	return text;
}

static void end_line(struct text *text, const char *line)
{
	*text->at = '\0';
	log_text(LOG_ERROR, line);
}

void fault_report_hand_over(unsigned unsent, int error, bool is_left)
{
	char line[LINE];
	struct text text = begin_line(line);

	if (unsent > 0) {
		put_number(&text, unsent, 10);
		put_string(&text, " connections were not taken by the exchange: ");
		put_string(&text, strerrordesc_np(error)); /* a table, no locale */
	} else if (is_left) {
		put_string(&text, "the hand-over was left before its end");
	} else {
		return;
	}
	end_line(&text, line);
}

void fault_report_registers(const void *context)
{
#ifdef __x86_64__
	static const struct {
		int index;
		const char *name;
	} registers[] = {{REG_RIP, "rip"}, {REG_RSP, "rsp"},   {REG_RBP, "rbp"}, {REG_RAX, "rax"},
			 {REG_RBX, "rbx"}, {REG_RCX, "rcx"},   {REG_RDX, "rdx"}, {REG_RSI, "rsi"},
			 {REG_RDI, "rdi"}, {REG_R8, "r8"},     {REG_R9, "r9"},   {REG_R10, "r10"},
			 {REG_R11, "r11"}, {REG_R12, "r12"},   {REG_R13, "r13"}, {REG_R14, "r14"},
			 {REG_R15, "r15"}, {REG_EFL, "eflags"}};
	const ucontext_t *state = context;
	char line[LINE];
	struct text text = begin_line(line);

	for (size_t i = 0; i < sizeof registers / sizeof *registers; i++) {
		put_string(&text, registers[i].name);
		put_string(&text, "=");
		put_number(&text, (uint64_t)state->uc_mcontext.gregs[registers[i].index], 16);
		put_string(&text, " ");
	}
	end_line(&text, line);
#else
	(void)context;
#endif
}

/* Where the interrupted code was; NULL: not known on this machine. */
static const void *interrupted_at(const void *context)
{
#ifdef __x86_64__
	return (const void *)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#else
	(void)context;
	return NULL;
#endif
}

static const void *object_of(const void *address)
{
	Dl_info info;

	return dladdr(address, &info) ? info.dli_fbase : NULL;
}

/*
 * The name of an object's file.  The program's own would be its title, and a handler's that of the
 * descriptor which it was loaded from.
 */
static const char *object_name(const struct engine *engine, const Dl_info *info)
{
	if (object_of((const void *)(uintptr_t)object_of) == info->dli_fbase)
		return "whitecap";
	for (size_t i = 0; engine->routes && i < routes_count(engine->routes); i++)
		if (object_of(routes_at(engine->routes, i)->handler) == info->dli_fbase)
			return engine->args->images[i].path;
	return info->dli_fname;
}

/*
 * "#1 0x7f... handler.so+0x1234 (function+0x12)".  What is not exported has no name here: the
 * offset in the object is what addr2line wants.  dladdr() takes the loader's lock, which this
 * thread may take again; another one's is waited for until the step's time is over.
 */
static void log_frame(const struct engine *engine, int number, void *address)
{
	char line[LINE];
	struct text text = begin_line(line);
	Dl_info info;

	put_string(&text, "#");
	put_number(&text, (uint64_t)number, 10);
	put_string(&text, " ");
	put_number(&text, (uint64_t)(uintptr_t)address, 16);
	if (dladdr(address, &info) && info.dli_fname) {
		put_string(&text, " ");
		put_string(&text, object_name(engine, &info));
		put_string(&text, "+");
		put_number(&text, (uint64_t)((char *)address - (char *)info.dli_fbase), 16);
		if (info.dli_sname) {
			put_string(&text, " (");
			put_string(&text, info.dli_sname);
			put_string(&text, "+");
			put_number(&text, (uint64_t)((char *)address - (char *)info.dli_saddr), 16);
			put_string(&text, ")");
		}
	}
	end_line(&text, line);
}

/* From the interrupted code on: what is above it is this report.  backtrace() was called at the
 * start, and needs no memory now. */
void fault_report_backtrace(const struct engine *engine, const void *context)
{
	void *frames[FRAMES_MAX];
	int count = backtrace(frames, FRAMES_MAX), first = 0;

	for (int i = 0; i < count && first == 0; i++)
		if (frames[i] == interrupted_at(context))
			first = i;
	for (int i = first; i < count; i++)
		log_frame(engine, i - first, frames[i]);
}

/* In lines of their own: a body may be longer than a line. */
static void log_body(const struct request *request)
{
	const char *body = request->buf + request->pos + request->http.head_len;
	size_t len =
		request->http.body_len < BODY_SHOWN ? (size_t)request->http.body_len : BODY_SHOWN;

	for (size_t at = 0; at < len; at += BODY_LINE) {
		char line[LINE];
		struct text text = begin_line(line);

		put_string(&text, "body: ");
		for (size_t i = at; i < len && i < at + BODY_LINE; i++)
			put_octet(&text, body[i]);
		end_line(&text, line);
	}
}

void fault_report(const struct fault_cause *cause, const struct engine *engine, const char *summary)
{
	char line[LINE];
	struct text text = begin_line(line);

	put_string(&text, summary);
	end_line(&text, line);
	if (cause->thread == engine->thread && engine->running && engine->config->log_crash_body)
		log_body(engine->running);
}

void fault_report_thread(const struct fault_cause *cause, const void *context)
{
	char line[LINE];
	struct text text = begin_line(line);

	put_cause(&text, cause);
	put_string(&text, " in thread ");
	put_number(&text, (uint64_t)cause->thread, 10);
	end_line(&text, line);
	fault_report_registers(context);
}
