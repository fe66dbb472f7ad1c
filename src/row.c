/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "row.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ipc.h"
#include "launch.h"
#include "log.h"

enum {
	HANDOVER_MS = 4000, /* what a dying worker may take to hand over, and to answer who made it die */
	KILL_AGAIN_MS = 1000,
	ADMIN_AFTER_MS = 100, /* at the start, unless the workers serve before */
	MESSAGES_PER_TURN = 16,
	CULPRIT_MAX = 256, /* octets of a handler's name in a message */
};

static void feed(struct row *row, enum slot_event event, const char *reason);

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t alive_ms(const struct row *row)
{
	return (now_ns() - row->started_ns) / 1000000;
}

static struct scoreboard_slot *slot_of(const struct row *row)
{
	return &row->rows->scoreboard->slot[row->slot];
}

static struct restart *restart_of(const struct row *row)
{
	return &row->generation->restart[row->number];
}

const char *row_name(const struct row *row)
{
	static char name[32];

	if (row->number == ROW_PROVER)
		return "proving child";
	if (row->number == ROW_ADMIN)
		return "admin";
	snprintf(name, sizeof name, "worker %u", row->number);
	return name;
}

static void set_timer(struct row *row, uint64_t ms)
{
	ev_now_update(row->rows->loop);
	ev_timer_stop(row->rows->loop, &row->timer);
	ev_timer_set(&row->timer, (double)ms / 1000, 0.);
	ev_timer_start(row->rows->loop, &row->timer);
}

/* A proving child is no worker, and not shown as one: nobody looks through the slots up to its
 * own. */
static void publish(struct row *row)
{
	struct scoreboard_slot *slot = slot_of(row);

	if (row->number == ROW_PROVER)
		return;
	scoreboard_extend(row->rows->scoreboard, row->slot);
	atomic_store(&slot->number, row->number);
	atomic_store(&slot->state, row->state);
	atomic_store(&slot->generation, row->generation ? row->generation->number : 0);
	atomic_store(&slot->started_ns, row->pid ? row->started_ns : 0);
	atomic_store(&slot->pid, row->pid);
}

/* The past of a number, into the slots of all rows that have it. */
static void publish_history(struct rows *rows, unsigned number)
{
	const struct row_history *history = &rows->history[number];

	for (unsigned i = 1; i < SCOREBOARD_SLOTS; i++) {
		struct scoreboard_slot *slot = &rows->scoreboard->slot[i];

		if (rows->row[i].state == SLOT_EMPTY || rows->row[i].number != number)
			continue;
		atomic_store(&slot->restarts, history->restarts);
		memcpy(slot->last_exit, history->last_exit, sizeof slot->last_exit);
	}
}

static void note_end(struct row *row, bool clean)
{
	restart_of(row)->served = row->was_ready;
	restart_note_end(restart_of(row), now_ns() / 1000000, alive_ms(row), clean);
	row->rows->history[row->number].restarts++;
	publish_history(row->rows, row->number);
}

/* The actions. */

static void rest(struct row *row)
{
	(void)row;
}

static void cannot_spawn(struct row *row, const char *call)
{
	char reason[128];

	snprintf(reason, sizeof reason, "%s cannot be started: %s: %s", row_name(row), call,
		 strerror(errno));
	if (row->generation->serving)
		log_error("%s", reason);
	row->started_ns = now_ns();
	note_end(row, false);
	feed(row, SLOT_EXIT, reason);
}

static void clear_slot(struct row *row)
{
	struct scoreboard_slot *slot = slot_of(row);

	atomic_store(&slot->active, 0);
	atomic_store(&slot->busy, 0);
	atomic_store(&slot->accepting, 0);
}

static void spawn(struct row *row)
{
	int pair[2];

	if (ipc_open(pair) < 0) {
		cannot_spawn(row, "socketpair");
		return;
	}
	clear_slot(row);
	atomic_store(&slot_of(row)->used, 1);
	row->was_ready = row->asked = false;
	row->told = row_goes(row);
	row->started_ns = now_ns();
	row->pid = launch_child(row, pair[1]);
	close(pair[1]);
	if (row->pid < 0) {
		row->pid = 0;
		close(pair[0]);
		cannot_spawn(row, "fork");
		return;
	}
	row->ipc = pair[0];
	ev_io_set(&row->on_message, row->ipc, EV_READ);
	ev_io_start(row->rows->loop, &row->on_message);
	if (!row_waits(row))
		set_timer(row, row->generation->config->start_ms);
	publish(row);
}

