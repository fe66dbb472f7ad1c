/* SPDX-License-Identifier: MIT */
/* For tests that read the statistics' shared memory: where a slot counts its turns. */
#include "scoreboard.h"

size_t turn_place(unsigned slot)
{
	return offsetof(struct scoreboard, slot) + slot * sizeof(struct scoreboard_slot) +
	       offsetof(struct scoreboard_slot, turn);
}
