/* SPDX-License-Identifier: MIT */
/* Every cell of the table, written out by hand, and what must hold whatever the cells are. */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdbool.h>
#include <string.h>

#include "slot.h"

/* Columns:        START, UP, RECYCLE, FAULT, DRAIN, EXIT, TIMER. */
static const struct slot_step expected[SLOT_STATE_COUNT][SLOT_EVENT_COUNT] = {
	{ /* EMPTY */
		{SLOT_BACKOFF, SLOT_WAIT},
		{0}, {0}, {0}, {0}, {0}, {0},
	},
	{ /* STARTING */
		{0},
		{SLOT_READY, SLOT_SERVE},
		{SLOT_STARTING, SLOT_REST},
		{SLOT_FAILING, SLOT_REST},
		{SLOT_KILLING, SLOT_KILL},
		{SLOT_BACKOFF, SLOT_WAIT},
		{SLOT_FAILING, SLOT_KILL},
	},
	{ /* READY */
		{0},
		{SLOT_READY, SLOT_REST},
		{SLOT_LEAVING, SLOT_REST},
		{SLOT_DYING, SLOT_REPLACE},
		{SLOT_DRAINING, SLOT_TERM},
		{SLOT_BACKOFF, SLOT_WAIT},
		{0},
	},
	{ /* LEAVING */
		{0},
		{SLOT_LEAVING, SLOT_REST},
		{SLOT_LEAVING, SLOT_REST},
		{SLOT_DYING, SLOT_REPLACE},
		{SLOT_DRAINING, SLOT_TERM},
		{SLOT_EMPTY, SLOT_FORGET},
		{0},
	},
	{ /* DYING */
		{0},
		{SLOT_DYING, SLOT_REST},
		{SLOT_DYING, SLOT_REST},
		{SLOT_DYING, SLOT_REST},
		{SLOT_DYING, SLOT_REST},
		{SLOT_EMPTY, SLOT_FORGET},
		{SLOT_KILLING, SLOT_KILL},
	},
	{ /* FAILING */
		{0},
		{SLOT_FAILING, SLOT_REST},
		{SLOT_FAILING, SLOT_REST},
		{SLOT_FAILING, SLOT_REST},
		{SLOT_KILLING, SLOT_KILL},
		{SLOT_BACKOFF, SLOT_WAIT},
		{SLOT_FAILING, SLOT_KILL},
	},
	{ /* BACKOFF */
		{0},
		{0},
		{0},
		{0},
		{SLOT_EMPTY, SLOT_FORGET},
		{0},
		{SLOT_STARTING, SLOT_SPAWN},
	},
	{ /* DRAINING */
		{0},
		{SLOT_DRAINING, SLOT_REST},
		{SLOT_DRAINING, SLOT_REST},
		{SLOT_DRAINING, SLOT_REST},
		{SLOT_DRAINING, SLOT_REST},
		{SLOT_EMPTY, SLOT_FORGET},
		{SLOT_KILLING, SLOT_KILL},
	},
	{ /* KILLING */
		{0},
		{SLOT_KILLING, SLOT_REST},
		{SLOT_KILLING, SLOT_REST},
		{SLOT_KILLING, SLOT_REST},
		{SLOT_KILLING, SLOT_REST},
		{SLOT_EMPTY, SLOT_FORGET},
		{SLOT_KILLING, SLOT_KILL},
	},
};

static const bool has_process[SLOT_STATE_COUNT] = {
	[SLOT_STARTING] = true, [SLOT_READY] = true,    [SLOT_LEAVING] = true,
	[SLOT_DYING] = true,    [SLOT_FAILING] = true,  [SLOT_DRAINING] = true, [SLOT_KILLING] = true,
};

static void test_every_cell(void)
{
	for (int state = 0; state < SLOT_STATE_COUNT; state++)
		for (int event = 0; event < SLOT_EVENT_COUNT; event++) {
			struct slot_step step = slot_step(state, event);

			CU_ASSERT_EQUAL(step.next, expected[state][event].next);
			CU_ASSERT_EQUAL(step.action, expected[state][event].action);
		}
}

static enum slot_state feed(enum slot_state state, enum slot_event event)
{
	struct slot_step step = slot_step(state, event);

