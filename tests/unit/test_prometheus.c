/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "prometheus.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "stats_sample.h"

static char *written(const struct stats *stats)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	prometheus_write(out, stats);
	fclose(out);
	return text;
}

static bool has_line(const char *text, const char *line)
{
	size_t len = strlen(line);

	for (; *text; text += strcspn(text, "\n") + 1)
		if (strncmp(text, line, len) == 0 && text[len] == '\n')
			return true;
	return false;
}

static void test_zero(void)
{
	struct stats stats;
	char *text;

	stats_sample_open(&stats);
	text = written(&stats);
	CU_ASSERT(has_line(text, "# TYPE whitecap_requests_total counter"));
	CU_ASSERT(has_line(text, "whitecap_requests_total{worker=\"1\"} 0"));
	CU_ASSERT(has_line(text, "whitecap_timeout_total{worker=\"1\",kind=\"send\"} 0"));
	CU_ASSERT(has_line(text, "whitecap_state{state=\"serving\"} 1"));
	CU_ASSERT(has_line(text, "whitecap_loop_lag_seconds_sum{worker=\"1\"} 0"));
	CU_ASSERT_PTR_NULL(strstr(text, " nan"));
	CU_ASSERT_PTR_NULL(strstr(text, "worker=\"2\""));
	CU_ASSERT_EQUAL(text[strlen(text) - 1], '\n');
	free(text);
	stats_sample_close(&stats);
}

/* Each family has one TYPE, and nothing of another one among its samples. */
static void test_families_stand_together(void)
{
	struct stats stats;
	char *text, *rest, *line, family[128] = "", seen[8192] = " ";

	stats_sample_open(&stats);
	text = rest = written(&stats);
	while ((line = strsep(&rest, "\n")) && *line) {
		char word[130];

		if (sscanf(line, "# TYPE %127s", family) == 1) {
			snprintf(word, sizeof word, " %s ", family);
			CU_ASSERT_PTR_NULL(strstr(seen, word));
			strcat(seen, word + 1);
		} else if (line[0] != '#') {
			CU_ASSERT_EQUAL(strncmp(line, family, strlen(family)), 0);
		}
	}
	free(text);
	stats_sample_close(&stats);
}

static void test_labels_are_escaped(void)
{
	struct stats stats;
	char *text;

	stats_sample_open(&stats);
	text = written(&stats);
	CU_ASSERT(has_line(text, "whitecap_route_requests_total{route=\"/bid\\\"\\\\\\n\x7f\xef\xbf\xbd\","
				 "handler=\"/opt/b\xc3\xa9.so\",methods=\"\"} 0"));
	free(text);
	stats_sample_close(&stats);
}

static void test_histogram(void)
{
	struct stats stats;
	struct scoreboard *board;
	char *text;

	stats_sample_open(&stats);
	board = stats_sample_board(&stats);
	histogram_record(&board->latency[1].route[0].latency, 90000);
	histogram_record(&board->latency[1].route[0].latency, 3000000);
	text = written(&stats);
	CU_ASSERT(has_line(text, "whitecap_worker_request_duration_seconds_bucket{worker=\"1\",le=\"5e-05\"} 0"));
	CU_ASSERT(has_line(text, "whitecap_worker_request_duration_seconds_bucket{worker=\"1\",le=\"0.0001\"} 1"));
	CU_ASSERT(has_line(text, "whitecap_worker_request_duration_seconds_bucket{worker=\"1\",le=\"0.005\"} 2"));
	CU_ASSERT(has_line(text, "whitecap_worker_request_duration_seconds_bucket{worker=\"1\",le=\"+Inf\"} 2"));
	CU_ASSERT(has_line(text, "whitecap_worker_request_duration_seconds_count{worker=\"1\"} 2"));
	free(text);
	stats_sample_close(&stats);
}

static void test_big_numbers(void)
{
	struct stats stats;
	char *text;

	stats_sample_open(&stats);
	stats_sample_board(&stats)->slot[1].counter[COUNTER_bytes_out] = UINT64_MAX;
	text = written(&stats);
	CU_ASSERT(has_line(text, "whitecap_bytes_total{worker=\"1\",direction=\"out\"} 18446744073709551615"));
	free(text);
	stats_sample_close(&stats);
}

CU_TestInfo prometheus_tests[] = {
	{"zero", test_zero},
	{"families stand together", test_families_stand_together},
	{"labels are escaped", test_labels_are_escaped},
	{"histogram", test_histogram},
	{"big numbers", test_big_numbers},
	CU_TEST_INFO_NULL,
};
