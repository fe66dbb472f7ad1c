/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "bid_response.h"

#include <string.h>

enum { BIDID_SIZE = 32 };

/* Written twice: at first with ptr NULL, for the length only. */
struct out {
	char *ptr;
	size_t len;
};

static void put(struct out *out, const char *text, size_t len)
{
	if (out->ptr)
		memcpy(out->ptr + out->len, text, len);
	out->len += len;
}

static void put_literal(struct out *out, const char *text)
{
	put(out, text, strlen(text));
}

static void put_number(struct out *out, uint64_t number, unsigned base)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[number % base];
		number /= base;
	} while (number);
	put(out, digits + at, sizeof(digits) - at);
}

static void put_escaped(struct out *out, unsigned char c)
{
	char unicode[] = {'\\', 'u', '0', '0', "0123456789abcdef"[c >> 4],
			  "0123456789abcdef"[c & 15]};
	char quoted[] = {'\\', (char)c};

	if (c < ' ')
		put(out, unicode, sizeof(unicode));
	else
		put(out, quoted, sizeof(quoted));
}

/* The parser has seen to it that the text is UTF-8. */
static void put_string(struct out *out, struct wc_span text)
{
	size_t i, plain = 0;

	put_literal(out, "\"");
	for (i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];

		if (c >= ' ' && c != '"' && c != '\\')
			continue;
		put(out, text.ptr + plain, i - plain);
		put_escaped(out, c);
		plain = i + 1;
	}
	put(out, text.ptr + plain, text.len - plain);
	put_literal(out, "\"");
}

static void put_bid(struct out *out, const struct auction_bid *bid, struct wc_span bidid,
		    uint64_t number)
{
	put_literal(out, "{\"id\":\"");
	put(out, bidid.ptr, bidid.len);
	put_literal(out, "-");
	put_number(out, number, 10);
	put_literal(out, "\",\"impid\":");
	put_string(out, bid->impid);
	put_literal(out, ",");
	put(out, bid->creative->bid, bid->creative->bid_len);
	put_literal(out, bid->next ? "}," : "}");
}

static void put_response(struct out *out, const struct auction *auction, struct wc_span id,
			 struct wc_span bidid)
{
	const struct auction_seat *seat;
	const struct auction_bid *bid;
	uint64_t number = 0;

	put_literal(out, "{\"id\":");
	put_string(out, id);
	put_literal(out, ",\"bidid\":\"");
	put(out, bidid.ptr, bidid.len);
	put_literal(out, "\",\"cur\":\"USD\",\"seatbid\":[");
	for (seat = auction->seats; seat; seat = seat->next) {
		put_literal(out, "{\"seat\":");
		put_string(out, seat->seat);
		put_literal(out, ",\"bid\":[");
		for (bid = seat->bids; bid; bid = bid->next)
			put_bid(out, bid, bidid, ++number);
		put_literal(out, seat->next ? "]}," : "]}");
	}
	put_literal(out, "]}");
}

/* FNV-1a of the request's id, and the sequence number. */
static struct wc_span make_bidid(char *room, struct wc_span id, uint64_t sequence)
{
	struct out out = {room, 0};
	uint64_t hash = 14695981039346656037u;
	size_t i;

	for (i = 0; i < id.len; i++)
		hash = (hash ^ (unsigned char)id.ptr[i]) * 1099511628211u;
	put_number(&out, hash & 0xffffffffffffu, 16);
	put_literal(&out, "-");
	put_number(&out, sequence, 16);
	return (struct wc_span){room, out.len};
}

struct wc_span bid_response_write(const struct auction *auction, struct wc_span id,
				  uint64_t sequence, struct wc_request *req)
{
	char room[BIDID_SIZE];
	struct wc_span bidid = make_bidid(room, id, sequence);
	struct out out = {NULL, 0};

	put_response(&out, auction, id, bidid);
	out.ptr = wc_alloc(req, out.len);
	if (!out.ptr)
		return (struct wc_span){NULL, 0};
	out.len = 0;
	put_response(&out, auction, id, bidid);
	return (struct wc_span){out.ptr, out.len};
}
