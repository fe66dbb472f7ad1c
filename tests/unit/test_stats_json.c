/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "stats_json.h"

#include <CUnit/CUnit.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "slot.h"
#include "stats_sample.h"

static char *text;

/* The JSON of the statistics, read again; NULL: it is none. */
static json_t *written(const struct stats *stats)
{
	size_t len;
	FILE *out = open_memstream(&text, &len);
	json_t *json;

	stats_json_write(out, stats);
	fclose(out);
	CU_ASSERT_EQUAL(text[len - 1], '\n');
	json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(json);
	return json;
}

static void done(json_t *json, struct stats *stats)
{
	json_decref(json);
	free(text);
	stats_sample_close(stats);
}

/* A member by its path: "workers.0.pid". */
static json_t *at(json_t *json, const char *path)
{
	char name[64];

	while (json && *path) {
		size_t len = strcspn(path, ".");

		snprintf(name, sizeof name, "%.*s", (int)len, path);
		json = json_is_array(json) ? json_array_get(json, strtoul(name, NULL, 10))
					   : json_object_get(json, name);
		path += len + (path[len] == '.');
	}
	return json;
}

static void test_zero(void)
{
	static const char *const zero[] = {
		"total.requests", "total.connections.active", "total.connections.idle",
		"total.responses.2xx", "total.bytes.in", "total.timeout.keepalive", "total.moved.in",
		"total.log_dropped", "workers.0.accept", "workers.0.restarts", "routes.0.requests",
		"routes.0.responses.5xx", "routes.0.shed", "listeners.0.accept", "reload.count"};
	static const char *const null[] = {"reload.error", "reload.last", "started",
					   "workers.0.last_exit", "listeners.0.queue"};
	struct stats stats;
	json_t *json;

	stats_sample_open(&stats);
	json = written(&stats);
	for (size_t i = 0; i < sizeof zero / sizeof *zero; i++)
		CU_ASSERT(json_is_integer(at(json, zero[i])) &&
			  json_integer_value(at(json, zero[i])) == 0);
	for (size_t i = 0; i < sizeof null / sizeof *null; i++)
		CU_ASSERT(json_is_null(at(json, null[i])));
	CU_ASSERT_EQUAL(json_number_value(at(json, "total.latency_us.p99")), 0);
	CU_ASSERT_EQUAL(json_real_value(at(json, "uptime_s")), 2.5);
	CU_ASSERT_STRING_EQUAL(json_string_value(at(json, "workers.0.state")), "ready");
	CU_ASSERT_EQUAL(json_array_size(at(json, "workers")), 1);
	done(json, &stats);
}

static void test_big_numbers(void)
{
	const uint64_t big = (1ull << 53) + 1;
	struct stats stats;
	struct scoreboard *board;
	json_t *json;

	stats_sample_open(&stats);
	board = stats_sample_board(&stats);
	board->slot[1].counter[COUNTER_bytes_out] = big;
	board->end = 3;
	board->slot[2].used = 1; /* somebody's who is gone: in the total, not shown */
	board->slot[2].counter[COUNTER_bytes_out] = 2;
	json = written(&stats);
	CU_ASSERT_EQUAL(json_integer_value(at(json, "workers.0.bytes.out")), (json_int_t)big);
	CU_ASSERT_EQUAL(json_integer_value(at(json, "total.bytes.out")), (json_int_t)big + 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "9007199254740993"));
	done(json, &stats);
}

static void test_texts_are_escaped(void)
{
	struct stats stats;
	struct scoreboard *board;
	json_t *json;

	stats_sample_open(&stats);
	board = stats_sample_board(&stats);
	strcpy(board->slot[1].last_exit, "killed by \x1b[31m\"SIG\"");
	strcpy(board->slot[1].user[0].route, SAMPLE_PATH);
	strcpy(board->slot[1].user[0].name, "a\"b\tc");
	board->slot[1].user[0].counter.value = 7;
	strcpy(stats.status.reload_error, "line\nline\xf0\x28");
	json = written(&stats);
	CU_ASSERT_STRING_EQUAL(json_string_value(at(json, "routes.0.path")),
			       "/bid\"\\\n\x7f\xef\xbf\xbd");
	CU_ASSERT_STRING_EQUAL(json_string_value(at(json, "routes.0.handler")), SAMPLE_HANDLER);
	CU_ASSERT_STRING_EQUAL(json_string_value(at(json, "workers.0.last_exit")),
			       "killed by \x1b[31m\"SIG\"");
	CU_ASSERT_STRING_EQUAL(json_string_value(at(json, "reload.error")), "line\nline\xef\xbf\xbd(");
	CU_ASSERT_EQUAL(json_integer_value(json_object_get(at(json, "routes.0.counters"), "a\"b\tc")),
			7);
	for (const char *c = text; *c; c++)
		CU_ASSERT((unsigned char)*c >= 0x20 || (*c == '\n' && !c[1]));
	done(json, &stats);
}

