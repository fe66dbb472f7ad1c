/* SPDX-License-Identifier: MIT */
/* The plan in single cases, and what becomes of many workers that follow it. */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "balance.h"

extern CU_TestInfo balance_tests[];

static const struct {
	struct balance_view view;
	bool seen_before;
	uint64_t requests, idle;
} plans[] = {
	{{{0, 0}, {0, 0}, 0, 0}, false, 0, 0},
	{{{1000, 100}, {1000, 100}, 0, 1}, false, 0, 0},    /* nobody else is there */
	{{{1000, 100}, {2000, 200}, 1000, 2}, true, 0, 0},  /* even */
	{{{1040, 100}, {2000, 200}, 960, 2}, true, 0, 0},   /* even enough */
	{{{1060, 100}, {2000, 200}, 940, 2}, true, 45, 0},
	{{{1060, 100}, {2000, 200}, 940, 2}, false, 0, 0},  /* may be chance */
	{{{10600, 100}, {20000, 200}, 9400, 2}, false, 450, 0},
	{{{0, 100}, {2000, 200}, 0, 2}, true, 0, 0},        /* below the mean */
	{{{1000, 64}, {1000, 64}, 0, 2}, false, 375, 24},   /* all on one: 3/4 of half of them */
	{{{1000, 64}, {1000, 64}, 0, 4}, false, 562, 36},
	{{{0, 5000}, {0, 5000}, 0, 2}, false, 0, 1875},     /* idle ones */
	{{{0, 2}, {0, 2}, 0, 2}, false, 0, 0},              /* as even as can be */
	{{{2, 1}, {2, 2}, 0, 2}, false, 0, 0},              /* too few requests to tell by */
	{{{1030, 10}, {4000, 40}, 700, 4}, false, 22, 0},   /* another one wants a lot */
};

static void test_plans(void)
{
	for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
		struct balance_plan plan = balance_plan(&plans[i].view, plans[i].seen_before);

		plan.idle = balance_idle(&plans[i].view, true).connections;
		if (plan.requests != plans[i].requests || plan.idle != plans[i].idle)
			printf("\nplan %zu: %llu requests, %llu idle\n", i,
			       (unsigned long long)plan.requests, (unsigned long long)plan.idle);
		CU_ASSERT_EQUAL(plan.requests, plans[i].requests);
		CU_ASSERT_EQUAL(plan.idle, plans[i].idle);
	}
}

static const struct {
	struct balance_view view;
	bool long_time;
	uint64_t requests, idle;
} idles[] = {
	{{{0, 5000}, {0, 5000}, 0, 1}, true, 0, 0},
	{{{0, 5000}, {0, 5000}, 0, 2}, false, UINT64_MAX, 1875},
	{{{2000, 500}, {2000, 500}, 0, 2}, false, 1025, 187}, /* all are here, beyond chance */
	{{{1000, 500}, {2000, 500}, 0, 2}, false, 0, 0},      /* may be chance */
	{{{1000, 500}, {2000, 500}, 0, 2}, true, 25, 187},
	{{{985, 500}, {2000, 500}, 0, 2}, true, 10, 187},
	{{{970, 500}, {2000, 500}, 0, 2}, true, 0, 0},        /* the idle ones are its share */
	{{{0, 500}, {2000, 500}, 0, 2}, true, 0, 0},
	{{{1000, 275}, {2000, 500}, 0, 2}, true, 0, 0},       /* even enough */
};

static void test_idle(void)
{
	for (size_t i = 0; i < sizeof idles / sizeof *idles; i++) {
		struct balance_load idle = balance_idle(&idles[i].view, idles[i].long_time);

		if (idle.requests != idles[i].requests || idle.connections != idles[i].idle)
			printf("\nidle %zu: %llu, %llu\n", i, (unsigned long long)idle.requests,
			       (unsigned long long)idle.connections);
		CU_ASSERT_EQUAL(idle.requests, idles[i].requests);
		CU_ASSERT_EQUAL(idle.connections, idles[i].idle);
	}
}

