/* SPDX-License-Identifier: MIT */
/*
 * A bid request's "tmax" (OpenRTB 2.6, 3.2.1) found by walking over the top level of its JSON,
 * without parsing what is below.  Pure.
 */
#ifndef TMAX_H
#define TMAX_H

#include <stddef.h>
#include <stdint.h>

/*
 * Milliseconds; 0: there is none, it is no positive integer below 10^9, or the body is no JSON
 * object as far as that. Of several the first counts.  What stands behind it is not looked at.
 */
uint32_t tmax_find(const char *body, size_t len);

#endif
