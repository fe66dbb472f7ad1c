/* SPDX-License-Identifier: MIT */
/* Who sent a request: the connection's peer, or whom trusted proxies name.  Found when it is asked
 * for. */
#ifndef ORIGIN_H
#define ORIGIN_H

#include "config.h"
#include "forwarded.h"

struct conn;
struct request;

/* The configuration's trusted_proxies.  -1: no memory. */
int origin_read_networks(const struct config *config, struct networks *networks);

void origin_find(const struct conn *conn, const struct request *request, struct peer *peer);

#endif
