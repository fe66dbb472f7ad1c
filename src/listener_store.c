/* SPDX-License-Identifier: MIT */
/* Listening sockets in the store of the service manager, under names of ours. */
#include "autoconf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "listener_parts.h"
#include "notify.h"

#define STORED_PUBLIC "whitecap-listen-"
#define STORED_ADMIN "whitecap-admin-"

enum { STORED_NAME_MAX = 256 };

/* How the manager calls a stored socket: its names have no colons. */
static void stored_name(const struct listener *l, char name[STORED_NAME_MAX])
{
	int len = snprintf(name, STORED_NAME_MAX, "%s", l->admin ? STORED_ADMIN : STORED_PUBLIC);

	for (const char *at = l->address; *at && len + 4 < STORED_NAME_MAX; at++)
		len += snprintf(name + len, 4, *at == ':' || *at == '%' ? "%%%02X" : "%c",
				(unsigned char)*at);
}

/* What it is called in the configuration, in place. */
static char *address_of_name(char *name)
{
	char *to = name;
	unsigned byte;

	for (const char *at = name; *at; at++) {
		if (*at == '%' && sscanf(at + 1, "%2X", &byte) == 1) {
			*to++ = (char)byte;
			at += 2;
		} else {
			*to++ = *at;
		}
	}
	*to = '\0';
	return name;
}

void listener_store(struct listener *l)
{
	char name[STORED_NAME_MAX];

	if (l->stored || l->passed || !notify_has_store())
		return;
	stored_name(l, name);
	l->stored = notify_send(l->fd, "FDSTORE=1\nFDNAME=%s\nFDPOLL=0", name) == 0;
}

void listener_unstore(const struct listener *l, const struct listener_pool *pool)
{
	char name[STORED_NAME_MAX];

	stored_name(l, name);
	notify_send(-1, "FDSTOREREMOVE=1\nFDNAME=%s", name);
	for (struct listener *other = pool->first; other != NULL; other = other->next) {
		if (other == l || !other->stored || other->admin != l->admin ||
		    strcmp(other->address, l->address) != 0)
			continue;
		other->stored = false;
		listener_store(other);
	}
}

static void adopt_stored(struct listener_pool *pool, const char *prefix, bool admin)
{
	struct listener_left left = {.admin = admin};
	struct listener *l;
	struct stat st;
	char *name;

	while ((left.fd = passed_pick(&pool->passed, prefix, &name)) >= 0) {
		left.address = address_of_name(name + strlen(prefix));
		l = listener_is_stream(left.fd) ? listener_adopt(pool, &left) : NULL;
		if (l == NULL) {
			close(left.fd);
		} else if (l->where.kind == ADDRESS_UNIX &&
			   lstat(listener_path(&l->where), &st) == 0) {
			l->dev = st.st_dev;
			l->ino = st.st_ino;
		}
		free(name);
	}
}

void listener_adopt_stored(struct listener_pool *pool)
{
	adopt_stored(pool, STORED_PUBLIC, false);
	adopt_stored(pool, STORED_ADMIN, true);
}