static const struct {
	struct balance_view view;
	uint64_t requests, connections;
} rooms[] = {
	{{{0, 0}, {0, 0}, 0, 1}, UINT64_MAX, UINT64_MAX}, /* nobody else would take */
	{{{0, 0}, {0, 0}, 0, 4}, UINT64_MAX, 1},          /* nobody asks */
	{{{0, 0}, {4000, 400}, 0, 4}, 1000, 101},
	{{{1000, 100}, {4000, 400}, 0, 4}, 0, 1},
	{{{2000, 200}, {4000, 400}, 0, 4}, 0, 0},
};

static void test_rooms(void)
{
	for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
		struct balance_load room = balance_room(&rooms[i].view);

		CU_ASSERT_EQUAL(room.requests, rooms[i].requests);
		CU_ASSERT_EQUAL(room.connections, rooms[i].connections);
	}
}

static void test_told(void)
{
	CU_ASSERT_FALSE(balance_is_told(&(struct balance_view){.total = {100, 9}, .workers = 4}));
	CU_ASSERT(balance_is_told(&(struct balance_view){.total = {100000, 9}, .workers = 4}));
}

static void test_newcomers(void)
{
	const struct balance_view busy = {.total = {4000, 400}, .workers = 4};
	const struct balance_view idle = {.total = {0, 400}, .workers = 4};

	CU_ASSERT_TRUE(balance_is_newcomer(&busy, &(struct balance_load){0, 0}));
	CU_ASSERT_TRUE(balance_is_newcomer(&busy, &(struct balance_load){499, 49}));
	CU_ASSERT_FALSE(balance_is_newcomer(&busy, &(struct balance_load){499, 50}));
	CU_ASSERT_FALSE(balance_is_newcomer(&busy, &(struct balance_load){500, 0}));
	CU_ASSERT_TRUE(balance_is_newcomer(&idle, &(struct balance_load){0, 49}));
	CU_ASSERT_FALSE(balance_is_newcomer(&idle, &(struct balance_load){0, 50}));
}

/* Moves of a connection that moves as soon as it may. */
static unsigned moves_within(uint64_t seconds)
{
	uint64_t now = balance_stay_ns(0);
	unsigned count = 0;
	uint8_t moves = 0;

	while (now <= seconds * 1000000000u) {
		moves = balance_count_move(moves, balance_stay_ns(moves));
		now += balance_stay_ns(moves);
		count++;
	}
	return count;
}

static void test_moves_are_bounded(void)
{
	CU_ASSERT_EQUAL(balance_stay_ns(0), 500000000u);
	CU_ASSERT_EQUAL(balance_stay_ns(1), 500000000u);
	CU_ASSERT_EQUAL(balance_stay_ns(2), 1000000000u);
	CU_ASSERT_EQUAL(balance_stay_ns(255), balance_stay_ns(13));
	CU_ASSERT_EQUAL(moves_within(10), 5);
	CU_ASSERT_EQUAL(moves_within(3600), 13);
	CU_ASSERT_EQUAL(moves_within(36000), 29);
	CU_ASSERT_EQUAL(balance_count_move(5, 1000 * balance_stay_ns(5)), 1);
	CU_ASSERT_EQUAL(balance_count_move(255, balance_stay_ns(255)), 255);
}

/*
 * Workers in the simulation.  A connection is its requests in one round; 0: it is idle.  What a
 * worker gives goes, a message at a time, to whoever has most room.
 */
enum { WORKERS_MAX = 16, CONNS_MAX = 8000, ROUNDS_MAX = 40 };

struct crowd {
	unsigned workers;
	unsigned count[WORKERS_MAX];
	uint16_t rate[WORKERS_MAX][CONNS_MAX];
	uint64_t moved;
};

static struct crowd crowd;