static void serve(struct row *row)
{
	ev_timer_stop(row->rows->loop, &row->timer);
	row->was_ready = true;
	if (row->number != ROW_ADMIN)
		row->generation->failed_starts = 0;
	if (row->number == ROW_PROVER)
		row->generation->proven = true;
	if (!row->told && (row->generation->serving || row->generation->trial))
		row_go(row);
}

/* The admin process is to tell that the workers do not serve, not to be why. */
static uint64_t wait_ms(const struct row *row, uint64_t limit_ms)
{
	uint64_t ms = restart_wait(restart_of(row), now_ns() / 1000000, limit_ms);
	bool is_early = row->number == ROW_ADMIN && !row->generation->serving;

	return is_early && ms < ADMIN_AFTER_MS ? ADMIN_AFTER_MS : ms;
}

/* A process of the program before this one has no successor. */
static void wait_for_restart(struct row *row)
{
	if (row->generation->foreign) {
		feed(row, SLOT_DRAIN, NULL);
		return;
	}
	set_timer(row, wait_ms(row, RESTART_MAX_MS));
}

static void replace(struct row *row)
{
	note_end(row, false);
	set_timer(row, HANDOVER_MS);
}

static void terminate(struct row *row)
{
	kill(row->pid, SIGTERM);
	set_timer(row, row->generation->config->drain_ms);
}

static void kill_now(struct row *row)
{
	kill(row->pid, SIGKILL);
	set_timer(row, KILL_AGAIN_MS);
}

static void forget_row(struct row *row)
{
	ev_timer_stop(row->rows->loop, &row->timer);
	row->generation->rows--;
	row->generation = NULL;
	publish(row);
}

static void (*const actions[SLOT_ACTION_COUNT])(struct row *) = {
	[SLOT_REST] = rest,       [SLOT_SPAWN] = spawn,
	[SLOT_SERVE] = serve,     [SLOT_WAIT] = wait_for_restart,
	[SLOT_REPLACE] = replace, [SLOT_TERM] = terminate,
	[SLOT_KILL] = kill_now,   [SLOT_FORGET] = forget_row,
};

/* A worker that ends before its generation serves has failed to start, also when it was ready. */
static bool has_failed(const struct row *row, enum slot_event event, enum slot_state next)
{
	if (row->number == ROW_ADMIN) /* its trouble is nobody else's */
		return false;
	if (row->state == SLOT_STARTING)
		return next == SLOT_FAILING || next == SLOT_BACKOFF;
	return row->state == SLOT_READY && row->number != ROW_PROVER && !row->generation->serving &&
	       (event == SLOT_FAULT || event == SLOT_EXIT);
}

/* For the master to decide on.  Ends are in the log already; before it serves, the master says why
 * not. */
static void note_failure(struct row *row, enum slot_event event, const char *reason)
{
	generation_note_failure(row->generation, reason);
	if (row->number == ROW_PROVER)
		row->generation->refused = true;
	if (row->generation->serving && event != SLOT_EXIT)
		log_error("%s", reason);
}

static void feed(struct row *row, enum slot_event event, const char *reason)
{
	struct slot_step step = slot_step(row->state, event);

	assert(step.action != SLOT_IMPOSSIBLE);
	if (has_failed(row, event, step.next))
		note_failure(row, event, reason);
	row->state = step.next;
	publish(row);
	actions[step.action](row);
}

/* The facts. */

/* Whose init or fini a proving child was in, as it noted itself. */
static void name_culprit(const struct row *row, char *text, size_t size)
{
	uint32_t place = atomic_load(&slot_of(row)->proving);

	if (place > 0 && place <= row->generation->config->route_count)
		snprintf(text, size, "routes[%u].handler: \"%.*s\"", place - 1, CULPRIT_MAX,
			 row->generation->config->routes[place - 1].handler);
	else
		snprintf(text, size, "a handler");
}

static void on_timer(struct ev_loop *loop, struct ev_timer *timer, int events)
{
	struct row *row = timer->data;
	char reason[CULPRIT_MAX + 128] = "", culprit[CULPRIT_MAX + 64];
	double seconds = (double)row->generation->config->start_ms / 1000;

	(void)loop;
	(void)events;
	if (row->state == SLOT_STARTING && row->number == ROW_PROVER) {
		name_culprit(row, culprit, sizeof culprit);
		snprintf(reason, sizeof reason, "%s hangs in init or fini: not done within %g s",
			 culprit, seconds);
	} else if (row->state == SLOT_STARTING) {
		snprintf(reason, sizeof reason, "%s (%d) was not ready within %g s", row_name(row),
			 (int)row->pid, seconds);
	}
	if (row->state == SLOT_DRAINING || row->state == SLOT_DYING)
		log_warn("%s (%d) was not done at its deadline: killed", row_name(row),
			 (int)row->pid);
	feed(row, SLOT_TIMER, reason);
}

