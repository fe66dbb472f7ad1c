/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "campaign.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "creative.h"

/* Widest banner and longest video that a campaign may have. */
enum { SIZE_MAX_PX = 32767, DURATION_MAX = 86399 };

struct reader {
	struct campaigns *campaigns;
	struct wc_worker *worker;
	const char *source; /* what the places that are named begin with */
	unsigned mistakes;
};

struct field {
	const char *name;
	bool required;
	/* False: not `expected`. */
	bool (*read)(struct reader *reader, struct campaign *campaign, const json_t *value);
	const char *expected;
};

__attribute__((format(printf, 2, 3))) static void complain(struct reader *reader,
							   const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	wc_log(reader->worker, WC_LOG_ERROR, "%s%s", reader->source, text);
	reader->mistakes++;
}

static void complain_value(struct reader *reader, const char *place, const json_t *value,
			   const char *expected)
{
	const int flags = JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15);
	char *found = value ? json_dumps(value, flags) : NULL;

	complain(reader, "%s: found %.60s%s, expected %s", place, found ? found : "nothing",
		 found && strlen(found) > 60 ? "..." : "", expected);
	free(found);
}

/* `items` with room for one more than `count`; NULL without memory, and `items` as it was. */
static void *grow(struct reader *reader, void *items, size_t count, size_t *room, size_t size)
{
	size_t more = *room ? *room * 2 : 8;
	void *bigger;

	if (count < *room)
		return items;
	bigger = realloc(items, more * size);
	if (bigger)
		*room = more;
	else
		complain(reader, "out of memory");
	return bigger;
}

/* Text that isn't empty and holds no NUL. */
static bool is_text(const json_t *value)
{
	size_t len = json_string_length(value);

	return len > 0 && strlen(json_string_value(value)) == len;
}

static bool is_text_list(const json_t *value)
{
	size_t i, count = json_array_size(value);

	for (i = 0; i < count; i++)
		if (!is_text(json_array_get(value, i)))
			return false;
	return json_is_array(value);
}

static bool is_within(const json_t *value, json_int_t min, json_int_t max)
{
	return json_is_integer(value) && json_integer_value(value) >= min &&
	       json_integer_value(value) <= max;
}

static struct wc_span span_from(const json_t *text)
{
	return (struct wc_span){json_string_value(text), json_string_length(text)};
}

static void add_term(struct reader *reader, const struct campaign *campaign,
		     enum campaign_role role, struct wc_span text)
{
	struct campaigns *all = reader->campaigns;
	struct campaign_term *terms =
		grow(reader, all->terms, all->term_count, &all->term_room, sizeof(*terms));

	if (!terms)
		return;
	all->terms = terms;
	terms[all->term_count++] = (struct campaign_term){role, text, campaign->position};
}

static void add_terms(struct reader *reader, const struct campaign *campaign,
		      enum campaign_role role, const json_t *list)
{
	size_t i, count = json_array_size(list);

	for (i = 0; i < count; i++)
		add_term(reader, campaign, role, span_from(json_array_get(list, i)));
}

static bool read_id(struct reader *reader, struct campaign *campaign, const json_t *value)
{
	(void)reader;
	(void)campaign;
	return is_text(value);
}

static bool read_seat(struct reader *reader, struct campaign *campaign, const json_t *value)
{
	if (!is_text(value))
		return false;
	campaign->seat = span_from(value);
	add_term(reader, campaign, CAMPAIGN_SEAT, campaign->seat);
	return true;
}

static bool read_adomain(struct reader *reader, struct campaign *campaign, const json_t *value)
{
	if (!is_text_list(value))
		return false;
	add_terms(reader, campaign, CAMPAIGN_ADOMAIN, value);
	return true;
}

/* A category blocks those below it: the term of IAB2-1 is also found as IAB2. */
static bool read_cat(struct reader *reader, struct campaign *campaign, const json_t *value)
{
	size_t i, count = json_array_size(value);

	if (!is_text_list(value))
		return false;
	for (i = 0; i < count; i++) {
		struct wc_span text = span_from(json_array_get(value, i));
		const char *dash;

		add_term(reader, campaign, CAMPAIGN_CATEGORY, text);
		for (dash = text.ptr; (dash = strchr(dash, '-')); dash++)
			if (dash > text.ptr)
				add_term(reader, campaign, CAMPAIGN_CATEGORY,
					 (struct wc_span){text.ptr, (size_t)(dash - text.ptr)});
	}
	return true;
}

static bool read_countries(struct reader *reader, struct campaign *campaign, const json_t *value)
{
	if (!is_text_list(value))
		return false;
	campaign->has_countries = json_array_size(value) > 0;
	add_terms(reader, campaign, CAMPAIGN_COUNTRY, value);
	return true;
}

