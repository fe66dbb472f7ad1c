/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "auction.h"

#include <string.h>

/* What the lists of a request say of a campaign. */
enum { WANTED = 1, BLOCKED = 2, IN_COUNTRY = 4 };

/* The campaigns that may bid on a request at all, dearest first. */
struct candidates {
	const struct campaign **items;
	size_t count;
};

static bool is_same(struct wc_span a, struct wc_span b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static void mark(const struct campaigns *campaigns, unsigned char *marks, enum campaign_role role,
		 struct bid_texts texts, unsigned char bit)
{
	size_t i, j, count;

	for (i = 0; i < texts.count; i++) {
		const struct campaign_term *terms =
			campaign_find(campaigns, role, texts.items[i], &count);

		for (j = 0; j < count; j++)
			marks[terms[j].campaign] |= bit;
	}
}

static bool may_bid(const struct campaign *campaign, const struct bid_request *request,
		    unsigned char marks)
{
	return !(marks & BLOCKED) && (request->wseat.count == 0 || (marks & WANTED)) &&
	       (!campaign->has_countries || !request->country.ptr || (marks & IN_COUNTRY));
}

static bool find_candidates(struct candidates *candidates, const struct campaigns *campaigns,
			    struct bid_request *request, struct wc_request *req)
{
	size_t i, count = campaigns->count;
	unsigned char *marks = wc_alloc(req, count + 1);

	candidates->count = 0;
	candidates->items = wc_alloc(req, (count + 1) * sizeof(candidates->items[0]));
	if (!marks || !candidates->items)
		return false;
	memset(marks, 0, count + 1);
	mark(campaigns, marks, CAMPAIGN_SEAT, request->wseat, WANTED);
	mark(campaigns, marks, CAMPAIGN_SEAT, request->bseat, BLOCKED);
	mark(campaigns, marks, CAMPAIGN_ADOMAIN, request->badv, BLOCKED);
	mark(campaigns, marks, CAMPAIGN_CATEGORY, request->bcat, BLOCKED);
	if (request->country.ptr)
		mark(campaigns, marks, CAMPAIGN_COUNTRY, (struct bid_texts){&request->country, 1},
		     IN_COUNTRY);
	for (i = 0; request->is_usd && i < count; i++)
		if (may_bid(&campaigns->items[i], request, marks[i]))
			candidates->items[candidates->count++] = &campaigns->items[i];
	return true;
}

static bool is_met(const struct bid_floor *floor, double price)
{
	return floor->is_usd && price >= floor->price;
}

/* The rules of private deals and floors. */
static bool meets_terms(const struct campaign *campaign, const struct bid_imp *imp)
{
	size_t i;

	if (!campaign->deal.ptr)
		return !imp->private_auction && is_met(&imp->floor, campaign->price);
	for (i = 0; i < imp->deal_count; i++)
		if (is_same(campaign->deal, imp->deals[i].id) &&
		    is_met(&imp->deals[i].floor, campaign->price))
			return true;
	return false;
}

static bool is_shown_as_banner(const struct campaign_creative *creative, const struct bid_imp *imp)
{
	size_t i;

	for (i = 0; i < imp->size_count; i++)
		if (creative->w == imp->sizes[i].w && creative->h == imp->sizes[i].h)
			return true;
	return false;
}

static bool is_shown_as_video(const struct campaign_creative *creative, const struct bid_imp *imp)
{
	size_t i;

	for (i = 0; i < imp->mimes.count; i++)
		if (is_same(creative->mime, imp->mimes.items[i]))
			return true;
	return false;
}

static const struct campaign_creative *find_creative(const struct campaign *campaign,
						     const struct bid_imp *imp)
{
	bool is_in_time = campaign->duration >= imp->min_duration &&
			  campaign->duration <= imp->max_duration;
	size_t i;

	for (i = 0; i < campaign->creative_count; i++) {
		const struct campaign_creative *creative = &campaign->creatives[i];

		if (creative->media == CAMPAIGN_BANNER ? is_shown_as_banner(creative, imp)
						       : is_in_time &&
								 is_shown_as_video(creative, imp))
			return creative;
	}
	return NULL;
}

static struct auction_seat *get_seat(struct auction *auction, struct wc_span name,
				     struct wc_request *req)
{
	struct auction_seat **seat = &auction->seats;

	while (*seat && !is_same((*seat)->seat, name))
		seat = &(*seat)->next;
	if (!*seat && (*seat = wc_alloc(req, sizeof(**seat)))) {
		**seat = (struct auction_seat){.seat = name};
		(*seat)->end = &(*seat)->bids;
	}
	return *seat;
}

static bool add_bid(struct auction *auction, struct auction_bid bid, struct wc_span seat_name,
		    struct wc_request *req)
{
	struct auction_seat *seat = get_seat(auction, seat_name, req);
	struct auction_bid *added = wc_alloc(req, sizeof(*added));

	if (!seat || !added)
		return false;
	*added = bid;
	*seat->end = added;
	seat->end = &added->next;
	auction->bid_count++;
	return true;
}

/* The dearest campaign comes first, so the first eligible one bids. */
static bool bid_on(struct auction *auction, const struct candidates *candidates,
		   const struct bid_imp *imp, struct wc_request *req)
{
	size_t i;

	for (i = 0; i < candidates->count; i++) {
		const struct campaign *campaign = candidates->items[i];
		const struct campaign_creative *creative;

		if ((imp->secure && !campaign->secure) || !meets_terms(campaign, imp))
			continue;
		creative = find_creative(campaign, imp);
		if (creative)
			return add_bid(auction, (struct auction_bid){imp->id, creative, NULL},
				       campaign->seat, req);
	}
	return true;
}

bool auction_run(struct auction *auction, const struct campaigns *campaigns,
		 struct bid_request *request, struct wc_request *req)
{
	struct candidates candidates;
	struct bid_imp imp;

	*auction = (struct auction){0};
	if (!find_candidates(&candidates, campaigns, request, req))
		return false;
	while (bid_request_next_imp(request, &imp))
		if (!bid_on(auction, &candidates, &imp, req))
			return false;
	return true;
}
