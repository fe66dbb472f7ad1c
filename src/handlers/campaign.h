/* SPDX-License-Identifier: MIT */
/*
 * The campaigns that the bidder is configured with, read once, at init: dearest first, so that the
 * first eligible one is the winner, with everything of a bid that doesn't depend on the request
 * already written as JSON, and with an index of the texts that a request may name.
 */
#ifndef CAMPAIGN_H
#define CAMPAIGN_H

#include "whitecap.h"

/* The numbers are OpenRTB's mtype. */
enum campaign_media { CAMPAIGN_BANNER = 1, CAMPAIGN_VIDEO = 2 };

struct campaign_creative {
	enum campaign_media media;
	int w, h;            /* of a banner */
	struct wc_span mime; /* of a video */
	char *bid;           /* what creative_render() wrote; heap */
	size_t bid_len;
};

struct campaign {
	size_t position; /* in the configuration: between equal prices the first wins */
	double price;
	struct wc_span seat;
	struct wc_span deal; /* ptr NULL: bids without a deal */
	bool secure;
	bool has_countries;
	double duration; /* of its video, in seconds */
	struct campaign_creative *creatives;
	size_t creative_count;
	size_t creative_room;
};

/* In what role a text names a campaign. */
enum campaign_role {
	CAMPAIGN_SEAT,
	CAMPAIGN_ADOMAIN,
	CAMPAIGN_CATEGORY, /* its own ones and all above them: IAB2-1 and IAB2 */
	CAMPAIGN_COUNTRY,
};

struct campaign_term {
	enum campaign_role role;
	struct wc_span text; /* never empty */
	size_t campaign;     /* index into campaigns.items */
};

struct campaigns {
	struct campaign *items; /* by falling price, then by position */
	size_t count;
	struct campaign_term *terms; /* sorted */
	size_t term_count;
	size_t term_room;
	json_t *root; /* holds the texts that the spans above point to */
};

/*
 * Reads {"campaigns": [...]} or {"file": path}.  NULL after every mistake has been logged, with
 * the place, what was found there and what was expected.
 */
struct campaigns *campaign_load(const json_t *options, struct wc_worker *worker);
void campaign_free(struct campaigns *campaigns);

/* The terms with that role and text, *count of them. */
const struct campaign_term *campaign_find(const struct campaigns *campaigns,
					  enum campaign_role role, struct wc_span text,
					  size_t *count);

#endif
