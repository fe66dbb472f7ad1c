/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "bid_request.h"

#include <math.h>
#include <string.h>

/* A member of an object that is read, and where to in what is read of the object. */
struct field {
	struct wc_span name;
	void (*read)(struct bid_request *request, void *target);
	size_t offset;
};

#define FIELD(name, read, offset) {{name, sizeof(name) - 1}, read, offset}
#define END {{NULL, 0}, NULL, 0}
enum { NAME_MAX_LEN = 15 };

struct banner {
	struct bid_size size;
	struct bid_size *formats;
	size_t format_count; /* with both sides */
	bool has_formats;
};

static bool is_next(struct bid_request *request, enum json_reader_kind kind)
{
	if (json_reader_kind(&request->reader) == kind)
		return true;
	json_reader_skip(&request->reader);
	return false;
}

static const struct field *find_field(const struct field *fields,
				      const struct json_reader_string *key)
{
	char decoded[NAME_MAX_LEN];
	const char *name = key->raw.ptr;

	if (key->len > sizeof(decoded))
		return NULL;
	if (key->len < key->raw.len) {
		json_reader_decode(key, decoded);
		name = decoded;
	}
	for (; fields->read; fields++)
		if (fields->name.len == key->len && memcmp(fields->name.ptr, name, key->len) == 0)
			return fields;
	return NULL;
}

/* What comes next, if it is an object: its fields go to their places from `target` on. */
static bool read_object(struct bid_request *request, const struct field *fields, void *target)
{
	struct json_reader_string key;

	if (!is_next(request, JSON_READER_OBJECT) || !json_reader_enter(&request->reader))
		return false;
	while (json_reader_next_key(&request->reader, &key)) {
		const struct field *field = find_field(fields, &key);

		if (field)
			field->read(request, (char *)target + field->offset);
		else
			json_reader_skip(&request->reader);
	}
	return true;
}

/* What comes next, if it is an array: enters it.  `*items` gets room for all of it, *count 0. */
static bool enter_list(struct bid_request *request, void *items, size_t size)
{
	void *room = NULL;
	size_t count;

	if (is_next(request, JSON_READER_ARRAY)) {
		count = json_reader_count(&request->reader);
		room = count ? wc_alloc(request->req, count * size) : NULL;
		if (!room)
			json_reader_skip(&request->reader);
	}
	memcpy(items, &room, sizeof(room));
	return room && json_reader_enter(&request->reader);
}

static struct wc_span decode(const struct bid_request *request,
			     const struct json_reader_string *string)
{
	char *text;

	if (string->len == string->raw.len)
		return string->raw;
	text = wc_alloc(request->req, string->len);
	if (!text)
		return (struct wc_span){"", 0};
	json_reader_decode(string, text);
	return (struct wc_span){text, string->len};
}

static void read_text(struct bid_request *request, void *target)
{
	struct json_reader_string string;
	struct wc_span *text = target;

	*text = (struct wc_span){NULL, 0};
	if (is_next(request, JSON_READER_STRING) && json_reader_string(&request->reader, &string))
		*text = decode(request, &string);
}

static void read_texts(struct bid_request *request, void *target)
{
	struct bid_texts *texts = target;

	*texts = (struct bid_texts){NULL, 0};
	if (enter_list(request, &texts->items, sizeof(texts->items[0])))
		while (json_reader_next_item(&request->reader))
			read_text(request, &texts->items[texts->count++]);
}

static double read_number(struct bid_request *request, double otherwise)
{
	return is_next(request, JSON_READER_NUMBER) ? json_reader_number(&request->reader)
						    : otherwise;
}

/* Without one: 0. */
static void read_least(struct bid_request *request, void *target)
{
	*(double *)target = read_number(request, 0);
}

static void read_most(struct bid_request *request, void *target)
{
	*(double *)target = read_number(request, INFINITY);
}

static void read_flag(struct bid_request *request, void *target)
{
	*(bool *)target = read_number(request, 0) == 1;
}

/* A side of a banner; 0: none that a campaign could have. */
static void read_side(struct bid_request *request, void *target)
{
	double side = read_number(request, 0);

	*(int *)target = side >= 1 && side <= 32767 && (int)side == side ? (int)side : 0;
}