static void on_text(struct row *row, const struct ipc_message *message)
{
	static const struct {
		bool known;
		enum slot_event event;
	} events[] = {
		[IPC_READY] = {true, SLOT_UP},
		[IPC_FAILED] = {true, SLOT_FAULT},
		[IPC_FAULT] = {true, SLOT_FAULT},
		[IPC_RECYCLE] = {true, SLOT_RECYCLE},
	};
	char reason[IPC_TEXT_MAX];

	if (message->type == IPC_PONG)
		row->asked = false;
	if (message->type >= sizeof events / sizeof *events || !events[message->type].known)
		return;
	/* A proving child's text says where in the configuration the mistake is. */
	if (row->number == ROW_PROVER)
		snprintf(reason, sizeof reason, "%s", message->text);
	else
		snprintf(reason, sizeof reason, "%s (%d): %.*s", row_name(row), (int)row->pid,
			 IPC_TEXT_MAX - 64, message->text);
	if (message->type == IPC_FAULT) {
		free(row->fault);
		row->fault = strndup(message->text, SCOREBOARD_EXIT_MAX - 64);
	}
	if (events[message->type].event == SLOT_FAULT && row_serves(row))
		log_error("%s", reason);
	if (message->type == IPC_RECYCLE)
		log_info("%s", reason);
	feed(row, events[message->type].event, reason);
}

/* False: nothing more to read now. */
static bool read_message(struct row *row)
{
	struct ipc_message message;
	int result = ipc_receive(row->ipc, &message);

	if (result < 0 && errno == EPROTO)
		return true;
	if (result < 0 && errno == EAGAIN)
		return false;
	if (result <= 0) {
		ev_io_stop(row->rows->loop, &row->on_message);
		return false;
	}
	for (uint32_t i = 0; i < message.fd_count; i++)
		close(message.fds[i]);
	on_text(row, &message);
	return true;
}

static void on_message(struct ev_loop *loop, struct ev_io *io, int events)
{
	struct row *row = io->data;

	(void)loop;
	if (events & EV_ERROR) { /* it would never be heard: so its time is over */
		log_error("the kernel has no room to watch what a child says");
		set_timer(row, 0);
		return;
	}
	for (int i = 0; i < MESSAGES_PER_TURN && read_message(row); i++)
		;
}

/* What it said before it ended.  Unread messages of ours make the first read fail, with its own
 * behind that. */
static void read_last_words(struct row *row)
{
	for (int i = 0; i < 2; i++)
		on_message(row->rows->loop, &row->on_message, EV_READ);
}

static void describe(int status, char *text, size_t size)
{
	int number = WTERMSIG(status);
	const char *name = WIFSIGNALED(status) ? sigabbrev_np(number) : NULL;

	if (WIFEXITED(status))
		snprintf(text, size, "exit code %d", WEXITSTATUS(status));
	else if (name)
		snprintf(text, size, "killed by SIG%s%s", name,
			 WCOREDUMP(status) ? ", core dumped" : "");
	else
		snprintf(text, size, "killed by signal %d%s", number,
			 WCOREDUMP(status) ? ", core dumped" : "");
}

static bool is_crash(int status)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};

	for (size_t i = 0; WIFSIGNALED(status) && i < sizeof faults / sizeof *faults; i++)
		if (faults[i] == WTERMSIG(status))
			return true;
	return false;
}

/* Who ended as it was asked to leaves the end of the one before to be seen. */
static void note_last_exit(struct row *row, int status, const char *how)
{
	struct row_history *history = &row->rows->history[row->number];
	bool asked = row->state == SLOT_DRAINING || row->state == SLOT_KILLING;

	if (asked && !is_crash(status))
		return;
	snprintf(history->last_exit, sizeof history->last_exit, "%.60s%s%.*s", how,
		 row->fault ? ": " : "", SCOREBOARD_EXIT_MAX - 64, row->fault ? row->fault : "");
	publish_history(row->rows, row->number);
}

/* Whatever it died of in the end.  A hang is counted by who found it. */
static bool has_crashed(const struct row *row, int status)
{
	static const char hang[] = "hang";

	if (row->fault && strncmp(row->fault, hang, sizeof hang - 1) == 0)
		return false;
	return is_crash(status) || row->fault;
}

