/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "forwarded.h"

bool forwarded_is_trusted(const struct networks *trusted, const struct peer *peer)
{
	for (size_t i = 0; i < trusted->count; i++)
		if (network_holds(&trusted->list[i], peer))
			return true;
	return false;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Cuts the last element off, without the blanks around it. */
static struct wc_span cut_last(struct wc_span *line)
{
	const char *comma = line->len ? memrchr(line->ptr, ',', line->len) : NULL;
	size_t begin = comma ? (size_t)(comma - line->ptr) + 1 : 0;
	struct wc_span element = {line->ptr + begin, line->len - begin};

	line->len = comma ? begin - 1 : 0;
	while (element.len > 0 && is_blank(element.ptr[0]))
		element.ptr++, element.len--;
	while (element.len > 0 && is_blank(element.ptr[element.len - 1]))
		element.len--;
	return element;
}

bool forwarded_walk(struct peer *peer, const struct networks *trusted, struct wc_span line)
{
	while (line.len > 0) {
		struct wc_span element = cut_last(&line);
		struct peer next;

		if (element.len == 0) /* lists may have empty elements (RFC 9110, 5.6.1.2) */
			continue;
		if (!peer_parse(&next, element.ptr, element.len))
			return false;
		*peer = next;
		if (!forwarded_is_trusted(trusted, peer))
			return false;
	}
	return true;
}
