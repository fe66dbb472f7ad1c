/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "config_address.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "number.h"

enum { FD_NAME_MAX = 255 }; /* of systemd's FileDescriptorName= */

/* Whether text[0..len) is an address of that family; if so, out gets it in canonical form. */
static bool read_ip(int family, const char *text, size_t len, char out[static INET6_ADDRSTRLEN])
{
	char copy[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (len >= sizeof copy)
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	return inet_pton(family, copy, &address) == 1 &&
	       inet_ntop(family, &address, out, INET6_ADDRSTRLEN);
}

static char *ip4_new(const char *text)
{
	const char *colon = strrchr(text, ':');
	char ip[INET6_ADDRSTRLEN], *address;
	uint64_t port;

	if (!colon || !number_parse_count(colon + 1, &port) || port > UINT16_MAX ||
	    !read_ip(AF_INET, text, (size_t)(colon - text), ip) ||
	    asprintf(&address, "%s:%" PRIu64, ip, port) < 0)
		return NULL;
	return address;
}

static char *ip6_new(const char *text)
{
	const char *end = strstr(text, "]:");
	char ip[INET6_ADDRSTRLEN], *address;
	uint64_t port;

	if (!end || !number_parse_count(end + 2, &port) || port > UINT16_MAX ||
	    !read_ip(AF_INET6, text + 1, (size_t)(end - text - 1), ip) ||
	    asprintf(&address, "[%s]:%" PRIu64, ip, port) < 0)
		return NULL;
	return address;
}

static char *unix_new(const char *text)
{
	size_t len = strlen(text + strlen("unix:"));

	return len > 0 && len < sizeof((struct sockaddr_un *)0)->sun_path ? strdup(text) : NULL;
}

static char *fd_new(const char *text)
{
	const char *name = text + strlen("fd:");
	size_t len = strlen(name);

	if (len == 0 || len > FD_NAME_MAX)
		return NULL;
	for (const char *p = name; *p; p++)
		if (*p <= ' ' || *p >= '\x7f' || *p == ':')
			return NULL;
	return strdup(text);
}

char *config_address_new(const char *text)
{
	static const struct {
		const char *prefix;
		char *(*make)(const char *text);
	} kinds[] = {{"unix:", unix_new}, {"fd:", fd_new}, {"[", ip6_new}, {"", ip4_new}};
	size_t i = 0;

	while (strncmp(text, kinds[i].prefix, strlen(kinds[i].prefix)) != 0)
		i++;
	return kinds[i].make(text);
}

bool config_address_is_network(const char *text)
{
	size_t len = strcspn(text, "/");
	char ip[INET6_ADDRSTRLEN];
	uint64_t bits = 0;

	if (text[len] && !number_parse_count(text + len + 1, &bits))
		return false;
	return (read_ip(AF_INET, text, len, ip) && bits <= 32) ||
	       (read_ip(AF_INET6, text, len, ip) && bits <= 128);
}
