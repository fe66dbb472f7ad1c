/* SPDX-License-Identifier: MIT */
/*
 * The header of the PROXY protocol, versions 1 and 2: what a balancer says of the client before it
 * passes the client's octets on.  https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt
 *
 * Strict: whatever is not such a header to the octet is refused.  Pure.
 */
#ifndef PROXY_HEADER_H
#define PROXY_HEADER_H

#include <stdbool.h>
#include <stddef.h>

#include "peer.h"

enum {
	PROXY_HEADER_V1_MAX = 107,       /* octets, the CRLF included */
	PROXY_HEADER_V2_MAX = 16 + 4096, /* extensions (TLVs) included, which are skipped */
};

enum proxy_progress {
	PROXY_MORE, /* not whole yet */
	PROXY_DONE,
	PROXY_BAD,
};

struct proxy_header {
	size_t len;    /* octets of the header */
	bool has_peer; /* false (LOCAL, UNKNOWN, UNSPEC): the connection's own address is meant */
	struct peer peer; /* AF_INET, AF_INET6 or AF_UNIX */
};

/* Looks at the octets from the connection's first on.  *header is set on PROXY_DONE only. */
enum proxy_progress proxy_header_parse(const char *buf, size_t len, struct proxy_header *header);

#endif
