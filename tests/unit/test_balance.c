/* SPDX-License-Identifier: MIT */
/* The plan in single cases, and what becomes of many workers that follow it. */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>

#include "balance.h"

extern CU_TestInfo balance_tests[];

enum { WORKERS_MAX = 16, ROUNDS_MAX = 40 };

static const struct {
	struct balance_load own, total;
	unsigned workers;
	uint64_t used;
	uint64_t give_busy, give_idle;
} plans[] = {
	{{0, 0}, {0, 0}, 0, 0, 0, 0},
	{{1000, 100}, {1000, 100}, 1, 100, 0, 0},     /* nobody else is there */
	{{500, 100}, {1000, 200}, 2, 100, 0, 0},      /* even */
	{{510, 100}, {1000, 200}, 2, 100, 0, 0},      /* even enough */
	{{0, 100}, {1000, 200}, 2, 0, 0, 0},          /* below the mean of requests, at that of connections */
	{{1000, 64}, {1000, 64}, 2, 64, 24, 0},       /* all on one: 3/4 of half of them */
	{{1000, 64}, {1000, 64}, 4, 64, 36, 0},
	{{0, 5000}, {0, 5000}, 2, 0, 0, 1875},        /* idle ones */
	{{0, 2}, {0, 2}, 2, 0, 0, 0},                 /* one above the mean is as even as can be */
	{{10, 2}, {10, 2}, 2, 2, 0, 0},               /* too few requests to tell by */
	{{900, 10}, {1000, 200}, 2, 1, 0, 0},         /* one client asks for all: it would only wander */
};

static void test_plans(void)
{
	for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
		struct balance_plan plan = balance_plan(plans[i].own, plans[i].total,
							plans[i].workers, plans[i].used);

		if (plan.busy != plans[i].give_busy || plan.idle != plans[i].give_idle)
			printf("\nplan %zu: %llu busy, %llu idle\n", i,
			       (unsigned long long)plan.busy, (unsigned long long)plan.idle);
		CU_ASSERT_EQUAL(plan.busy, plans[i].give_busy);
		CU_ASSERT_EQUAL(plan.idle, plans[i].give_idle);
	}
}

/* Workers in the simulation: connections that ask at the same rate, and others that never do. */
struct crowd {
	unsigned workers;
	uint64_t busy[WORKERS_MAX], idle[WORKERS_MAX];
	uint64_t moved;
};

static struct balance_load load_of(const struct crowd *crowd, unsigned i, uint64_t rate)
{
	return (struct balance_load){crowd->busy[i] * rate, crowd->busy[i] + crowd->idle[i]};
}

static struct balance_load total_of(const struct crowd *crowd, uint64_t rate)
{
	struct balance_load total = {0, 0};

	for (unsigned i = 0; i < crowd->workers; i++) {
		total.requests += load_of(crowd, i, rate).requests;
		total.connections += load_of(crowd, i, rate).connections;
	}
	return total;
}

/* In messages, each of which goes to one of the takers. */
static void hand_out(uint64_t n, uint64_t at_once, uint64_t *connections, const unsigned *takers,
		     unsigned count)
{
	while (n > 0) {
		uint64_t step = n < at_once ? n : at_once;

		connections[takers[(unsigned)rand() % count]] += step;
		n -= step;
	}
}

/*
 * All look at the same figures and give at the same time; what was given goes to whoever is not over, or to any where
 * that is nobody.
 */
