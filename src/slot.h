/* SPDX-License-Identifier: MIT */
/*
 * Supervision as data: what becomes of a supervised process, and what is to be done, in each state
 * at each event.  Pure: whoever feeds an event carries the action out.
 *
 * There are two kill states, since the intent must outlive the kill: a process that ends in FAILING
 * is started again, one that ends in KILLING is not.
 */
#ifndef SLOT_H
#define SLOT_H

enum slot_state {
	SLOT_EMPTY,    /* no process, none wanted */
	SLOT_STARTING, /* forked, not ready yet */
	SLOT_READY,
	SLOT_LEAVING,  /* asked to be replaced; serves until another slot's process does */
	SLOT_DYING,    /* reported a fault, hands over; its replacement is another slot's */
	SLOT_FAILING,  /* did not get ready; wanted, but not this process */
	SLOT_BACKOFF,  /* no process; one is wanted after a pause, which may be none */
	SLOT_DRAINING, /* asked to leave */
	SLOT_KILLING,  /* told to leave */
	SLOT_STATE_COUNT
};

enum slot_event {
	SLOT_START, /* a process is wanted here */
	SLOT_UP,    /* the process says that it is ready */
	SLOT_RECYCLE, /* the process says that it has served long enough */
	SLOT_FAULT, /* the process says that it can't go on */
	SLOT_DRAIN, /* it is not wanted any more; may come again */
	SLOT_EXIT,  /* the process has ended, or could not be forked */
	SLOT_TIMER, /* the time that the last action set has passed */
	SLOT_EVENT_COUNT
};

enum slot_action {
	SLOT_IMPOSSIBLE, /* this event can't happen in this state */
	SLOT_REST,       /* nothing; a timer that runs goes on */
	SLOT_SPAWN,      /* fork, with a deadline for getting ready */
	SLOT_SERVE,      /* stop the timer; let it serve when all of its kind may */
	SLOT_WAIT,       /* set the timer to the restart's delay */
	SLOT_REPLACE,    /* have another slot take its place; set a deadline for the hand-over */
	SLOT_TERM,       /* SIGTERM, with the deadline for draining */
	SLOT_KILL,       /* SIGKILL; set the timer to look again */
	SLOT_FORGET,     /* stop the timer; the slot is free */
	SLOT_ACTION_COUNT
};

struct slot_step {
	enum slot_state next;
	enum slot_action action;
};

struct slot_step slot_step(enum slot_state state, enum slot_event event);

/* "starting", for logs and statistics. */
const char *slot_state_name(enum slot_state state);

#endif
