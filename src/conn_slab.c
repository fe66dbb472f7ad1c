/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "conn_slab.h"

#include <stdlib.h>
#include <string.h>

enum { SLAB_CONNS = 64 };

struct slab {
	struct slab *next;
	struct conn conns[SLAB_CONNS];
};

static struct slab *slabs;
static struct conn *free_conns; /* linked by io.data; their io has no callback */

void conn_slab_put(struct conn *conn)
{
	ev_set_cb(&conn->io, NULL);
	conn->io.data = free_conns;
	free_conns = conn;
}

static int grow(void)
{
	struct slab *slab = malloc(sizeof *slab);

	if (!slab)
		return -1;
	slab->next = slabs;
	slabs = slab;
	for (size_t i = 0; i < SLAB_CONNS; i++)
		conn_slab_put(&slab->conns[i]);
	return 0;
}

struct conn *conn_slab_get(void)
{
	struct conn *conn;

	if (!free_conns && grow() < 0)
		return NULL;
	conn = free_conns;
	free_conns = conn->io.data;
	memset(conn, 0, sizeof *conn);
	return conn;
}

void conn_slab_each(void (*act)(struct conn *conn))
{
	for (struct slab *slab = slabs; slab; slab = slab->next)
		for (size_t i = 0; i < SLAB_CONNS; i++)
			if (ev_cb(&slab->conns[i].io))
				act(&slab->conns[i]);
}

void conn_slab_free(void)
{
	struct slab *slab;

	while ((slab = slabs)) {
		slabs = slab->next;
		free(slab);
	}
	free_conns = NULL;
}