/* Its connections went with it: they are counted, and their share of the limit is free again. */
static void account(struct row *row, int status, const char *how)
{
	struct scoreboard_slot *slot = slot_of(row), *own = row->rows->scoreboard->slot;

	if (row->number != ROW_ADMIN)
		scoreboard_add(&own->counter[COUNTER_lost], atomic_load(&slot->active));
	if (row->number != ROW_ADMIN && has_crashed(row, status))
		scoreboard_add(&own->counter[COUNTER_crash], 1);
	clear_slot(row);
	note_last_exit(row, status, how);
	free(row->fault);
	row->fault = NULL;
}

/* A process that was asked to leave, and one that has been proven and is done, end as they should.
 */
static void log_end(const struct row *row, int status, const char *how)
{
	bool asked = row->state == SLOT_DRAINING || row->state == SLOT_KILLING;
	bool is_worker = row->number != ROW_PROVER && !row_waits(row);
	enum log_level level = LOG_ERROR;

	if (asked || status == 0)
		level = is_worker ? LOG_INFO : LOG_DEBUG;
	log_line(level, "%s (%d) ended: %s, generation %u, after %.3f s", row_name(row),
		 (int)row->pid, how, row->generation->number, (double)alive_ms(row) / 1000);
}

static void on_exit_of(struct row *row, int status)
{
	char how[128], reason[CULPRIT_MAX + 256], culprit[CULPRIT_MAX + 64];

	read_last_words(row);
	describe(status, how, sizeof how);
	log_end(row, status, how);
	account(row, status, how);
	if (row->number == ROW_PROVER && is_crash(status)) {
		name_culprit(row, culprit, sizeof culprit);
		snprintf(reason, sizeof reason, "%s crashed in init or fini: %s", culprit, how);
	} else if (row->number == ROW_PROVER && row->state == SLOT_STARTING) {
		name_culprit(row, culprit, sizeof culprit);
		snprintf(reason, sizeof reason, "%s ended the process in init or fini: %s", culprit,
			 how);
	} else {
		snprintf(reason, sizeof reason, "%s (%d) ended%s: %s", row_name(row),
			 (int)row->pid, row->generation->trial ? "" : " before it served", how);
	}
	ev_io_stop(row->rows->loop, &row->on_message);
	close(row->ipc);
	row->pid = 0;
	if (slot_step(row->state, SLOT_EXIT).next == SLOT_BACKOFF)
		note_end(row, status == 0);
	feed(row, SLOT_EXIT, reason);
}

void rows_reap(struct rows *rows)
{
	int status;

	/* By pid: children that a library started are not ours to wait for. */
	for (unsigned i = 1; i < SCOREBOARD_SLOTS; i++) {
		struct row *row = &rows->row[i];

		if (row->pid > 0 && waitpid(row->pid, &status, WNOHANG) == row->pid)
			on_exit_of(row, status);
	}
}

/* What the master wants. */

void rows_init(struct rows *rows)
{
	for (unsigned i = 0; i < SCOREBOARD_SLOTS; i++) {
		struct row *row = &rows->row[i];

		*row = (struct row){.rows = rows, .slot = i, .state = SLOT_EMPTY, .ipc = -1};
		ev_init(&row->on_message, on_message);
		ev_init(&row->timer, on_timer);
		row->on_message.data = row->timer.data = row;
	}
}

unsigned rows_free(const struct rows *rows)
{
	unsigned count = 0;

	for (unsigned i = 1; i < SCOREBOARD_ADMIN; i++)
		count += rows->row[i].state == SLOT_EMPTY;
	return count;
}

/*
 * The lowest free row for a worker, the highest for a proving child: its counters go to slots where
 * they are not in the way.
 */
static struct row *find_free(struct rows *rows, unsigned number)
{
	unsigned first = number == ROW_ADMIN ? SCOREBOARD_ADMIN : 1;
	unsigned end = number == ROW_ADMIN ? SCOREBOARD_SLOTS : SCOREBOARD_ADMIN;
	struct row *found = NULL;

	for (unsigned i = first; i < end; i++)
		if (rows->row[i].state == SLOT_EMPTY && (number == ROW_PROVER || !found))
			found = &rows->row[i];
	return found;
}

int rows_start(struct rows *rows, struct generation *generation, unsigned number)
{
	struct row *row = find_free(rows, number);

	if (!row)
		return -1;
	row->generation = generation;
	row->number = number;
	row->was_ready = generation->restart[number]
				 .served; /* one that crashed is replaced in another row */
	generation->rows++;
	feed(row, SLOT_START, NULL);
	publish_history(rows, number);
	return 0;
}

