/* SPDX-License-Identifier: MIT */
/*
 * The admin process: a worker whose listener is admin.listen and whose handler is built in.  It
 * reads the scoreboard and answers GET and HEAD for /stats, /metrics, /, /healthz and /readyz.
 */
#ifndef ADMIN_H
#define ADMIN_H

#include "child.h"

/*
 * Makes the arguments of a worker that is the admin process of `args`, which must outlive it.
 * To be called once, in that process.
 */
void admin_setup(struct worker_args *own, const struct worker_args *args);

#endif
