/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "slot.h"

static const struct slot_step steps[SLOT_STATE_COUNT][SLOT_EVENT_COUNT] = {
	[SLOT_EMPTY] = {
		[SLOT_START] = {SLOT_BACKOFF, SLOT_WAIT},
	},
	[SLOT_STARTING] = {
		[SLOT_UP] = {SLOT_READY, SLOT_SERVE},
		[SLOT_RECYCLE] = {SLOT_STARTING, SLOT_REST},
		[SLOT_FAULT] = {SLOT_FAILING, SLOT_REST},
		/* Without a connection there is nothing to drain. */
		[SLOT_DRAIN] = {SLOT_KILLING, SLOT_KILL},
		[SLOT_EXIT] = {SLOT_BACKOFF, SLOT_WAIT},
		[SLOT_TIMER] = {SLOT_FAILING, SLOT_KILL},
	},
	[SLOT_READY] = {
		[SLOT_UP] = {SLOT_READY, SLOT_REST},
		[SLOT_RECYCLE] = {SLOT_LEAVING, SLOT_REST},
		[SLOT_FAULT] = {SLOT_DYING, SLOT_REPLACE},
		[SLOT_DRAIN] = {SLOT_DRAINING, SLOT_TERM},
		[SLOT_EXIT] = {SLOT_BACKOFF, SLOT_WAIT},
	},
	[SLOT_LEAVING] = {
		[SLOT_UP] = {SLOT_LEAVING, SLOT_REST},
		[SLOT_RECYCLE] = {SLOT_LEAVING, SLOT_REST},
		[SLOT_FAULT] = {SLOT_DYING, SLOT_REPLACE},
		[SLOT_DRAIN] = {SLOT_DRAINING, SLOT_TERM},
		/* Whoever takes its place is started already, or is being looked for. */
		[SLOT_EXIT] = {SLOT_EMPTY, SLOT_FORGET},
	},
	[SLOT_DYING] = {
		[SLOT_UP] = {SLOT_DYING, SLOT_REST},
		[SLOT_RECYCLE] = {SLOT_DYING, SLOT_REST},
		[SLOT_FAULT] = {SLOT_DYING, SLOT_REST},
		/* It leaves already, and sooner than the deadline for draining. */
		[SLOT_DRAIN] = {SLOT_DYING, SLOT_REST},
		[SLOT_EXIT] = {SLOT_EMPTY, SLOT_FORGET},
		[SLOT_TIMER] = {SLOT_KILLING, SLOT_KILL},
	},
	[SLOT_FAILING] = {
		[SLOT_UP] = {SLOT_FAILING, SLOT_REST},
		[SLOT_RECYCLE] = {SLOT_FAILING, SLOT_REST},
		[SLOT_FAULT] = {SLOT_FAILING, SLOT_REST},
		[SLOT_DRAIN] = {SLOT_KILLING, SLOT_KILL},
		[SLOT_EXIT] = {SLOT_BACKOFF, SLOT_WAIT},
		[SLOT_TIMER] = {SLOT_FAILING, SLOT_KILL},
	},
	[SLOT_BACKOFF] = {
		[SLOT_DRAIN] = {SLOT_EMPTY, SLOT_FORGET},
		[SLOT_TIMER] = {SLOT_STARTING, SLOT_SPAWN},
	},
	[SLOT_DRAINING] = {
		[SLOT_UP] = {SLOT_DRAINING, SLOT_REST},
		[SLOT_RECYCLE] = {SLOT_DRAINING, SLOT_REST},
		[SLOT_FAULT] = {SLOT_DRAINING, SLOT_REST},
		[SLOT_DRAIN] = {SLOT_DRAINING, SLOT_REST},
		[SLOT_EXIT] = {SLOT_EMPTY, SLOT_FORGET},
		[SLOT_TIMER] = {SLOT_KILLING, SLOT_KILL},
	},
	[SLOT_KILLING] = {
		[SLOT_UP] = {SLOT_KILLING, SLOT_REST},
		[SLOT_RECYCLE] = {SLOT_KILLING, SLOT_REST},
		[SLOT_FAULT] = {SLOT_KILLING, SLOT_REST},
		[SLOT_DRAIN] = {SLOT_KILLING, SLOT_REST},
		[SLOT_EXIT] = {SLOT_EMPTY, SLOT_FORGET},
		[SLOT_TIMER] = {SLOT_KILLING, SLOT_KILL},
	},
};

struct slot_step slot_step(enum slot_state state, enum slot_event event)
{
	return steps[state][event];
}

const char *slot_state_name(enum slot_state state)
{
	static const char *const names[SLOT_STATE_COUNT] = {
		[SLOT_EMPTY] = "empty",       [SLOT_STARTING] = "starting",
		[SLOT_READY] = "ready",       [SLOT_LEAVING] = "leaving",
		[SLOT_DYING] = "dying",
		[SLOT_FAILING] = "failing",   [SLOT_BACKOFF] = "backoff",
		[SLOT_DRAINING] = "draining", [SLOT_KILLING] = "killing",
	};

	return names[state];
}