bool row_describe(const struct row *row, struct upgrade_row *left)
{
	struct ev_loop *loop = row->rows->loop;

	if (row->pid == 0)
		return false;
	*left = (struct upgrade_row){
		.slot = row->slot,
		.number = row->number,
		.generation = row->generation->number,
		.state = row->state,
		.was_ready = row->was_ready,
		.pid = row->pid,
		.ipc = row->ipc,
		.started_ns = row->started_ns,
	};
	if (ev_is_active(&row->timer)) {
		double ms = ev_timer_remaining(loop, (struct ev_timer *)&row->timer) * 1000;

		left->left_ms = ms < 1 ? 1 : (uint64_t)ms;
	}
	return true;
}

void rows_adopt(struct rows *rows, struct generation *generation, const struct upgrade_row *left)
{
	struct row *row = &rows->row[left->slot];

	row->number = left->number;
	row->generation = generation;
	row->state = left->state;
	row->was_ready = left->was_ready;
	row->pid = left->pid;
	row->ipc = left->ipc;
	row->started_ns = left->started_ns;
	generation->rows++;
	ev_io_set(&row->on_message, row->ipc, EV_READ);
	ev_io_start(rows->loop, &row->on_message);
	if (left->left_ms > 0)
		set_timer(row, left->left_ms);
	atomic_store(&slot_of(row)->used, 1);
	publish(row);
	publish_history(rows, row->number);
}

bool row_serves(const struct row *row)
{
	return row->state == SLOT_READY || row->state == SLOT_LEAVING;
}

bool row_is_wanted(const struct row *row)
{
	return row->state == SLOT_STARTING || row->state == SLOT_READY ||
	       row->state == SLOT_FAILING || row->state == SLOT_BACKOFF;
}

/* One question at a time: they must not fill the queue of a worker that stands still.  Those of the
 * program before this one may not know it. */
bool row_answers(struct row *row)
{
	bool answers = row->generation->foreign || !row->asked;

	if (!row->generation->foreign && !row->asked)
		row->asked = ipc_send(row->ipc, IPC_PING, NULL, NULL, 0) == 0;
	return answers;
}

void row_drain(struct row *row)
{
	if (row->state != SLOT_EMPTY)
		feed(row, SLOT_DRAIN, NULL);
}

/* One that leaves already is asked again: now it has to close what it could have given away. */
void row_stop(struct row *row)
{
	if (row->state == SLOT_DRAINING)
		kill(row->pid, SIGTERM);
	else
		row_drain(row);
}

void row_kill(struct row *row)
{
	row_drain(row);
	if (row->state != SLOT_EMPTY && row->state != SLOT_KILLING)
		feed(row, SLOT_TIMER, NULL);
}

void row_go(struct row *row)
{
	if (row->state != SLOT_READY || ipc_send(row->ipc, IPC_GO, NULL, NULL, 0) == 0)
		return;
	if (errno == EPIPE) /* it has died meanwhile */
		return;
	/* Without it the worker would be up and never serve. */
	log_error("%s (%d) cannot be told to serve: %s", row_name(row), (int)row->pid,
		  strerror(errno));
	kill(row->pid, SIGKILL);
}

bool row_waits(const struct row *row)
{
	return row->number < ROW_ADMIN && !row->generation->proven;
}

void row_proven(struct row *row)
{
	if (row->number >= ROW_ADMIN || row->state != SLOT_STARTING)
		return;
	set_timer(row, row->generation->config->start_ms);
	if (ipc_send(row->ipc, IPC_PROVEN, NULL, NULL, 0) < 0 && errno != EPIPE)
		kill(row->pid, SIGKILL);
}

/* The admin process answers from the start on, to tell that the others do not. */
bool row_goes(const struct row *row)
{
	return row->generation->serving || row->number == ROW_ADMIN;
}

void row_hurry(struct row *row)
{
	if (row->state == SLOT_BACKOFF)
		set_timer(row, wait_ms(row, row->was_ready ? RESTART_SERVED_MS : RESTART_FIRST_MS));
}

void row_farewell(struct row *row)
{
	if (row_serves(row))
		ipc_send(row->ipc, IPC_FAREWELL, NULL, NULL, 0);
}

void row_reopen(struct row *row)
{
	int fds[2] = {log_fd(), row->generation->access_log};

	if (ipc_send(row->ipc, IPC_REOPEN, NULL, fds, fds[1] < 0 ? 1 : 2) < 0)
		log_warn("%s (%d) still writes to the old log files: %s", row_name(row),
			 (int)row->pid, strerror(errno));
}