/* A gauge that is read between two stores never makes a negative number. */
static void test_idle(void)
{
	struct stats stats;
	struct scoreboard *board;
	json_t *json;

	stats_sample_open(&stats);
	board = stats_sample_board(&stats);
	board->slot[1].active = 5;
	board->slot[1].busy = 2;
	json = written(&stats);
	CU_ASSERT_EQUAL(json_integer_value(at(json, "total.connections.active")), 2);
	CU_ASSERT_EQUAL(json_integer_value(at(json, "total.connections.idle")), 3);
	json_decref(json);
	free(text);
	board->slot[1].busy = 6;
	json = written(&stats);
	CU_ASSERT_EQUAL(json_integer_value(at(json, "workers.0.connections.active")), 5);
	CU_ASSERT_EQUAL(json_integer_value(at(json, "workers.0.connections.idle")), 0);
	done(json, &stats);
}

static void test_times(void)
{
	struct stats stats;
	struct scoreboard *board;
	json_t *json;

	stats_sample_open(&stats);
	board = stats_sample_board(&stats);
	for (int i = 0; i < 100; i++)
		histogram_record(&board->latency[1].route[0].latency, 100000);
	histogram_record(&board->latency[1].route[SCOREBOARD_ROUTES].latency, 100000);
	board->slot[1].route[0].requests = 100;
	board->slot[1].route[0].responses[2] = 99;
	board->slot[1].route[0].responses[5] = 1;
	json = written(&stats);
	CU_ASSERT_DOUBLE_EQUAL(json_number_value(at(json, "total.latency_us.p50")), 100, 3);
	CU_ASSERT_DOUBLE_EQUAL(json_number_value(at(json, "routes.0.latency_us.mean")), 100, 3);
	CU_ASSERT_DOUBLE_EQUAL(json_number_value(at(json, "workers.0.latency_us.max")), 100, 3);
	CU_ASSERT_EQUAL(json_integer_value(at(json, "routes.0.responses.2xx")), 99);
	CU_ASSERT_EQUAL(json_integer_value(at(json, "routes.0.responses.5xx")), 1);
	done(json, &stats);
}

/* Admin processes are shown apart, and are in no total. */
static void test_admin(void)
{
	struct stats stats;
	struct scoreboard *board;
	json_t *json;

	stats_sample_open(&stats);
	board = stats_sample_board(&stats);
	board->slot[SCOREBOARD_ADMIN].used = 1;
	board->slot[SCOREBOARD_ADMIN].state = SLOT_READY;
	board->slot[SCOREBOARD_ADMIN].pid = 99;
	board->slot[SCOREBOARD_ADMIN].active = 3;
	board->slot[SCOREBOARD_ADMIN].counter[COUNTER_requests] = 3;
	json = written(&stats);
	CU_ASSERT_EQUAL(json_integer_value(at(json, "total.requests")), 0);
	CU_ASSERT_EQUAL(json_integer_value(at(json, "total.connections.active")), 0);
	CU_ASSERT_EQUAL(json_array_size(at(json, "workers")), 1);
	CU_ASSERT_EQUAL(json_integer_value(at(json, "admin.0.pid")), 99);
	done(json, &stats);
}

/* Two gave at the same time, others took then and shortly after, and another one had moved long before. */
static void test_last_move(void)
{
	struct stats stats;
	struct scoreboard *board;
	json_t *json;

	stats_sample_open(&stats);
	json = written(&stats);
	CU_ASSERT(json_is_null(at(json, "last_move")));
	done(json, &stats);
	stats_sample_open(&stats);
	board = stats_sample_board(&stats);
	board->end = 6;
	scoreboard_note_move(&board->slot[1], 1400000000, 50);
	scoreboard_note_move(&board->slot[2], 2980000000, 60);
	scoreboard_note_move(&board->slot[2], 2990000000, 4);
	scoreboard_note_move(&board->slot[3], 2990000000, 10);
	scoreboard_note_move(&board->slot[4], 2985000000, 0);
	scoreboard_note_move(&board->slot[5], 3000000000, 0);
	json = written(&stats);
	CU_ASSERT_EQUAL(json_integer_value(at(json, "last_move.count")), 74);
	CU_ASSERT_DOUBLE_EQUAL(json_number_value(at(json, "last_move.ms")), 20, 0.001);
	CU_ASSERT_DOUBLE_EQUAL(json_number_value(at(json, "last_move.ago_s")), 0.5, 0.001);
	done(json, &stats);
}

CU_TestInfo stats_json_tests[] = {
	{"last move", test_last_move},
	{"zero", test_zero},
	{"big numbers", test_big_numbers},
	{"texts are escaped", test_texts_are_escaped},
	{"idle connections", test_idle},
	{"times", test_times},
	{"admin processes", test_admin},
	CU_TEST_INFO_NULL,
};
