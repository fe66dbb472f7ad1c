/* SPDX-License-Identifier: MIT */
/* The list is in order of age whatever the order of starts, and the timer is set for the oldest. */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdbool.h>
#include <stdlib.h>

#include "timeouts.h"

extern CU_TestInfo timeouts_tests[];

#define MS 1000000ull

enum { COUNT = 200 };

static struct ev_loop *loop;
static struct timeout_list list;
static struct timeout timeouts[COUNT];
static uint64_t clock_ns;
static struct timeout *expired[COUNT];
static unsigned expired_count;

static uint64_t now(void *data)
{
	(void)data;
	return clock_ns;
}

static void on_expired(struct timeout *timeout, void *data)
{
	(void)data;
	expired[expired_count++] = timeout;
	timeout_stop(timeout);
}

static void begin(uint64_t length_ns)
{
	loop = ev_loop_new(EVFLAG_NOENV);
	clock_ns = 1000000000ull * 1000;
	expired_count = 0;
	for (int i = 0; i < COUNT; i++)
		timeouts[i] = (struct timeout){0};
	timeout_list_init(&list, loop, length_ns, now, on_expired, NULL);
}

static void end(void)
{
	timeout_list_stop(&list);
	ev_loop_destroy(loop);
}

static unsigned length(void)
{
	unsigned count = 0;
	uint64_t last = 0;

	for (struct timeout *at = list.ring.next; at != &list.ring; at = at->next) {
		CU_ASSERT(at->since_ns >= last);
		CU_ASSERT_PTR_EQUAL(at->next->prev, at);
		last = at->since_ns;
		count++;
	}
	return count;
}

static void test_order(void)
{
	static const uint64_t ages[][4] = {{4, 3, 2, 1}, {1, 2, 3, 4}, {2, 4, 1, 3}, {5, 5, 5, 5}};

	for (size_t i = 0; i < sizeof ages / sizeof *ages; i++) {
		begin(10 * MS);
		for (int j = 0; j < 4; j++) {
			timeout_start(&timeouts[j], &list, clock_ns - ages[i][j]);
			CU_ASSERT_EQUAL(length(), (unsigned)j + 1);
		}
		end();
	}
}

static void test_equals_keep_their_order(void)
{
	struct timeout *at;

	begin(10 * MS);
	for (int i = 0; i < 5; i++)
		timeout_start(&timeouts[i], &list, clock_ns);
	at = list.ring.next;
	for (int i = 0; i < 5; i++, at = at->next)
		CU_ASSERT_PTR_EQUAL(at, &timeouts[i]);
	end();
}

static void test_random_starts_and_stops(void)
{
	bool runs[COUNT] = {false};
	unsigned count = 0;

	srand(1);
	begin(10 * MS);
	for (int i = 0; i < 20000; i++) {
		int which = rand() % COUNT;

		if (rand() % 3) {
			timeout_start(&timeouts[which], &list, clock_ns - (uint64_t)rand() % 1000);
			count += !runs[which];
			runs[which] = true;
		} else {
			timeout_stop(&timeouts[which]);
			count -= runs[which];
			runs[which] = false;
		}
		if (i % 100 == 0)
			CU_ASSERT_EQUAL(length(), count);
	}
	CU_ASSERT_EQUAL(length(), count);
	end();
}

/* One that is older than all others, and past its time, expires at once: and only it. */
static void test_an_older_one_comes_later(void)
{
	begin(60000u * MS);
	timeout_start(&timeouts[0], &list, clock_ns);
	CU_ASSERT(ev_timer_remaining(loop, &list.timer) > 50);
	timeout_start(&timeouts[1], &list, clock_ns - 59995u * MS);
	CU_ASSERT(ev_timer_remaining(loop, &list.timer) < 1);
	timeout_start(&timeouts[2], &list, clock_ns - 30000u * MS);
	CU_ASSERT(ev_timer_remaining(loop, &list.timer) < 1);
	clock_ns += 5 * MS;
	ev_run(loop, EVRUN_ONCE);
	CU_ASSERT_EQUAL(expired_count, 1);
	CU_ASSERT_PTR_EQUAL(expired[0], &timeouts[1]);
	CU_ASSERT_EQUAL(length(), 2);
	CU_ASSERT(ev_timer_remaining(loop, &list.timer) > 29 - 1);
	end();
}

static void test_expiry_is_in_order(void)
{
	begin(1 * MS);
	timeout_start(&timeouts[0], &list, clock_ns);
	timeout_start(&timeouts[1], &list, clock_ns - 100);
	timeout_start(&timeouts[2], &list, clock_ns - 50);
	timeout_start(&timeouts[3], &list, clock_ns + 10 * MS);
	clock_ns += 2 * MS;
	ev_run(loop, EVRUN_ONCE);
	CU_ASSERT_EQUAL(expired_count, 3);
	CU_ASSERT_PTR_EQUAL(expired[0], &timeouts[1]);
	CU_ASSERT_PTR_EQUAL(expired[1], &timeouts[2]);
	CU_ASSERT_PTR_EQUAL(expired[2], &timeouts[0]);
	end();
}

static void test_without_a_length_nothing_expires(void)
{
	begin(0);
	timeout_start(&timeouts[0], &list, clock_ns);
	CU_ASSERT_FALSE(ev_is_active(&list.timer));
	end();
}

CU_TestInfo timeouts_tests[] = {
	{"order", test_order},
	{"equals keep their order", test_equals_keep_their_order},
	{"random starts and stops", test_random_starts_and_stops},
	{"an older one comes later", test_an_older_one_comes_later},
	{"expiry is in order", test_expiry_is_in_order},
	{"without a length nothing expires", test_without_a_length_nothing_expires},
	CU_TEST_INFO_NULL,
};
