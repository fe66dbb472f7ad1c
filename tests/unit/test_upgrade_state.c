/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "upgrade_state.h"

#include <CUnit/CUnit.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct upgrade_state *sample(void)
{
	struct upgrade_state *state = upgrade_state_new();

	state->pid = 4711;
	state->program = strdup("/usr/sbin/whitecap");
	state->config = strdup("{\"workers\": 2}");
	state->scoreboard = 4;
	state->give = 5;
	state->take = 6;
	state->log = 7;
	state->pidfile.path = strdup("/run/whitecap.pid");
	state->pidfile.fd = 8;
	state->pidfile.dev = 1;
	state->pidfile.ino = 99;
	state->upgrade_wanted = true;
	state->status = (struct master_status){.generation = 3, .workers = 2, .started = {100, 5},
					       .started_ns = 1234567890123, .reload_count = 2,
					       .reload_failed = 1, .reload_last = {200, 6}};
	/* Cut within its last character. */
	strcpy(state->status.reload_error, "no: \xc3");
	state->total[COUNTER_requests] = UINT64_C(1) << 40;
	state->row_count = 2;
	state->rows[0] = (struct upgrade_row){1, 0, 3, SLOT_READY, true, 4712, 9, 55, 0};
	state->rows[1] = (struct upgrade_row){254, 254, 2, SLOT_DRAINING, true, 4713, 10, 66, 777};
	state->history_count = 1;
	state->histories[0] = (struct upgrade_history){1, 5, "killed by SIGSEGV"};
	state->listeners = calloc(2, sizeof *state->listeners);
	state->listener_count = 2;
	state->listeners[0] = (struct upgrade_listener){strdup("unix:/run/w"), 11, false, false, 1, 2};
	state->listeners[1] = (struct upgrade_listener){strdup("fd:admin"), 12, true, true, 0, 0};
	state->passed = calloc(1, sizeof *state->passed);
	state->passed_count = 1;
	state->passed[0] = (struct upgrade_passed){strdup("admin"), 12};
	return state;
}

static struct upgrade_state *read_text(const char *text)
{
	struct err err;
	struct upgrade_state *state;

	err_init(&err);
	state = upgrade_state_read(text, strlen(text), &err);
	CU_ASSERT_EQUAL(err.count, state ? 0 : 1);
	return state;
}

static unsigned fds_seen;

static void see(int fd)
{
	fds_seen |= 1u << fd;
}

static void test_there_and_back(void)
{
	struct upgrade_state *state = sample(), *got;
	char *text = upgrade_state_write(state), *again;

	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	got = read_text(text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(got);
	again = upgrade_state_write(got);
	CU_ASSERT_STRING_EQUAL(text, again);
	CU_ASSERT_STRING_EQUAL(got->status.reload_error, "no: ?");
	CU_ASSERT_EQUAL(got->status.started_ns, 1234567890123);
	CU_ASSERT_EQUAL(got->total[COUNTER_requests], UINT64_C(1) << 40);
	CU_ASSERT_EQUAL(got->rows[1].state, SLOT_DRAINING);
	CU_ASSERT_EQUAL(got->rows[1].left_ms, 777);
	CU_ASSERT_EQUAL(got->access_log, -1);
	CU_ASSERT_TRUE(got->listeners[1].admin && got->listeners[1].passed);
	upgrade_state_each_fd(got, see);
	CU_ASSERT_EQUAL(fds_seen, 0x1ff0);
	upgrade_state_free(state);
	upgrade_state_free(got);
	free(text);
	free(again);
}

static void test_cut(void)
{
	struct upgrade_state *state = sample();
	char *text = upgrade_state_write(state);
	struct err err;

	for (size_t len = 0; len < strlen(text); len++) {
		err_init(&err);
		CU_ASSERT_PTR_NULL(upgrade_state_read(text, len, &err));
		CU_ASSERT_EQUAL(err.count, 1);
	}
	upgrade_state_free(state);
	free(text);
}

/* Whether it is read with another value of a key (NULL: without it). */
static bool is_read(const char *text, const char *list, const char *key, json_t *value)
{
	json_t *root = json_loads(text, 0, NULL), *object = root;
	struct upgrade_state *state;
	char *changed;

	if (list)
		object = json_object_get(root, list);
	if (json_is_array(object))
		object = json_array_get(object, 0);
	if (value)
		json_object_set_new(object, key, value);
	else
		CU_ASSERT_EQUAL(json_object_del(object, key), 0);
	changed = json_dumps(root, 0);
	state = read_text(changed);
	json_decref(root);
	free(changed);
	upgrade_state_free(state);
	return state != NULL;
}

static void test_missing_keys(void)
{
	static const char *const lists[] = {NULL,   "fds",     "pidfile",   "status",
					    "rows", "history", "listeners", "passed"};
	struct upgrade_state *sample_state = sample();
	char *text = upgrade_state_write(sample_state);
	json_t *root = json_loads(text, 0, NULL), *value;
	const char *key;

	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		json_t *object = lists[i] ? json_object_get(root, lists[i]) : root;

		if (json_is_array(object))
			object = json_array_get(object, 0);
		json_object_foreach(object, key, value)
			CU_ASSERT_FALSE(is_read(text, lists[i], key, NULL));
	}
	json_decref(root);
	upgrade_state_free(sample_state);
	free(text);
}

static void test_values(void)
{
	struct upgrade_state *state = sample();
	char *text = upgrade_state_write(state);

	CU_ASSERT_FALSE(is_read(text, NULL, "version", json_integer(UPGRADE_STATE_VERSION + 1)));
	CU_ASSERT_FALSE(is_read(text, NULL, "version", json_integer(0)));
	CU_ASSERT_FALSE(is_read(text, NULL, "rows", json_integer(0)));
	CU_ASSERT_FALSE(is_read(text, "fds", "take", json_integer(-1)));
	CU_ASSERT_FALSE(is_read(text, "status", "generation", json_integer(0)));
	CU_ASSERT_FALSE(is_read(text, "rows", "slot", json_integer(0)));
	CU_ASSERT_FALSE(is_read(text, "rows", "slot", json_integer(SCOREBOARD_SLOTS)));
	CU_ASSERT_FALSE(is_read(text, "rows", "number", json_integer(-1)));
	CU_ASSERT_FALSE(is_read(text, "rows", "pid", json_integer(0)));
	CU_ASSERT_FALSE(is_read(text, "rows", "state", json_string("happy")));
	CU_ASSERT_FALSE(is_read(text, "history", "number", json_integer(SCOREBOARD_SLOTS)));
	/* Of a newer program of the same version, and of one that counts something else. */
	CU_ASSERT_TRUE(is_read(text, NULL, "more", json_true()));
	CU_ASSERT_TRUE(is_read(text, "rows", "more", json_true()));
	CU_ASSERT_TRUE(is_read(text, "total", "more", json_integer(1)));
	CU_ASSERT_TRUE(is_read(text, "total", "requests", NULL));
	upgrade_state_free(state);
	free(text);
}

CU_TestInfo upgrade_state_tests[] = {
	{"what is written is read", test_there_and_back},
	{"cut at every octet", test_cut},
	{"every key is needed", test_missing_keys},
	{"values that can't be, and additions", test_values},
	CU_TEST_INFO_NULL,
};