static void reset(unsigned workers)
{
	crowd.workers = workers;
	crowd.moved = 0;
	memset(crowd.count, 0, sizeof crowd.count);
}

static void add(unsigned worker, unsigned count, uint16_t rate)
{
	while (count-- > 0)
		crowd.rate[worker][crowd.count[worker]++] = rate;
}

static struct balance_load load_of(unsigned worker)
{
	struct balance_load load = {0, crowd.count[worker]};

	for (unsigned i = 0; i < crowd.count[worker]; i++)
		load.requests += crowd.rate[worker][i];
	return load;
}

static struct balance_view view_of(unsigned worker)
{
	struct balance_view view = {.own = load_of(worker),
				    .least_requests = UINT64_MAX,
				    .workers = crowd.workers};

	for (unsigned i = 0; i < crowd.workers; i++) {
		struct balance_load load = load_of(i);

		view.total.requests += load.requests;
		view.total.connections += load.connections;
		if (load.requests < view.least_requests)
			view.least_requests = load.requests;
	}
	return view;
}

static unsigned neediest(const struct balance_load *room, unsigned giver, bool for_requests)
{
	unsigned best = giver == 0 ? 1 : 0;

	for (unsigned i = 0; i < crowd.workers; i++)
		if (i != giver && (for_requests ? room[i].requests > room[best].requests
						: room[i].connections > room[best].connections))
			best = i;
	return best;
}

static uint64_t less(uint64_t from, uint64_t n)
{
	return from > n ? from - n : 0;
}

static void move(unsigned from, unsigned index, unsigned to, struct balance_load *room)
{
	uint16_t rate = crowd.rate[from][index];

	room[to].requests = less(room[to].requests, rate);
	room[to].connections = less(room[to].connections, 1);
	crowd.rate[from][index] = crowd.rate[from][--crowd.count[from]];
	add(to, 1, rate);
	crowd.moved++;
}

static void give(unsigned giver, const struct balance_plan *plan, struct balance_load *room)
{
	uint64_t left = plan->requests, spare = left / 3, idle = plan->idle;

	for (unsigned i = crowd.count[giver]; i-- > 0 && left > 0;) {
		uint16_t rate = crowd.rate[giver][i];

		if (rate == 0 || rate > left + spare)
			continue;
		left = less(left, rate);
		idle = less(idle, 1);
		move(giver, i, neediest(room, giver, true), room);
	}
	for (unsigned i = crowd.count[giver]; i-- > 0 && idle > 0;)
		if (crowd.rate[giver][i] == 0) {
			move(giver, i, neediest(room, giver, false), room);
			idle--;
		}
}

/* All look at the same figures, and give at the same time. */
static void play_round(void)
{
	struct balance_plan plan[WORKERS_MAX];
	struct balance_load room[WORKERS_MAX];

	for (unsigned i = 0; i < crowd.workers; i++) {
		struct balance_view view = view_of(i);

		plan[i] = balance_plan(&view, true);
		plan[i].idle = balance_idle(&view, true).connections;
		room[i] = balance_room(&view);
	}
	for (unsigned i = 0; i < crowd.workers; i++)
		give(i, &plan[i], room);
}

/* Within a tenth of the mean, or as near as whole connections come. */
static bool is_even(uint64_t largest)
{
	struct balance_view view = view_of(0);
	uint64_t mean = view.total.requests / crowd.workers, most = 0;

	for (unsigned i = 0; i < crowd.workers; i++) {
		struct balance_load load = load_of(i);

		most = load.requests > most ? load.requests : most;
	}
	return most <= mean + mean / 10 || most <= mean + largest;
}

static void play_rounds(unsigned rounds)
{
	while (rounds-- > 0)
		play_round();
}

/* Whether nothing moves any more in the end, for 20 rounds. */
static bool rests(void)
{
	uint64_t moved;

	for (unsigned i = 0; i < 100; i++) {
		moved = crowd.moved;
		play_rounds(20);
		if (crowd.moved == moved)
			return true;
	}
	return false;
}

