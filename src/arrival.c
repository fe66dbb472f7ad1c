/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "arrival.h"

#define TOLERANCE_NS 1000000      /* below that it is no step */
#define REMEMBERED_NS 10000000000 /* that octets may wait to be read */

bool arrival_agrees(const struct arrival *arrival, int64_t offset_ns)
{
	int64_t apart = offset_ns - arrival->offset_ns;

	return apart > -TOLERANCE_NS && apart < TOLERANCE_NS;
}

void arrival_step(struct arrival *arrival, int64_t offset_ns, uint64_t now_ns)
{
	arrival->before_ns = arrival->offset_ns;
	arrival->offset_ns = offset_ns;
	arrival->stepped_ns = now_ns;
}

uint64_t arrival_of(const struct arrival *arrival, uint64_t stamp_ns, uint64_t since_ns,
		    uint64_t now_ns)
{
	int64_t now = (int64_t)now_ns, at = (int64_t)stamp_ns - arrival->offset_ns;
	int64_t other = (int64_t)stamp_ns - arrival->before_ns;

	if (arrival->stepped_ns && now_ns - arrival->stepped_ns < REMEMBERED_NS &&
	    (at > now || (other > at && other <= now)))
		at = other;
	if (at > now)
		at = now;
	return at < (int64_t)since_ns ? since_ns : (uint64_t)at;
}