static bool is_usd(struct wc_span text)
{
	return text.len == 3 && memcmp(text.ptr, "USD", 3) == 0;
}

/* Of a floor: US dollars unless it says otherwise. */
static void read_currency(struct bid_request *request, void *target)
{
	struct wc_span text;

	read_text(request, &text);
	*(bool *)target = !text.ptr || is_usd(text);
}

static void read_currencies(struct bid_request *request, void *target)
{
	bool is_list = json_reader_kind(&request->reader) == JSON_READER_ARRAY;
	struct bid_texts texts;
	size_t i;

	read_texts(request, &texts);
	*(bool *)target = !is_list;
	for (i = 0; i < texts.count; i++)
		*(bool *)target |= is_usd(texts.items[i]);
}

static void read_is_string(struct bid_request *request, void *target)
{
	*(bool *)target = json_reader_kind(&request->reader) == JSON_READER_STRING;
	json_reader_skip(&request->reader);
}

static const struct field deal_fields[] = {
	FIELD("id", read_text, offsetof(struct bid_deal, id)),
	FIELD("bidfloor", read_least, offsetof(struct bid_deal, floor.price)),
	FIELD("bidfloorcur", read_currency, offsetof(struct bid_deal, floor.is_usd)),
	END,
};

static void read_deals(struct bid_request *request, void *target)
{
	struct bid_imp *imp = target;

	imp->deal_count = 0;
	if (!enter_list(request, &imp->deals, sizeof(imp->deals[0])))
		return;
	while (json_reader_next_item(&request->reader)) {
		struct bid_deal deal = {.floor.is_usd = true};

		if (read_object(request, deal_fields, &deal) && deal.id.ptr)
			imp->deals[imp->deal_count++] = deal;
	}
}

static const struct field pmp_fields[] = {
	FIELD("deals", read_deals, 0),
	FIELD("private_auction", read_flag, offsetof(struct bid_imp, private_auction)),
	END,
};

static void read_pmp(struct bid_request *request, void *target)
{
	struct bid_imp *imp = target;

	imp->deal_count = 0;
	imp->private_auction = false;
	read_object(request, pmp_fields, imp);
}

static const struct field video_fields[] = {
	FIELD("mimes", read_texts, offsetof(struct bid_imp, mimes)),
	FIELD("minduration", read_least, offsetof(struct bid_imp, min_duration)),
	FIELD("maxduration", read_most, offsetof(struct bid_imp, max_duration)),
	END,
};

static void read_video(struct bid_request *request, void *target)
{
	struct bid_imp *imp = target;

	imp->mimes.count = 0;
	imp->min_duration = 0;
	imp->max_duration = INFINITY;
	read_object(request, video_fields, imp);
}

static const struct field size_fields[] = {
	FIELD("w", read_side, offsetof(struct bid_size, w)),
	FIELD("h", read_side, offsetof(struct bid_size, h)),
	END,
};

/* A list without items is none. */
static void read_formats(struct bid_request *request, void *target)
{
	struct banner *banner = target;

	banner->format_count = 0;
	banner->has_formats = enter_list(request, &banner->formats, sizeof(banner->formats[0]));
	while (banner->has_formats && json_reader_next_item(&request->reader)) {
		struct bid_size size = {0, 0};

		if (read_object(request, size_fields, &size) && size.w > 0 && size.h > 0)
			banner->formats[banner->format_count++] = size;
	}
}

static const struct field banner_fields[] = {
	FIELD("format", read_formats, 0),
	FIELD("w", read_side, offsetof(struct banner, size.w)),
	FIELD("h", read_side, offsetof(struct banner, size.h)),
	END,
};

static void read_banner(struct bid_request *request, void *target)
{
	struct bid_imp *imp = target;
	struct banner banner = {.formats = NULL};

	read_object(request, banner_fields, &banner);
	imp->sizes = banner.formats;
	imp->size_count = banner.format_count;
	if (banner.has_formats || banner.size.w == 0 || banner.size.h == 0)
		return;
	imp->sizes = wc_alloc(request->req, sizeof(imp->sizes[0]));
	if (imp->sizes)
		imp->sizes[imp->size_count++] = banner.size;
}

