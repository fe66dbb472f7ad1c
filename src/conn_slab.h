/* SPDX-License-Identifier: MIT */
/* Memory of connections: allocated many together, never given back before the end. */
#ifndef CONN_SLAB_H
#define CONN_SLAB_H

#include "conn.h"

/* A zeroed connection.  NULL: no memory. */
struct conn *conn_slab_get(void);
void conn_slab_put(struct conn *conn);

/* Calls `act` for every connection in use; it may put that one back. */
void conn_slab_each(void (*act)(struct conn *conn));

/* None may be in use. */
void conn_slab_free(void);

#endif