static bool read_price(struct reader *reader, struct campaign *campaign, const json_t *value)
{
	(void)reader;
	campaign->price = json_number_value(value);
	return json_is_number(value) && isfinite(campaign->price) && campaign->price >= 0;
}

static bool read_deal(struct reader *reader, struct campaign *campaign, const json_t *value)
{
	(void)reader;
	campaign->deal = span_from(value);
	return is_text(value);
}

static bool read_secure(struct reader *reader, struct campaign *campaign, const json_t *value)
{
	(void)reader;
	campaign->secure = json_is_true(value);
	return json_is_boolean(value);
}

static void add_creative(struct reader *reader, struct campaign *campaign,
			 struct campaign_creative creative)
{
	struct campaign_creative *creatives = grow(reader, campaign->creatives,
						   campaign->creative_count,
						   &campaign->creative_room, sizeof(creative));

	if (!creatives)
		return;
	campaign->creatives = creatives;
	creatives[campaign->creative_count++] = creative;
}

static bool is_size(const json_t *value)
{
	return json_array_size(value) == 2 && is_within(json_array_get(value, 0), 1, SIZE_MAX_PX) &&
	       is_within(json_array_get(value, 1), 1, SIZE_MAX_PX);
}

static bool read_banner(struct reader *reader, struct campaign *campaign, const json_t *value)
{
	size_t i, count = json_array_size(value);

	for (i = 0; i < count; i++) {
		const json_t *size = json_array_get(value, i);

		if (!is_size(size))
			return false;
		add_creative(reader, campaign,
			     (struct campaign_creative){
				     .media = CAMPAIGN_BANNER,
				     .w = (int)json_integer_value(json_array_get(size, 0)),
				     .h = (int)json_integer_value(json_array_get(size, 1)),
			     });
	}
	return count > 0;
}

static bool read_video(struct reader *reader, struct campaign *campaign, const json_t *value)
{
	const json_t *mimes = json_object_get(value, "mimes");
	const json_t *duration = json_object_get(value, "duration");
	size_t i, count = json_array_size(mimes);

	if (json_object_size(value) != 2 || !is_text_list(mimes) || count == 0 ||
	    !is_within(duration, 1, DURATION_MAX))
		return false;
	campaign->duration = json_number_value(duration);
	for (i = 0; i < count; i++)
		add_creative(reader, campaign,
			     (struct campaign_creative){
				     .media = CAMPAIGN_VIDEO,
				     .mime = span_from(json_array_get(mimes, i)),
			     });
	return true;
}

static const struct field fields[] = {
	{"id", true, read_id, "a string that is not empty"},
	{"seat", true, read_seat, "a string that is not empty"},
	{"adomain", false, read_adomain, "a list of strings"},
	{"cat", false, read_cat, "a list of strings"},
	{"price", true, read_price, "a number from 0 up"},
	{"deal", false, read_deal, "a string that is not empty"},
	{"countries", false, read_countries, "a list of strings"},
	{"secure", false, read_secure, "true or false"},
	{"banner", false, read_banner, "a list of [width, height], each from 1 to 32767"},
	{"video", false, read_video,
	 "an object of mimes, a list of strings, and duration, from 1 to 86399 seconds"},
};

enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

static bool is_field(const char *key)
{
	size_t i;

	for (i = 0; i < FIELD_COUNT; i++)
		if (strcmp(fields[i].name, key) == 0)
			return true;
	return false;
}

static bool is_root_key(const char *key)
{
	return strcmp(key, "campaigns") == 0;
}

/* Keys that begin with two slashes are comments, as in the server's configuration. */
static void check_keys(struct reader *reader, const char *place, const json_t *object,
		       bool (*is_known)(const char *key))
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)object, key, value)
		if (!is_known(key) && strncmp(key, "//", 2) != 0)
			complain(reader, "%s%.60s: unknown key", place, key);
}

static void render(struct reader *reader, struct campaign *campaign, const json_t *source)
{
	size_t i;

	for (i = 0; i < campaign->creative_count; i++)
		if (!creative_render(&campaign->creatives[i], source))
			complain(reader, "campaigns[%zu]: out of memory", campaign->position);
}

static void read_campaign(struct reader *reader, struct campaign *campaign, const json_t *source)
{
	unsigned mistakes = reader->mistakes;
	char place[64];
	size_t i;

	snprintf(place, sizeof(place), "campaigns[%zu]", campaign->position);
	if (!json_is_object(source)) {
		complain_value(reader, place, source, "an object");
		return;
	}
	snprintf(place, sizeof(place), "campaigns[%zu].", campaign->position);
	check_keys(reader, place, source, is_field);
	for (i = 0; i < FIELD_COUNT; i++) {
		const json_t *value = json_object_get(source, fields[i].name);

		snprintf(place, sizeof(place), "campaigns[%zu].%s", campaign->position,
			 fields[i].name);
		if ((value || fields[i].required) && !fields[i].read(reader, campaign, value))
			complain_value(reader, place, value, fields[i].expected);
	}
	if (reader->mistakes == mistakes)
		render(reader, campaign, source);
}

