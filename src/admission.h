/* SPDX-License-Identifier: MIT */
/*
 * What is decided of a request when its turn has come, before its handler is called: whether it has
 * become too old to be worth an answer, what its body is when it came compressed, and by when it
 * has to be answered.  Only for routes that ask for it (route->screened).
 */
#ifndef ADMISSION_H
#define ADMISSION_H

#include <stdbool.h>

#include "config.h"

struct request;

bool admission_is_needed(const struct config_route *route);

/* 0: the handler is to be called; else the status to answer with instead.  request->route is set.
 */
int admission_decide(struct request *request);

#endif
