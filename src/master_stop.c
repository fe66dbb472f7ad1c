/* SPDX-License-Identifier: MIT */
/* The end of the server: first it may only be announced, then its processes are told. */
#include "autoconf.h"

#include <unistd.h>

#include "exchange.h"
#include "log.h"
#include "master_parts.h"

static void announce(struct master *master)
{
	if (!master->stopping)
		master_notify_stopping(master);
	master->stopping = true;
	master->status.state = MASTER_STOPPING;
	upgrade_check_kill(&master->check);
}

/* It would start without a listener. */
static void forget_waiting(struct row *row)
{
	if (row->state == SLOT_BACKOFF)
		row_drain(row);
}

void master_stop(struct master *master, void (*end)(struct row *))
{
	announce(master);
	ev_timer_stop(master->loop, &master->stop_delay);
	if (master->left_scoreboard_fd >= 0 && !master->leaving)
		scoreboard_stop(master->left_scoreboard_fd);
	if (master->leaving)
		listener_pool_keep(master->pool);
	else
		atomic_store(&master->rows.scoreboard->stopping, 1);
	master_each_row(master, NULL, end);
	/* Else one that is up answers until the workers have gone. */
	master_each_admin(master, NULL, end == row_kill ? row_kill : forget_waiting);
	/* The workers have the listeners still, and take what is in their queues. */
	for (struct generation *generation = master->all; generation; generation = generation->next)
		generation_retire(generation);
	master_canary_end(master);
}

/* First balancers look elsewhere, then clients that are busy leave by themselves. */
static void on_half_over(struct ev_loop *loop, struct ev_timer *timer, int events)
{
	struct master *master = timer->data;

	(void)loop, (void)events;
	if (master->farewell)
		master_stop(master, row_stop);
	else
		master_each_row(master, NULL, row_farewell);
	master->farewell = true;
}

void master_stop_init(struct master *master)
{
	ev_init(&master->stop_delay, on_half_over);
	master->stop_delay.data = master;
}

static void delay(struct master *master, uint64_t ms)
{
	announce(master);
	log_info("stopping in %g s: /readyz tells of it", (double)ms / 1000);
	ev_now_update(master->loop);
	ev_timer_set(&master->stop_delay, (double)ms / 2000, (double)ms / 2000);
	ev_timer_start(master->loop, &master->stop_delay);
}

/* Where connections go on in the next instance, nobody has to look elsewhere. */
void master_on_quit(struct master *master)
{
	uint64_t ms =
		master->active && !master->leaving ? master->active->config->drain_delay_ms : 0;

	if (!master->stopping && ms > 0)
		delay(master, ms);
	else if (!master->stopping || ev_is_active(&master->stop_delay))
		master_stop(master, row_stop);
	else
		master_stop(master, row_kill);
}

/* With a store, workers leave as if others would go on at once. */
void master_on_term(struct master *master)
{
	if (!master->stopping)
		master->leaving = master->rows.stored;
	master_on_quit(master);
}

/* Nobody is there any more to take what a worker gave away when it died. */
void master_answer_leftovers(struct master *master)
{
	static struct exchange_batch batch;
	struct scoreboard_slot *slot = &master->rows.scoreboard->slot[0];
	unsigned answered;

	if (master->leaving || master->rows.exchange.take < 0)
		return;
	while (exchange_receive(master->rows.exchange.take, &batch) > 0) {
		answered = exchange_send_output(&batch);
		scoreboard_add(&slot->counter[COUNTER_close], answered);
		scoreboard_add(&slot->counter[COUNTER_lost], exchange_count(&batch) - answered);
		for (unsigned i = 0; i < batch.fd_count; i++)
			close(batch.fds[i]);
	}
}

void master_on_int(struct master *master)
{
	master_stop(master, row_kill);
}
