/* SPDX-License-Identifier: MIT */
/* Which campaign bids on which imp of a request. */
#ifndef AUCTION_H
#define AUCTION_H

#include "bid_request.h"
#include "campaign.h"

struct auction_bid {
	struct wc_span impid;
	const struct campaign_creative *creative;
	struct auction_bid *next; /* of the same seat */
};

struct auction_seat {
	struct wc_span seat;
	struct auction_bid *bids, **end;
	struct auction_seat *next;
};

struct auction {
	struct auction_seat *seats; /* in the order of their first bids */
	size_t bid_count;
};

/*
 * Reads all imps of the request.  The outcome lives as long as the request; false: the request's
 * memory is used up, and the answer is 500.
 */
bool auction_run(struct auction *auction, const struct campaigns *campaigns,
		 struct bid_request *request, struct wc_request *req);

#endif