	CU_ASSERT_NOT_EQUAL(step.action, SLOT_IMPOSSIBLE);
	return step.next;
}

static void test_every_state_can_be_emptied(void)
{
	for (int start = SLOT_EMPTY + 1; start < SLOT_STATE_COUNT; start++) {
		enum slot_state leaving = feed(start, SLOT_DRAIN);

		if (leaving == SLOT_EMPTY)
			continue;
		CU_ASSERT_EQUAL(feed(leaving, SLOT_EXIT), SLOT_EMPTY);
		CU_ASSERT_EQUAL(feed(feed(leaving, SLOT_TIMER), SLOT_EXIT), SLOT_EMPTY);
	}
}

/* What a child says and when it ends is not ours to choose: no such event may find a zero cell. */
static void test_no_child_can_surprise(void)
{
	static const enum slot_event events[] = {SLOT_UP, SLOT_RECYCLE, SLOT_FAULT, SLOT_EXIT,
						 SLOT_DRAIN};

	for (int state = 0; state < SLOT_STATE_COUNT; state++)
		for (size_t i = 0; has_process[state] && i < sizeof events / sizeof *events; i++)
			feed(state, events[i]);
}

/* An end, and nothing else, makes a slot lose its process; only SPAWN gives it one. */
static void test_processes_are_not_lost(void)
{
	for (int state = 0; state < SLOT_STATE_COUNT; state++)
		for (int event = 0; event < SLOT_EVENT_COUNT; event++) {
			struct slot_step step = slot_step(state, event);

			if (step.action == SLOT_IMPOSSIBLE)
				continue;
			CU_ASSERT_EQUAL(has_process[step.next],
					step.action == SLOT_SPAWN ||
						(has_process[state] && event != SLOT_EXIT));
		}
}

/* Signals go to processes only; a slot that is forgotten is empty, and no other is. */
static void test_actions_fit_states(void)
{
	for (int state = 0; state < SLOT_STATE_COUNT; state++)
		for (int event = 0; event < SLOT_EVENT_COUNT; event++) {
			struct slot_step step = slot_step(state, event);

			if (step.action == SLOT_TERM || step.action == SLOT_KILL)
				CU_ASSERT_TRUE(has_process[state]);
			if (step.action != SLOT_IMPOSSIBLE)
				CU_ASSERT_EQUAL(step.action == SLOT_FORGET, step.next == SLOT_EMPTY);
		}
}

/* Whoever may hang has a deadline: by its own action or by one that goes on. */
static void test_deadlines(void)
{
	for (int state = 0; state < SLOT_STATE_COUNT; state++) {
		bool has_deadline = slot_step(state, SLOT_TIMER).action != SLOT_IMPOSSIBLE;

		CU_ASSERT_EQUAL(has_deadline, state != SLOT_EMPTY && state != SLOT_READY &&
						      state != SLOT_LEAVING);
	}
}

/* The intent outlives the kill. */
static void test_intent(void)
{
	CU_ASSERT_EQUAL(feed(feed(SLOT_STARTING, SLOT_TIMER), SLOT_EXIT), SLOT_BACKOFF);
	CU_ASSERT_EQUAL(feed(feed(SLOT_STARTING, SLOT_DRAIN), SLOT_EXIT), SLOT_EMPTY);
	CU_ASSERT_EQUAL(feed(feed(feed(SLOT_STARTING, SLOT_TIMER), SLOT_DRAIN), SLOT_EXIT),
			SLOT_EMPTY);
}

static void test_names(void)
{
	for (int a = 0; a < SLOT_STATE_COUNT; a++)
		for (int b = 0; b < a; b++)
			CU_ASSERT_STRING_NOT_EQUAL(slot_state_name(a), slot_state_name(b));
	CU_ASSERT_STRING_EQUAL(slot_state_name(SLOT_READY), "ready");
}

CU_TestInfo slot_tests[] = {
	{"every cell", test_every_cell},
	{"every state can be emptied", test_every_state_can_be_emptied},
	{"no child can surprise", test_no_child_can_surprise},
	{"processes are not lost", test_processes_are_not_lost},
	{"actions fit states", test_actions_fit_states},
	{"deadlines", test_deadlines},
	{"the intent outlives the kill", test_intent},
	{"names", test_names},
	CU_TEST_INFO_NULL,
};
