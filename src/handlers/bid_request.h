/* SPDX-License-Identifier: MIT */
/*
 * A bid request as the auction needs it.  This module alone knows how requests are parsed.
 *
 * A field of the wrong type counts as absent; of one that comes twice, the last counts.  A number
 * past the range of a double is infinite.  All texts may hold any character, NUL too.  What is read
 * lies in the body and in the request's wc_alloc() memory, and lives as long.  Where that memory is
 * used up, lists and texts stay empty, and the answer is 500, whatever the auction says.
 */
#ifndef BID_REQUEST_H
#define BID_REQUEST_H

#include "json_reader.h"
#include "whitecap.h"

enum bid_request_fault {
	BID_REQUEST_FINE,
	BID_REQUEST_NO_JSON,
	BID_REQUEST_NO_OBJECT,
	BID_REQUEST_NO_ID,
	BID_REQUEST_NO_IMP,
	BID_REQUEST_BAD_IMP,
};

/* What is no string in such a list is an empty text. */
struct bid_texts {
	struct wc_span *items;
	size_t count;
};

struct bid_floor {
	double price;
	bool is_usd;
};

struct bid_deal {
	struct wc_span id;
	struct bid_floor floor;
};

struct bid_size {
	int w, h;
};

struct bid_imp {
	struct wc_span id;
	bool secure;
	bool private_auction;
	struct bid_floor floor;
	struct bid_deal *deals;
	size_t deal_count;
	struct bid_size *sizes; /* of its banner */
	size_t size_count;
	struct bid_texts mimes; /* of its video */
	double min_duration, max_duration;
};

struct bid_request {
	struct wc_span id;
	bool is_usd; /* USD is among the currencies it takes */
	struct bid_texts wseat, bseat, badv, bcat;
	struct wc_span country; /* ptr NULL: not known */

	/* For this module only. */
	struct wc_request *req;
	struct json_reader reader;
	struct json_reader_place imps;
	enum bid_request_fault imp_fault;
};

/* Reads the body of `req`; all of it is checked at once. */
enum bid_request_fault bid_request_read(struct bid_request *request, struct wc_request *req);

/* Hands out the imps one after the other; false after the last one. */
bool bid_request_next_imp(struct bid_request *request, struct bid_imp *imp);

#endif
