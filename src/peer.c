/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

const char *peer_text(const struct peer *peer, char *out)
{
	char address[INET6_ADDRSTRLEN];

	if (peer->family == AF_UNIX)
		return strcpy(out, "unix:");
	inet_ntop(peer->family, &peer->address, address, sizeof address);
	snprintf(out, PEER_TEXT, peer->family == AF_INET6 ? "[%s]:%u" : "%s:%u", address,
		 (unsigned)peer->port);
	return out;
}

bool peer_parse_address(struct peer *peer, const char *text, size_t len)
{
	char copy[INET6_ADDRSTRLEN];
	uint16_t family = memchr(text, ':', len) ? AF_INET6 : AF_INET;

	if (len >= sizeof copy)
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (strlen(copy) != len || inet_pton(family, copy, &peer->address) != 1)
		return false;
	peer->family = family;
	return true;
}

bool peer_parse_port(struct peer *peer, const char *text, size_t len)
{
	unsigned port = 0;

	if (len == 0 || len > 5 || (len > 1 && text[0] == '0'))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		port = 10 * port + (unsigned)(text[i] - '0');
	}
	peer->port = (uint16_t)port;
	return port <= UINT16_MAX;
}

static bool parse_bracketed(struct peer *peer, const char *text, size_t len)
{
	const char *end = memchr(text, ']', len);
	size_t inside = end ? (size_t)(end - text) - 1 : 0, rest = end ? len - inside - 2 : 0;

	return end && memchr(text, ':', inside + 1) && peer_parse_address(peer, text + 1, inside) &&
	       (rest == 0 || (end[1] == ':' && peer_parse_port(peer, end + 2, rest - 1)));
}

bool peer_parse(struct peer *peer, const char *text, size_t len)
{
	const char *colon = memchr(text, ':', len);
	size_t before = colon ? (size_t)(colon - text) : len;

	peer->port = 0;
	if (len > 0 && text[0] == '[')
		return parse_bracketed(peer, text, len);
	if (!colon || memchr(colon + 1, ':', len - before - 1))
		return peer_parse_address(peer, text, len);
	return peer_parse_address(peer, text, before) &&
	       peer_parse_port(peer, colon + 1, len - before - 1);
}

static unsigned bits_of(uint16_t family)
{
	return family == AF_INET ? 32 : 128;
}

bool network_parse(struct network *network, const char *text)
{
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	struct peer bits = {.port = 0};

	network->address = (struct peer){.port = 0};
	if (strcmp(text, "unix:") == 0) {
		network->address.family = AF_UNIX;
		network->bits = 0;
		return true;
	}
	if (!peer_parse_address(&network->address, text, len))
		return false;
	network->bits = bits_of(network->address.family);
	if (!slash)
		return true;
	if (!peer_parse_port(&bits, slash + 1, strlen(slash + 1)) || bits.port > network->bits)
		return false;
	network->bits = bits.port;
	return true;
}

static bool has_prefix(const void *a, const void *b, unsigned bits)
{
	const unsigned char *left = a, *right = b;
	unsigned whole = bits / 8, rest = bits % 8;

	return memcmp(left, right, whole) == 0 &&
	       (rest == 0 || (left[whole] ^ right[whole]) >> (8 - rest) == 0);
}

bool network_holds(const struct network *network, const struct peer *peer)
{
	if (peer->family == network->address.family)
		return has_prefix(&peer->address, &network->address.address, network->bits);
	return peer->family == AF_INET6 && network->address.family == AF_INET &&
	       IN6_IS_ADDR_V4MAPPED(&peer->address.in6) &&
	       has_prefix(&peer->address.in6.s6_addr[12], &network->address.address, network->bits);
}
