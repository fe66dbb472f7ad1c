/* SPDX-License-Identifier: MIT */
/* What a process says, and what time says of it. */
#include "autoconf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc.h"
#include "log.h"
#include "row_parts.h"

enum { MESSAGES_PER_TURN = 16 };

const char *row_proving_step(const struct row *row)
{
	switch (atomic_load(&row_slot(row)->proving_step)) {
	case PROVING_INIT:
		return "in init";
	case PROVING_FINI:
		return "in fini";
	default:
		return "while it was loaded (is the file whole?)";
	}
}

void row_name_culprit(const struct row *row, char *text, size_t size)
{
	uint32_t place = atomic_load(&row_slot(row)->proving);

	if (place > 0 && place <= row->generation->config->route_count)
		snprintf(text, size, "routes[%u].handler: \"%.*s\"", place - 1, ROW_CULPRIT_MAX,
			 row->generation->config->routes[place - 1].handler);
	else
		snprintf(text, size, "a handler");
}

static void on_timer(struct ev_loop *loop, struct ev_timer *timer, int events)
{
	struct row *row = timer->data;
	char reason[ROW_CULPRIT_MAX + 256] = "", culprit[ROW_CULPRIT_MAX + 64];
	double seconds = (double)row->generation->config->start_ms / 1000;

	(void)loop;
	(void)events;
	if (row->state == SLOT_STARTING && row->number == ROW_PROVER) {
		row_name_culprit(row, culprit, sizeof culprit);
		snprintf(reason, sizeof reason, "%s hangs %s: not done within %g s", culprit,
			 row_proving_step(row), seconds);
	} else if (row->state == SLOT_STARTING) {
		snprintf(reason, sizeof reason, "%s (%d) was not ready within %g s", row_name(row),
			 (int)row->pid, seconds);
	}
	if (row->state == SLOT_DRAINING || row->state == SLOT_DYING)
		log_warn("%s (%d) was not done at its deadline: killed", row_name(row),
			 (int)row->pid);
	row_feed(row, SLOT_TIMER, reason);
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
	row_feed(row, events[message->type].event, reason);
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

/* It would never be heard: so its time is over.  One that is about to end anyway is not needed. */
static void on_unheard(struct row *row)
{
	log_error("the kernel has no room to watch what a child says");
	if (row->state == SLOT_READY || row->state == SLOT_LEAVING)
		row_drain(row);
	else if (row->state == SLOT_STARTING)
		row_set_timer(row, 0);
}

static void on_message(struct ev_loop *loop, struct ev_io *io, int events)
{
	struct row *row = io->data;

	(void)loop;
	if (events & EV_ERROR) {
		on_unheard(row);
		return;
	}
	for (int i = 0; i < MESSAGES_PER_TURN && read_message(row); i++)
		;
}

/* What it said before it ended.  Unread messages of ours make the first read fail, with its own
 * behind that. */
void row_read_last_words(struct row *row)
{
	for (int i = 0; i < 2; i++)
		on_message(row->rows->loop, &row->on_message, EV_READ);
}

void row_watch_init(struct row *row)
{
	ev_init(&row->on_message, on_message);
	ev_init(&row->timer, on_timer);
	row->on_message.data = row->timer.data = row;
}