static int compare_terms(const void *left, const void *right)
{
	const struct campaign_term *a = left, *b = right;

	if (a->role != b->role)
		return a->role < b->role ? -1 : 1;
	if (a->text.len != b->text.len)
		return a->text.len < b->text.len ? -1 : 1;
	return memcmp(a->text.ptr, b->text.ptr, a->text.len);
}

static int compare_campaigns(const void *left, const void *right)
{
	const struct campaign *a = left, *b = right;

	if (a->price != b->price)
		return a->price > b->price ? -1 : 1;
	return a->position < b->position ? -1 : a->position > b->position;
}

/* The terms were made with positions; they are to hold indexes of the sorted campaigns. */
static bool sort(struct campaigns *campaigns)
{
	size_t *places = calloc(campaigns->count + 1, sizeof(*places));
	size_t i;

	if (!places)
		return false;
	if (campaigns->count)
		qsort(campaigns->items, campaigns->count, sizeof(campaigns->items[0]),
		      compare_campaigns);
	for (i = 0; i < campaigns->count; i++)
		places[campaigns->items[i].position] = i;
	for (i = 0; i < campaigns->term_count; i++)
		campaigns->terms[i].campaign = places[campaigns->terms[i].campaign];
	if (campaigns->term_count)
		qsort(campaigns->terms, campaigns->term_count, sizeof(campaigns->terms[0]),
		      compare_terms);
	free(places);
	return true;
}

static void read_all(struct reader *reader, const json_t *list)
{
	size_t i, count = json_array_size(list);
	struct campaign *items = calloc(count + 1, sizeof(*items));

	reader->campaigns->items = items;
	if (!json_is_array(list)) {
		complain_value(reader, "campaigns", list, "a list of objects");
		return;
	}
	if (!items) {
		complain(reader, "out of memory");
		return;
	}
	reader->campaigns->count = count;
	for (i = 0; i < count; i++) {
		items[i].position = i;
		read_campaign(reader, &items[i], json_array_get(list, i));
	}
	if (!sort(reader->campaigns))
		complain(reader, "out of memory");
}

/* The object of the campaigns: the options, or what is in the file that they name. */
static json_t *open_root(struct reader *reader, const json_t *options)
{
	const json_t *file = json_object_get(options, "file");
	json_error_t error;
	json_t *root;

	if (!file)
		return json_incref((json_t *)options);
	if (!is_text(file) || json_object_size(options) != 1) {
		complain_value(reader, "options", options,
			       "either {\"campaigns\": [...]} or {\"file\": path}");
		return NULL;
	}
	root = json_load_file(json_string_value(file), JSON_REJECT_DUPLICATES, &error);
	if (!root)
		complain(reader, "%s: line %d, column %d: %s", json_string_value(file), error.line,
			 error.column, error.text);
	return root;
}

struct campaigns *campaign_load(const json_t *options, struct wc_worker *worker)
{
	struct campaigns *campaigns = calloc(1, sizeof(*campaigns));
	struct reader reader = {campaigns, worker, "", 0};
	char source[256];

	if (!campaigns) {
		complain(&reader, "out of memory");
		return NULL;
	}
	campaigns->root = open_root(&reader, options);
	if (campaigns->root != options) {
		snprintf(source, sizeof(source), "%s: ",
			 json_string_value(json_object_get(options, "file")));
		reader.source = source;
	}
	check_keys(&reader, "", campaigns->root, is_root_key);
	if (campaigns->root)
		read_all(&reader, json_object_get(campaigns->root, "campaigns"));
	if (!reader.mistakes)
		return campaigns;
	campaign_free(campaigns);
	return NULL;
}

void campaign_free(struct campaigns *campaigns)
{
	size_t i, j;

	if (!campaigns)
		return;
	for (i = 0; i < campaigns->count; i++) {
		for (j = 0; j < campaigns->items[i].creative_count; j++)
			free(campaigns->items[i].creatives[j].bid);
		free(campaigns->items[i].creatives);
	}
	free(campaigns->items);
	free(campaigns->terms);
	json_decref(campaigns->root);
	free(campaigns);
}

const struct campaign_term *campaign_find(const struct campaigns *campaigns,
					  enum campaign_role role, struct wc_span text,
					  size_t *count)
{
	const struct campaign_term key = {role, text, 0};
	size_t low = 0, high = campaigns->term_count;
	size_t end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_terms(&campaigns->terms[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < campaigns->term_count; end++)
		if (compare_terms(&campaigns->terms[end], &key) != 0)
			break;
	*count = end - low;
	return campaigns->terms + low;
}
