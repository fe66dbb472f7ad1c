/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "proxy_header.h"

#include <string.h>
#include <sys/socket.h>

enum { V2_HEAD = 16, UNIX_PATH = 108 };

static const char v1_start[6] = "PROXY ";
static const char v2_start[12] = "\r\n\r\n\0\r\nQUIT\n";

/* Version 1: "PROXY TCP4 192.0.2.1 192.0.2.2 4711 80" CRLF. */

struct words {
	const char *at, *end;
};

/* The next word, ended by one blank or the end; NULL: there is none. */
static const char *next_word(struct words *words, size_t *len)
{
	const char *word = words->at;
	const char *blank = word ? memchr(word, ' ', (size_t)(words->end - word)) : NULL;

	if (!word)
		return NULL;
	*len = (size_t)((blank ? blank : words->end) - word);
	words->at = blank ? blank + 1 : NULL;
	return word;
}

static bool read_address(struct words *words, uint16_t family, struct peer *peer)
{
	size_t len;
	const char *word = next_word(words, &len);

	return word && peer_parse_address(peer, word, len) && peer->family == family;
}

static bool read_port(struct words *words, struct peer *peer)
{
	size_t len;
	const char *word = next_word(words, &len);

	return word && peer_parse_port(peer, word, len);
}

/* What stands between "PROXY " and CRLF. */
static bool read_v1(struct words words, struct proxy_header *header)
{
	static const struct {
		const char *name;
		uint16_t family;
	} families[] = {{"TCP4", AF_INET}, {"TCP6", AF_INET6}};
	struct peer server;
	size_t len;
	const char *word = next_word(&words, &len);

	if (!word)
		return false;
	header->has_peer = true;
	if (len == 7 && memcmp(word, "UNKNOWN", 7) == 0) {
		header->has_peer = false;
		return true;
	}
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		if (len == 4 && memcmp(word, families[i].name, 4) == 0)
			return read_address(&words, families[i].family, &header->peer) &&
			       read_address(&words, families[i].family, &server) &&
			       read_port(&words, &header->peer) && read_port(&words, &server) &&
			       !words.at;
	return false;
}

static enum proxy_progress parse_v1(const char *buf, size_t len, struct proxy_header *header)
{
	size_t room = len < PROXY_HEADER_V1_MAX ? len : PROXY_HEADER_V1_MAX;
	const char *end = memchr(buf, '\r', room);
	struct proxy_header found = {0};

	if (!end)
		return len < PROXY_HEADER_V1_MAX ? PROXY_MORE : PROXY_BAD;
	found.len = (size_t)(end - buf) + 2;
	if (found.len > PROXY_HEADER_V1_MAX ||
	    !read_v1((struct words){buf + sizeof v1_start, end}, &found))
		return PROXY_BAD;
	if (found.len > len)
		return PROXY_MORE;
	if (end[1] != '\n')
		return PROXY_BAD;
	*header = found;
	return PROXY_DONE;
}

/* Version 2: addresses as octets, in the network's order. */

enum { COMMAND_LOCAL = 0x20, COMMAND_PROXY = 0x21 };

static uint16_t number16(const char *at)
{
	return (uint16_t)((unsigned char)at[0] << 8 | (unsigned char)at[1]);
}

/* source, destination, their ports */
static void read_v2(struct peer *peer, uint16_t family, const char *block, size_t address_len)
{
	*peer = (struct peer){.family = family};
	if (family == AF_UNIX)
		return;
	memcpy(&peer->address, block, address_len);
	peer->port = number16(block + 2 * address_len);
}

static bool parse_v2_block(const char *buf, size_t len, struct proxy_header *header)
{
	static const struct {
		unsigned char kind; /* family and transport */
		uint16_t family;
		size_t address_len, block_len;
	} kinds[] = {
		{0x11, AF_INET, 4, 12}, {0x21, AF_INET6, 16, 36}, {0x31, AF_UNIX, UNIX_PATH, 2 * UNIX_PATH}};
	unsigned char kind = (unsigned char)buf[13];

	header->has_peer = (unsigned char)buf[12] == COMMAND_PROXY && kind != 0;
	if (!header->has_peer)
		return true;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (kinds[i].kind == kind && len >= kinds[i].block_len) {
			read_v2(&header->peer, kinds[i].family, buf + V2_HEAD, kinds[i].address_len);
			return true;
		}
	return false;
}

static enum proxy_progress parse_v2(const char *buf, size_t len, struct proxy_header *header)
{
	struct proxy_header found = {0};

	if (len > 12 && (unsigned char)buf[12] != COMMAND_LOCAL && (unsigned char)buf[12] != COMMAND_PROXY)
		return PROXY_BAD;
	if (len < V2_HEAD)
		return PROXY_MORE;
	found.len = V2_HEAD + (size_t)number16(buf + 14);
	if (found.len > PROXY_HEADER_V2_MAX)
		return PROXY_BAD;
	if (len < found.len)
		return PROXY_MORE;
	if (!parse_v2_block(buf, found.len - V2_HEAD, &found))
		return PROXY_BAD;
	*header = found;
	return PROXY_DONE;
}

static bool begins(const char *buf, size_t len, const char *start, size_t start_len)
{
	return memcmp(buf, start, len < start_len ? len : start_len) == 0;
}

enum proxy_progress proxy_header_parse(const char *buf, size_t len, struct proxy_header *header)
{
	if (begins(buf, len, v1_start, sizeof v1_start))
		return len < sizeof v1_start ? PROXY_MORE : parse_v1(buf, len, header);
	if (begins(buf, len, v2_start, sizeof v2_start))
		return len < sizeof v2_start ? PROXY_MORE : parse_v2(buf, len, header);
	return PROXY_BAD;
}
