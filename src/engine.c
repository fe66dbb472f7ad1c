/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "engine.h"

uint64_t engine_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const char *engine_date(struct engine *engine)
{
	/* The loop's wall clock, as of its last wake-up. */
	time_t now = (time_t)ev_now(engine->loop);

	if (now != engine->date_at) {
		engine->date_at = now;
		http_date_format(engine->date, now);
	}
	return engine->date;
}
