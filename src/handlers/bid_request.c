/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "bid_request.h"

#include <math.h>
#include <string.h>

/*
 * All numbers are read as reals: JSON doesn't tell 300 from 300.0, and a number past 64 bits in a
 * field that nobody reads is no reason to refuse a request.
 */
enum { PARSE_FLAGS = JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL };

static struct wc_span text_of(const json_t *value)
{
	return (struct wc_span){json_string_value(value), json_string_length(value)};
}

static double number_of(const json_t *value, double otherwise)
{
	return json_is_number(value) ? json_number_value(value) : otherwise;
}

static bool is_one(const json_t *value)
{
	return json_is_number(value) && json_number_value(value) == 1;
}

static bool is_usd(struct wc_span text)
{
	return text.len == 3 && memcmp(text.ptr, "USD", 3) == 0;
}

static struct bid_texts read_texts(const struct bid_request *request, const json_t *list)
{
	struct bid_texts texts = {NULL, json_array_size(list)};
	size_t i;

	if (texts.count > 0)
		texts.items = wc_alloc(request->req, texts.count * sizeof(texts.items[0]));
	if (!texts.items)
		texts.count = 0;
	for (i = 0; i < texts.count; i++)
		texts.items[i] = text_of(json_array_get(list, i));
	return texts;
}

static bool takes_usd(const json_t *cur)
{
	size_t i, count = json_array_size(cur);

	for (i = 0; i < count; i++)
		if (is_usd(text_of(json_array_get(cur, i))))
			return true;
	return !json_is_array(cur);
}

static enum bid_request_fault check(const json_t *root, const json_t *imps)
{
	size_t i, count = json_array_size(imps);

	if (!root)
		return BID_REQUEST_NO_JSON;
	if (!json_is_object(root))
		return BID_REQUEST_NO_OBJECT;
	if (!json_is_string(json_object_get(root, "id")))
		return BID_REQUEST_NO_ID;
	if (count == 0)
		return BID_REQUEST_NO_IMP;
	for (i = 0; i < count; i++)
		if (!json_is_string(json_object_get(json_array_get(imps, i), "id")))
			return BID_REQUEST_BAD_IMP;
	return BID_REQUEST_FINE;
}

enum bid_request_fault bid_request_read(struct bid_request *request, struct wc_request *req)
{
	struct wc_span body = wc_body(req);
	json_t *root = body.len ? json_loadb(body.ptr, body.len, PARSE_FLAGS, NULL) : NULL;
	const json_t *imps = json_object_get(root, "imp");
	const json_t *geo = json_object_get(json_object_get(root, "device"), "geo");
	enum bid_request_fault fault = check(root, imps);

	*request = (struct bid_request){.req = req, .root = root, .imps = imps};
	if (fault != BID_REQUEST_FINE)
		return fault;
	request->id = text_of(json_object_get(root, "id"));
	request->is_usd = takes_usd(json_object_get(root, "cur"));
	request->wseat = read_texts(request, json_object_get(root, "wseat"));
	request->bseat = read_texts(request, json_object_get(root, "bseat"));
	request->badv = read_texts(request, json_object_get(root, "badv"));
	request->bcat = read_texts(request, json_object_get(root, "bcat"));
	request->country = text_of(json_object_get(geo, "country"));
	return BID_REQUEST_FINE;
}

void bid_request_fini(struct bid_request *request)
{
	json_decref(request->root);
	request->root = NULL;
}

/* Of an imp or a deal. */
static struct bid_floor read_floor(const json_t *object)
{
	const json_t *currency = json_object_get(object, "bidfloorcur");

	return (struct bid_floor){
		.price = number_of(json_object_get(object, "bidfloor"), 0),
		.is_usd = !json_is_string(currency) || is_usd(text_of(currency)),
	};
}

static void read_deals(const struct bid_request *request, struct bid_imp *imp, const json_t *deals)
{
	size_t i, count = json_array_size(deals);

	imp->deals = count ? wc_alloc(request->req, count * sizeof(imp->deals[0])) : NULL;
	for (i = 0; imp->deals && i < count; i++) {
		const json_t *deal = json_array_get(deals, i);
		struct wc_span id = text_of(json_object_get(deal, "id"));

		if (id.ptr)
			imp->deals[imp->deal_count++] = (struct bid_deal){id, read_floor(deal)};
	}
}

/* A side of a banner; 0: none that a campaign could have. */
static int read_side(const json_t *value)
{
	double side = number_of(value, 0);

	return side >= 1 && side <= 32767 && (int)side == side ? (int)side : 0;
}

static void add_size(struct bid_imp *imp, const json_t *object)
{
	int w = read_side(json_object_get(object, "w"));
	int h = read_side(json_object_get(object, "h"));

	if (w > 0 && h > 0)
		imp->sizes[imp->size_count++] = (struct bid_size){w, h};
}

static void read_sizes(const struct bid_request *request, struct bid_imp *imp, const json_t *banner)
{
	const json_t *formats = json_object_get(banner, "format");
	size_t i, count = json_array_size(formats);

	if (!json_is_object(banner))
		return;
	imp->sizes = wc_alloc(request->req, (count ? count : 1) * sizeof(imp->sizes[0]));
	if (!imp->sizes)
		return;
	if (count == 0)
		add_size(imp, banner);
	for (i = 0; i < count; i++)
		add_size(imp, json_array_get(formats, i));
}

bool bid_request_next_imp(struct bid_request *request, struct bid_imp *imp)
{
	const json_t *source = json_array_get(request->imps, request->next_imp++);
	const json_t *pmp = json_object_get(source, "pmp");
	const json_t *video = json_object_get(source, "video");

	if (!source)
		return false;
	*imp = (struct bid_imp){
		.id = text_of(json_object_get(source, "id")),
		.secure = is_one(json_object_get(source, "secure")),
		.private_auction = is_one(json_object_get(pmp, "private_auction")),
		.floor = read_floor(source),
		.mimes = read_texts(request, json_object_get(video, "mimes")),
		.min_duration = number_of(json_object_get(video, "minduration"), 0),
		.max_duration = number_of(json_object_get(video, "maxduration"), INFINITY),
	};
	read_deals(request, imp, json_object_get(pmp, "deals"));
	read_sizes(request, imp, json_object_get(source, "banner"));
	return true;
}
