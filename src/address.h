/* SPDX-License-Identifier: MIT */
/* Addresses of listeners as text: "127.0.0.1:80", "[::1]:80", "unix:/run/x", "fd:NAME". */
#ifndef ADDRESS_H
#define ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum address_kind { ADDRESS_INET, ADDRESS_UNIX, ADDRESS_PASSED };

enum { ADDRESS_TEXT_MAX = 160 }; /* of address_format(), with the NUL */

struct address {
	enum address_kind kind;
	const char *name;           /* PATH or NAME, within the text that was parsed */
	struct sockaddr_storage sa; /* not for ADDRESS_PASSED */
	socklen_t len;
};

/* 0, or -1: *expected is what the text should have been. */
int address_parse(struct address *address, const char *text, const char **expected);

/* For ADDRESS_INET. */
unsigned address_port(const struct address *address);

/*
 * Two of ADDRESS_INET that can't be listened on at once: the same socket, or one's wildcard covers
 * the other.  Unix sockets are told by their files, not by their texts.
 */
bool address_is_overlapping(const struct address *a, const struct address *b);

/* The address as text, as in a configuration; always terminated. */
void address_format(const struct sockaddr *sa, socklen_t len, char text[ADDRESS_TEXT_MAX]);

#endif
