/* SPDX-License-Identifier: MIT */
/* Writes an OpenRTB BidResponse. */
#ifndef BID_RESPONSE_H
#define BID_RESPONSE_H

#include "auction.h"

/*
 * The outcome of an auction with at least one bid as JSON, in memory of wc_alloc(); ptr is NULL
 * where that is used up.  `sequence` sets apart the answers to requests of the same id.
 */
struct wc_span bid_response_write(const struct auction *auction, struct wc_span id,
				  uint64_t sequence, struct wc_request *req);

#endif