static void play_round(struct crowd *crowd, uint64_t rate)
{
	struct balance_load total = total_of(crowd, rate);
	struct balance_plan given[WORKERS_MAX];
	unsigned takers[WORKERS_MAX], count = 0;

	for (unsigned i = 0; i < crowd->workers; i++) {
		struct balance_load own = load_of(crowd, i, rate);

		given[i] = balance_plan(own, total, crowd->workers, crowd->busy[i]);
		CU_ASSERT(given[i].busy <= crowd->busy[i] && given[i].idle <= crowd->idle[i]);
		crowd->busy[i] -= given[i].busy;
		crowd->idle[i] -= given[i].idle;
		crowd->moved += given[i].busy + given[i].idle;
		if (!balance_is_over(own, total, crowd->workers))
			takers[count++] = i;
	}
	for (; count < 1; count++)
		takers[count] = (unsigned)rand() % crowd->workers;
	for (unsigned i = 0; i < crowd->workers; i++) {
		hand_out(given[i].busy, given[i].busy_at_once, crowd->busy, takers, count);
		hand_out(given[i].idle, given[i].idle_at_once, crowd->idle, takers, count);
	}
}

/* Within a tenth of the mean, or as near as whole connections come. */
static bool is_even(const struct crowd *crowd)
{
	uint64_t sum = 0, most = 0;

	for (unsigned i = 0; i < crowd->workers; i++) {
		sum += crowd->busy[i];
		most = crowd->busy[i] > most ? crowd->busy[i] : most;
	}
	return most * crowd->workers * 10 <= sum * 11 || most * crowd->workers <= sum + crowd->workers;
}

static void play_rounds(struct crowd *crowd, unsigned rounds)
{
	while (rounds-- > 0)
		play_round(crowd, 50);
}

/* How many rounds it takes; then it must stay so, and come to rest. */
static unsigned converge(struct crowd *crowd)
{
	unsigned rounds = 0;
	uint64_t moved;

	for (; !is_even(crowd) && rounds < ROUNDS_MAX; rounds++)
		play_round(crowd, 50);
	play_rounds(crowd, 30);
	CU_ASSERT(is_even(crowd));
	moved = crowd->moved;
	play_rounds(crowd, 20);
	CU_ASSERT(is_even(crowd));
	CU_ASSERT(crowd->moved - moved <= total_of(crowd, 50).connections / 20);
	return rounds;
}

static void test_all_on_one(void)
{
	srand(1);
	for (unsigned workers = 2; workers <= WORKERS_MAX; workers++) {
		struct crowd crowd = {.workers = workers, .busy = {960}, .idle = {5000}};
		unsigned rounds = converge(&crowd);

		if (rounds > 8)
			printf("\n%u workers: %u rounds\n", workers, rounds);
		CU_ASSERT(rounds <= 8);
		CU_ASSERT(crowd.moved <= 2 * 5960);
	}
}

static void test_uneven(void)
{
	srand(2);
	for (unsigned workers = 2; workers <= WORKERS_MAX; workers++)
		for (int trial = 0; trial < 20; trial++) {
			struct crowd crowd = {.workers = workers};

			for (unsigned i = 0; i < workers; i++) {
				crowd.busy[i] = (uint64_t)rand() % 400;
				crowd.idle[i] = (uint64_t)rand() % 1000;
			}
			CU_ASSERT(converge(&crowd) <= 15);
		}
}

/* A worker more, a worker fewer. */
static void test_one_is_empty(void)
{
	for (unsigned workers = 2; workers <= WORKERS_MAX; workers++) {
		struct crowd crowd = {.workers = workers};

		for (unsigned i = 1; i < workers; i++)
			crowd.busy[i] = 64;
		CU_ASSERT(converge(&crowd) <= 8);
	}
}

static void test_even_ones_rest(void)
{
	for (unsigned workers = 2; workers <= WORKERS_MAX; workers++) {
		struct crowd crowd = {.workers = workers};

		for (unsigned i = 0; i < workers; i++) {
			crowd.busy[i] = 64 + i % 2;
			crowd.idle[i] = 100 + i % 3;
		}
		for (int i = 0; i < 20; i++)
			play_round(&crowd, 50);
		CU_ASSERT_EQUAL(crowd.moved, 0);
	}
}

CU_TestInfo balance_tests[] = {
	{"plans", test_plans},
	{"all on one", test_all_on_one},
	{"uneven", test_uneven},
	{"one is empty", test_one_is_empty},
	{"even ones rest", test_even_ones_rest},
	CU_TEST_INFO_NULL,
};
