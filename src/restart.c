/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "restart.h"

static uint64_t delay(unsigned failures)
{
	uint64_t ms = RESTART_FIRST_MS;

	if (failures == 0)
		return 0;
	while (--failures > 0 && ms < RESTART_MAX_MS)
		ms *= 2;
	return ms < RESTART_MAX_MS ? ms : RESTART_MAX_MS;
}

void restart_note_end(struct restart *restart, uint64_t now_ms, uint64_t alive_ms, bool clean)
{
	restart->ended_ms = now_ms;
	restart->due_ms = now_ms;
	if (alive_ms >= RESTART_STABLE_MS)
		restart->failures = 0;
	if (clean && alive_ms >= RESTART_CLEAN_MS)
		return;
	restart->due_ms += delay(restart->failures);
	restart->failures++;
}

uint64_t restart_wait(const struct restart *restart, uint64_t now_ms, uint64_t limit_ms)
{
	uint64_t due_ms = restart->due_ms;

	if (due_ms > restart->ended_ms + limit_ms)
		due_ms = restart->ended_ms + limit_ms;
	return due_ms > now_ms ? due_ms - now_ms : 0;
}
