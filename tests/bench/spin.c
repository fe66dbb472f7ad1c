/* SPDX-License-Identifier: MIT */
/* A handler that costs as much CPU time for each request as its option "us" says, in µs. */
#define _GNU_SOURCE

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <whitecap.h>

enum { CALIBRATIONS = 5, CALIBRATION_ROUNDS = 5000000 };

static void spin(uint64_t rounds)
{
	for (uint64_t i = 0; i < rounds; i++)
		__asm__ volatile("" ::: "memory");
}

static double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* ns of a round, at best. */
static double calibrate(void)
{
	double best = 1e9;

	for (int i = 0; i < CALIBRATIONS; i++) {
		double before = cpu_ns(), took;

		spin(CALIBRATION_ROUNDS);
		took = (cpu_ns() - before) / CALIBRATION_ROUNDS;
		best = took < best ? took : best;
	}
	return best;
}

static int init(void **state, const json_t *options, struct wc_worker *worker)
{
	uint64_t *rounds = malloc(sizeof *rounds);

	(void)worker;
	if (!rounds)
		return -1;
	*rounds = (uint64_t)((double)json_integer_value(json_object_get(options, "us")) * 1e3 / calibrate());
	*state = rounds;
	return 0;
}

static void fini(void *state)
{
	free(state);
}

static int handle(struct wc_request *req, void *state)
{
	spin(*(uint64_t *)state);
	return wc_reply(req, 200, "hello world!", 12);
}

WC_HANDLER(.name = "spin", .init = init, .fini = fini, .handle = handle);
