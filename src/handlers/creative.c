/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "creative.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const escapes[256] = {
	['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;",
};

/* Text for HTML or XML; in the heap. */
static char *new_markup(const char *text)
{
	char *markup = malloc(strlen(text) * strlen("&quot;") + 1);
	char *end = markup;

	for (; markup && *text; text++) {
		const char *escaped = escapes[(unsigned char)*text];

		if (escaped)
			end = stpcpy(end, escaped);
		else
			*end++ = *text;
	}
	if (markup)
		*end = '\0';
	return markup;
}

static json_t *banner_adm(const struct campaign_creative *c, const char *id, const char *domain)
{
	return json_sprintf("<a href=\"https://%s/\"><img src=\"https://%s/%s-%dx%d.png\" "
			    "width=\"%d\" height=\"%d\" alt=\"\"></a>",
			    domain, domain, id, c->w, c->h, c->w, c->h);
}

static json_t *video_adm(const char *id, const char *domain, const char *mime, int duration)
{
	return json_sprintf(
		"<VAST version=\"4.0\"><Ad id=\"%s\"><InLine><AdSystem>whitecap</AdSystem>"
		"<AdTitle>%s</AdTitle><Impression>https://%s/i</Impression><Creatives><Creative>"
		"<Linear><Duration>%02d:%02d:%02d</Duration><MediaFiles><MediaFile "
		"delivery=\"progressive\" type=\"%s\" width=\"1280\" height=\"720\">"
		"https://%s/%s</MediaFile></MediaFiles></Linear></Creative></Creatives></InLine>"
		"</Ad></VAST>",
		id, id, domain, duration / 3600, duration / 60 % 60, duration % 60, mime, domain,
		id);
}

static json_t *adm_new(const struct campaign_creative *creative, const json_t *source)
{
	const json_t *first = json_array_get(json_object_get(source, "adomain"), 0);
	const json_t *video = json_object_get(source, "video");
	char *id = new_markup(json_string_value(json_object_get(source, "id")));
	char *domain = new_markup(first ? json_string_value(first) : "creative.example");
	char *mime = new_markup(creative->mime.ptr ? creative->mime.ptr : "");
	json_t *adm = NULL;

	if (id && domain && mime && creative->media == CAMPAIGN_BANNER)
		adm = banner_adm(creative, id, domain);
	else if (id && domain && mime)
		adm = video_adm(id, domain, mime,
				(int)json_integer_value(json_object_get(video, "duration")));
	free(id);
	free(domain);
	free(mime);
	return adm;
}

/* The fewest digits that give the same number again: 0.8, not 0.80000000000000004. */
static size_t price_precision(const json_t *price)
{
	char text[64];
	size_t digits = 15;

	for (; digits < 17; digits++) {
		size_t len = json_dumpb(price, text, sizeof(text),
					JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
		json_t *again = json_loadb(text, len, JSON_DECODE_ANY, NULL);
		bool is_same = json_number_value(again) == json_number_value(price);

		json_decref(again);
		if (is_same)
			break;
	}
	return digits;
}

static json_t *crid_new(const struct campaign_creative *creative, const char *id)
{
	if (creative->media == CAMPAIGN_VIDEO)
		return json_sprintf("%s-video", id);
	return json_sprintf("%s-%dx%d", id, creative->w, creative->h);
}

static json_t *adomain_new(const json_t *source)
{
	json_t *adomain = json_object_get(source, "adomain");

	return adomain ? json_incref(adomain) : json_array();
}

static json_t *bid_new(const struct campaign_creative *creative, const json_t *source)
{
	json_t *id = json_object_get(source, "id");
	json_t *deal = json_object_get(source, "deal");
	json_t *bid = json_pack("{s:O, s:O, s:o, s:O, s:o, s:o, s:i}", "price",
				json_object_get(source, "price"), "cid", id, "crid",
				crid_new(creative, json_string_value(id)), "adid", id, "adomain",
				adomain_new(source), "adm", adm_new(creative, source), "mtype",
				(int)creative->media);
	int failed = bid ? 0 : -1;

	if (creative->media == CAMPAIGN_BANNER) {
		failed |= json_object_set_new(bid, "w", json_integer(creative->w));
		failed |= json_object_set_new(bid, "h", json_integer(creative->h));
	}
	if (deal)
		failed |= json_object_set(bid, "dealid", deal);
	if (!failed)
		return bid;
	json_decref(bid);
	return NULL;
}

bool creative_render(struct campaign_creative *creative, const json_t *source)
{
	size_t digits = price_precision(json_object_get(source, "price"));
	json_t *bid = bid_new(creative, source);
	char *text = bid ? json_dumps(bid, JSON_COMPACT | JSON_REAL_PRECISION(digits)) : NULL;

	json_decref(bid);
	if (!text)
		return false;
	creative->bid_len = strlen(text) - strlen("{}");
	memmove(text, text + 1, creative->bid_len);
	creative->bid = text;
	return true;
}