static const struct field imp_fields[] = {
	FIELD("id", read_text, offsetof(struct bid_imp, id)),
	FIELD("banner", read_banner, 0),
	FIELD("video", read_video, 0),
	FIELD("pmp", read_pmp, 0),
	FIELD("secure", read_flag, offsetof(struct bid_imp, secure)),
	FIELD("bidfloor", read_least, offsetof(struct bid_imp, floor.price)),
	FIELD("bidfloorcur", read_currency, offsetof(struct bid_imp, floor.is_usd)),
	END,
};

static const struct field imp_check_fields[] = {FIELD("id", read_is_string, 0), END};

/*
 * At first imps are only checked, and read when they are asked for: what stands behind them may
 * still be wrong, and a request may have more of them than memory.
 */
static void check_imps(struct bid_request *request, void *target)
{
	struct json_reader *reader = &request->reader;

	(void)target;
	request->imp_fault = BID_REQUEST_NO_IMP;
	if (!is_next(request, JSON_READER_ARRAY))
		return;
	request->imps = json_reader_place(reader);
	json_reader_enter(reader);
	while (json_reader_next_item(reader)) {
		bool has_id = false;

		read_object(request, imp_check_fields, &has_id);
		if (request->imp_fault == BID_REQUEST_NO_IMP)
			request->imp_fault = BID_REQUEST_FINE;
		if (!has_id)
			request->imp_fault = BID_REQUEST_BAD_IMP;
	}
}

static const struct field geo_fields[] = {
	FIELD("country", read_text, offsetof(struct bid_request, country)),
	END,
};

static void read_geo(struct bid_request *request, void *target)
{
	request->country = (struct wc_span){NULL, 0};
	read_object(request, geo_fields, target);
}

static const struct field device_fields[] = {FIELD("geo", read_geo, 0), END};

static void read_device(struct bid_request *request, void *target)
{
	request->country = (struct wc_span){NULL, 0};
	read_object(request, device_fields, target);
}

static const struct field request_fields[] = {
	FIELD("id", read_text, offsetof(struct bid_request, id)),
	FIELD("imp", check_imps, 0),
	FIELD("device", read_device, 0),
	FIELD("cur", read_currencies, offsetof(struct bid_request, is_usd)),
	FIELD("wseat", read_texts, offsetof(struct bid_request, wseat)),
	FIELD("bseat", read_texts, offsetof(struct bid_request, bseat)),
	FIELD("badv", read_texts, offsetof(struct bid_request, badv)),
	FIELD("bcat", read_texts, offsetof(struct bid_request, bcat)),
	END,
};

static enum bid_request_fault read_all(struct bid_request *request)
{
	enum json_reader_kind kind = json_reader_kind(&request->reader);

	if (kind != JSON_READER_OBJECT && kind != JSON_READER_ARRAY)
		return BID_REQUEST_NO_JSON;
	read_object(request, request_fields, request);
	if (!json_reader_is_complete(&request->reader))
		return BID_REQUEST_NO_JSON;
	if (kind != JSON_READER_OBJECT)
		return BID_REQUEST_NO_OBJECT;
	return request->id.ptr ? request->imp_fault : BID_REQUEST_NO_ID;
}

enum bid_request_fault bid_request_read(struct bid_request *request, struct wc_request *req)
{
	enum bid_request_fault fault;

	*request = (struct bid_request){
		.req = req, .is_usd = true, .imp_fault = BID_REQUEST_NO_IMP};
	json_reader_init(&request->reader, wc_body(req));
	fault = read_all(request);
	if (fault == BID_REQUEST_FINE) {
		json_reader_return(&request->reader, request->imps);
		json_reader_enter(&request->reader);
	}
	return fault;
}

bool bid_request_next_imp(struct bid_request *request, struct bid_imp *imp)
{
	if (!json_reader_next_item(&request->reader))
		return false;
	*imp = (struct bid_imp){.floor.is_usd = true, .max_duration = INFINITY};
	read_object(request, imp_fields, imp);
	return true;
}
