/* SPDX-License-Identifier: MIT */
/*
 * bidder: answers OpenRTB 2.6 bid requests for the campaigns of its options, which are
 * {"campaigns": [...]} or {"file": path}.
 */
#include "autoconf.h"

#include <stdlib.h>
#include <string.h>

#include "auction.h"
#include "bid_request.h"
#include "bid_response.h"
#include "campaign.h"
#include "whitecap.h"

struct bidder {
	struct campaigns *campaigns;
	uint64_t sequence;
	struct wc_counter *bids;
	struct wc_counter *no_bids;
	struct wc_counter *bad_requests;
};

static const char *const fault_texts[] = {
	[BID_REQUEST_NO_JSON] = "the body is not JSON\n",
	[BID_REQUEST_NO_OBJECT] = "the bid request is not an object\n",
	[BID_REQUEST_NO_ID] = "the bid request has no string id\n",
	[BID_REQUEST_NO_IMP] = "the bid request has no imp list, or an empty one\n",
	[BID_REQUEST_BAD_IMP] = "an imp is not an object with a string id\n",
};

static void fini(void *state)
{
	struct bidder *bidder = state;

	if (bidder)
		campaign_free(bidder->campaigns);
	free(bidder);
}

static int init(void **state, const json_t *options, struct wc_worker *worker)
{
	struct bidder *bidder = calloc(1, sizeof(*bidder));

	if (!bidder) {
		wc_log(worker, WC_LOG_ERROR, "out of memory");
		return -1;
	}
	bidder->campaigns = campaign_load(options, worker);
	if (!bidder->campaigns) {
		fini(bidder);
		return -1;
	}
	bidder->bids = wc_counter(worker, "bids");
	bidder->no_bids = wc_counter(worker, "no_bids");
	bidder->bad_requests = wc_counter(worker, "bad_requests");
	*state = bidder;
	return 0;
}

static int refuse(const struct bidder *bidder, struct wc_request *req, enum bid_request_fault fault)
{
	wc_count(bidder->bad_requests, 1);
	wc_header(req, "Content-Type", "text/plain");
	return wc_reply(req, 400, fault_texts[fault], strlen(fault_texts[fault]));
}

static int answer(struct bidder *bidder, struct bid_request *request, struct wc_request *req)
{
	struct auction auction;
	struct wc_span body;

	if (!auction_run(&auction, bidder->campaigns, request, req))
		return WC_ERROR;
	wc_header(req, "x-openrtb-version", "2.6");
	if (auction.bid_count == 0) {
		wc_count(bidder->no_bids, 1);
		return wc_reply(req, 204, NULL, 0);
	}
	body = bid_response_write(&auction, request->id, ++bidder->sequence, req);
	if (!body.ptr)
		return WC_ERROR;
	wc_count(bidder->bids, auction.bid_count);
	wc_header(req, "Content-Type", "application/json");
	return wc_reply(req, 200, body.ptr, body.len);
}

static int handle(struct wc_request *req, void *state)
{
	struct bid_request request;
	enum bid_request_fault fault = bid_request_read(&request, req);

	return fault == BID_REQUEST_FINE ? answer(state, &request, req) : refuse(state, req, fault);
}

WC_HANDLER(.name = "bidder", .init = init, .fini = fini, .handle = handle, .replay = true);
