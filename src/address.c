/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static int parse_passed(struct address *address, const char *text, const char **expected)
{
	*expected = "fd:NAME with the name of a socket that was passed (FileDescriptorName=)";
	address->kind = ADDRESS_PASSED;
	address->name = text;
	return text[0] != '\0' ? 0 : -1;
}

static int parse_unix(struct address *address, const char *text, const char **expected)
{
	struct sockaddr_un *sun = (struct sockaddr_un *)&address->sa;
	size_t len = strlen(text);

	*expected = "unix:PATH with a path of at most 107 octets";
	if (len == 0 || len >= sizeof(sun->sun_path) || text[len - 1] == '/')
		return -1;
	sun->sun_family = AF_UNIX;
	memcpy(sun->sun_path, text, len + 1);
	address->kind = ADDRESS_UNIX;
	address->name = text;
	address->len = sizeof(*sun);
	return 0;
}

/* The port after the last colon; -1 where there is none. */
static long parse_port(const char *text)
{
	long port = 0;

	if (text[0] == '\0' || text[strspn(text, "0123456789")] != '\0' || strlen(text) > 5)
		return -1;
	for (; *text != '\0'; text++)
		port = port * 10 + (*text - '0');
	return port <= UINT16_MAX ? port : -1;
}

static int parse_ipv6(struct address *address, const char *host)
{
	struct addrinfo hints = {.ai_family = AF_INET6, .ai_flags = AI_NUMERICHOST}, *found;

	/* Unlike inet_pton(), it knows scopes: fe80::1%eth0. */
	if (getaddrinfo(host, NULL, &hints, &found) != 0)
		return -1;
	memcpy(&address->sa, found->ai_addr, found->ai_addrlen);
	address->len = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

static int parse_ipv4(struct address *address, const char *host)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)&address->sa;

	sin->sin_family = AF_INET;
	address->len = sizeof(*sin);
	return inet_pton(AF_INET, host, &sin->sin_addr) == 1 ? 0 : -1;
}

static int parse_inet(struct address *address, const char *text, const char **expected)
{
	const char *colon = strrchr(text, ':');
	char host[ADDRESS_TEXT_MAX];
	long port;
	size_t len;

	*expected = "IPv4:port, [IPv6]:port, unix:PATH or fd:NAME";
	address->kind = ADDRESS_INET;
	len = colon == NULL ? 0 : (size_t)(colon - text);
	if (len < 2 || len >= sizeof(host) || (port = parse_port(colon + 1)) < 0)
		return -1;
	memcpy(host, text, len);
	host[len] = '\0';
	if (host[0] == '[' && host[len - 1] == ']') {
		host[len - 1] = '\0';
		if (parse_ipv6(address, host + 1) != 0)
			return -1;
	} else if (parse_ipv4(address, host) != 0) {
		return -1;
	}
	/* The port has the same place in both. */
	((struct sockaddr_in *)&address->sa)->sin_port = htons((uint16_t)port);
	return 0;
}

int address_parse(struct address *address, const char *text, const char **expected)
{
	memset(address, 0, sizeof(*address));
	if (strncmp(text, "unix:", 5) == 0)
		return parse_unix(address, text + 5, expected);
	if (strncmp(text, "fd:", 3) == 0)
		return parse_passed(address, text + 3, expected);
	return parse_inet(address, text, expected);
}

unsigned address_port(const struct address *address)
{
	return ntohs(((const struct sockaddr_in *)&address->sa)->sin_port);
}

static bool is_overlapping_ipv4(const struct address *a, const struct address *b)
{
	uint32_t x = ((const struct sockaddr_in *)&a->sa)->sin_addr.s_addr;
	uint32_t y = ((const struct sockaddr_in *)&b->sa)->sin_addr.s_addr;

	return x == y || x == INADDR_ANY || y == INADDR_ANY;
}

static bool is_overlapping_ipv6(const struct address *a, const struct address *b)
{
	const struct sockaddr_in6 *x = (const struct sockaddr_in6 *)&a->sa;
	const struct sockaddr_in6 *y = (const struct sockaddr_in6 *)&b->sa;

	if (IN6_IS_ADDR_UNSPECIFIED(&x->sin6_addr) || IN6_IS_ADDR_UNSPECIFIED(&y->sin6_addr))
		return true;
	return IN6_ARE_ADDR_EQUAL(&x->sin6_addr, &y->sin6_addr) &&
	       x->sin6_scope_id == y->sin6_scope_id;
}

bool address_is_overlapping(const struct address *a, const struct address *b)
{
	if (a->kind != ADDRESS_INET || b->kind != ADDRESS_INET)
		return false;
	/* Port 0 is a new one each time. */
	if (a->sa.ss_family != b->sa.ss_family || address_port(a) != address_port(b) ||
	    address_port(a) == 0)
		return false;
	return a->sa.ss_family == AF_INET ? is_overlapping_ipv4(a, b) : is_overlapping_ipv6(a, b);
}

void address_format(const struct sockaddr *sa, socklen_t len, char text[ADDRESS_TEXT_MAX])
{
	const struct sockaddr_un *sun = (const struct sockaddr_un *)sa;
	char host[NI_MAXHOST], port[NI_MAXSERV];
	size_t path = len > offsetof(struct sockaddr_un, sun_path)
		? len - offsetof(struct sockaddr_un, sun_path) : 0;

	if (sa->sa_family == AF_UNIX)
		snprintf(text, ADDRESS_TEXT_MAX, "unix:%.*s", (int)path, path ? sun->sun_path : "");
	else if (getnameinfo(sa, len, host, sizeof(host), port, sizeof(port),
			     NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(text, ADDRESS_TEXT_MAX,
			 sa->sa_family == AF_INET6 ? "[%.80s]:%s" : "%.80s:%s", host, port);
	else
		snprintf(text, ADDRESS_TEXT_MAX, "unknown");
}
