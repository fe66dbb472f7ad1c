/* SPDX-License-Identifier: MIT */
/*
 * X-Forwarded-For, as far as it is believed: each proxy on the way adds, at the right end, the
 * address that it was connected from.  So the list is walked from the right, for as long as the
 * address at hand is a trusted proxy's.  Pure.
 */
#ifndef FORWARDED_H
#define FORWARDED_H

#include "peer.h"
#include "span.h"

struct networks {
	size_t count;
	struct network *list;
};

bool forwarded_is_trusted(const struct networks *trusted, const struct peer *peer);

/*
 * *peer is the address so far, a trusted one; `line` is a field's value.  Afterwards *peer is the
 * first address from the right that is not trusted: then, and at an element that is no address,
 * false: that is it.  True: the whole line was walked and all of it is trusted; the field before it
 * goes on.  An element without a port gives port 0.
 */
bool forwarded_walk(struct peer *peer, const struct networks *trusted, struct wc_span line);

#endif