/* How many rounds it takes; then it must stay so, and come to rest: idle ones take their time. */
static unsigned converge(uint64_t largest)
{
	unsigned rounds = 0;

	for (; !is_even(largest) && rounds < ROUNDS_MAX; rounds++)
		play_round();
	CU_ASSERT(rests());
	CU_ASSERT(is_even(largest));
	return rounds;
}

static void test_all_on_one(void)
{
	for (unsigned workers = 2; workers <= WORKERS_MAX; workers++) {
		reset(workers);
		add(0, 960, 50);
		add(0, 5000, 0);
		CU_ASSERT(converge(50) <= 4);
		CU_ASSERT(crowd.moved <= 2 * 5960);
	}
}

static void test_uneven(void)
{
	srand(2);
	for (unsigned workers = 2; workers <= WORKERS_MAX; workers++)
		for (int trial = 0; trial < 5; trial++) {
			reset(workers);
			for (unsigned i = 0; i < workers; i++) {
				add(i, (unsigned)rand() % 400, 50);
				add(i, (unsigned)rand() % 1000, 0);
			}
			CU_ASSERT(converge(50) <= 4);
		}
}

/* Few clients ask all the time, most now and then. */
static void test_unequal_rates(void)
{
	for (unsigned workers = 2; workers <= WORKERS_MAX; workers++) {
		reset(workers);
		add(0, 60, 2);
		add(0, 12, 100);
		add(0, 100, 0);
		CU_ASSERT(converge(100) <= 5);
	}
}

/* One client asks for nearly all: it would only wander. */
static void test_one_large_client(void)
{
	reset(4);
	add(0, 1, 5000);
	for (unsigned i = 0; i < 4; i++)
		add(i, 50, 2);
	play_rounds(ROUNDS_MAX);
	CU_ASSERT_EQUAL(crowd.rate[0][0], 5000);
	CU_ASSERT(crowd.moved <= 50);
}

/* The others leave the worker that has it, and do not come back for their number. */
static void test_one_large_client_among_many(void)
{
	uint64_t moved;

	for (unsigned workers = 2; workers <= WORKERS_MAX; workers++) {
		reset(workers);
		add(0, 1, 2000);
		add(0, 600, 1);
		play_rounds(ROUNDS_MAX);
		moved = crowd.moved;
		CU_ASSERT(moved >= 500);
		play_rounds(ROUNDS_MAX);
		CU_ASSERT_EQUAL(crowd.moved, moved);
	}
}

/* A worker more, a worker fewer. */
static void test_one_is_empty(void)
{
	for (unsigned workers = 2; workers <= WORKERS_MAX; workers++) {
		reset(workers);
		for (unsigned i = 1; i < workers; i++)
			add(i, 64, 50);
		CU_ASSERT(converge(50) <= 4);
	}
}

static void test_even_ones_rest(void)
{
	for (unsigned workers = 2; workers <= WORKERS_MAX; workers++) {
		reset(workers);
		for (unsigned i = 0; i < workers; i++) {
			add(i, 64 + i % 2, 50);
			add(i, 100 + i % 3, 0);
		}
		play_rounds(20);
		CU_ASSERT_EQUAL(crowd.moved, 0);
	}
}

CU_TestInfo balance_tests[] = {
	{"plans", test_plans},
	{"idle ones", test_idle},
	{"rooms", test_rooms},
	{"enough requests to tell by", test_told},
	{"newcomers", test_newcomers},
	{"moves of a connection are bounded", test_moves_are_bounded},
	{"all on one", test_all_on_one},
	{"uneven", test_uneven},
	{"unequal rates", test_unequal_rates},
	{"one large client", test_one_large_client},
	{"one large client among many", test_one_large_client_among_many},
	{"one is empty", test_one_is_empty},
	{"even ones rest", test_even_ones_rest},
	CU_TEST_INFO_NULL,
};
