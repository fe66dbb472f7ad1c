/* SPDX-License-Identifier: MIT */
/* Addresses of clients, packed, and networks that they may be in.  Pure. */
#ifndef PEER_H
#define PEER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer {
	uint16_t family; /* AF_INET, AF_INET6 or AF_UNIX */
	uint16_t port;   /* host's order; 0: not known */
	union {
		struct in_addr in;
		struct in6_addr in6;
	} address;
};

/* As wc_peer(): "192.0.2.1:4711"; out has PEER_TEXT octets. */
enum { PEER_TEXT = INET6_ADDRSTRLEN + 9 };
const char *peer_text(const struct peer *peer, char *out);

/* Sets family and address, not the port, from `len` octets: an IPv4 or IPv6 address and nothing
 * else. */
bool peer_parse_address(struct peer *peer, const char *text, size_t len);

/* A decimal port without leading zeros. */
bool peer_parse_port(struct peer *peer, const char *text, size_t len);

/* The same forms with a port or without: "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]",
 * "[2001:db8::1]:80". */
bool peer_parse(struct peer *peer, const char *text, size_t len);

struct network {
	struct peer address;
	unsigned bits;
};

/* "10.0.0.0/8", or an address: that one alone; or "unix:": whoever comes by a unix socket. */
bool network_parse(struct network *network, const char *text);

/* An IPv4 address mapped into IPv6 is in the networks of both. */
bool network_holds(const struct network *network, const struct peer *peer);

#endif
