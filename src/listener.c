/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "listener.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "listener_parts.h"
#include "notify.h"
#include "stamped.h"

enum { STORE_FLUSH_MS = 2000 };

static bool is_in_set(const struct listener_set *set, const struct listener *l)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->listeners[i] == l)
			return true;
	return false;
}

/* Whether the listener stands in the way of the address. */
static bool is_clashing(const struct listener *l, const struct address *address)
{
	if (address->kind == ADDRESS_UNIX)
		return l->where.kind == ADDRESS_UNIX && !l->passed &&
		       listener_has_file(l, listener_path(address));
	return address_is_overlapping(&l->where, address);
}

/* Whether an open listener is what the configuration's entry asks for. */
static bool is_wanted(const struct listener *l, const struct listener_request *r)
{
	const struct address *address = &r->address;

	if (l->admin != r->admin)
		return false;
	if (address->kind == ADDRESS_PASSED || l->passed)
		return l->passed && strcmp(l->address, r->listens[r->index].address) == 0;
	if (address->kind != l->where.kind)
		return false;
	if (address->kind == ADDRESS_UNIX)
		return listener_has_file(l, listener_path(address));
	if (address_port(address) == 0)
		return strcmp(l->address, r->listens[r->index].address) == 0;
	return address->len == l->where.len &&
	       memcmp(&address->sa, &l->where.sa, address->len) == 0;
}

static struct listener *find_kept(const struct listener_request *r)
{
	for (struct listener *l = r->pool->first; l != NULL; l = l->next)
		if (is_wanted(l, r) && !is_in_set(r->set, l))
			return l;
	return NULL;
}

void listener_free(struct listener *l, const struct listener_pool *pool)
{
	if (l->stored && !pool->kept)
		listener_unstore(l, pool);
	if (!l->passed && !pool->kept && l->where.kind == ADDRESS_UNIX && l->ino != 0 &&
	    pool->owner == getpid() && listener_has_file(l, listener_path(&l->where)))
		unlink(listener_path(&l->where));
	if (!l->passed && l->fd >= 0)
		close(l->fd);
	free(l->address);
	free(l->bound);
	free(l);
}

static enum listener_result open_new(struct listener **opened, const struct listener_request *r)
{
	struct listener *l = calloc(1, sizeof(*l));
	enum listener_result result;

	if (l == NULL || (l->address = strdup(r->listens[r->index].address)) == NULL) {
		free(l);
		return listener_complain_errno(r, "cannot listen");
	}
	l->fd = -1;
	l->admin = r->admin;
	l->passed = r->address.kind == ADDRESS_PASSED;
	result = l->passed ? listener_pick(l, r) : listener_make(l, r);
	if (result != LISTENER_OK) {
		listener_free(l, r->pool);
		return result;
	}
	l->next = r->pool->first;
	r->pool->first = l;
	*opened = l;
	return LISTENER_OK;
}

/* Nobody asked for it so far, and it is in the way. */
static void drop_leftover(struct listener *l, struct listener_pool *pool)
{
	struct listener **link = &pool->first;

	while (*link != l)
		link = &(*link)->next;
	*link = l->next;
	listener_free(l, pool);
	notify_flush(STORE_FLUSH_MS); /* as long as the manager has it, the address is taken */
}

static void drop_leftovers(const struct listener_request *r)
{
	struct listener *next;

	for (struct listener *l = r->pool->first; l != NULL; l = next) {
		next = l->next;
		if (l->refs == 0 && is_clashing(l, &r->address) && !is_in_set(r->set, l))
			drop_leftover(l, r->pool);
	}
}

/* An address of this server in the way: twice in one configuration, or of the one in use. */
static enum listener_result check_clash(const struct listener_request *r)
{
	char found[320];

	for (size_t i = 0; i < r->index; i++) {
		if (r->set->listeners[i] == NULL || !is_clashing(r->set->listeners[i], &r->address))
			continue;
		snprintf(found, sizeof(found), "listen[%zu].address \"%.200s\" covers it already",
			 i, r->listens[i].address);
		return listener_complain(r, LISTENER_INVALID, found, "expected different sockets");
	}
	for (const struct listener *l = r->pool->first; l != NULL; l = l->next) {
		if (!is_clashing(l, &r->address) || is_in_set(r->set, l))
			continue;
		snprintf(found, sizeof(found), "the configuration in use listens on \"%.200s\"",
			 l->address);
		return listener_complain(r, LISTENER_CANNOT_BIND, found,
					 "expected that very address, another one, or a restart");
	}
	return LISTENER_OK;
}

static enum listener_result open_one(struct listener **opened, struct listener_request *r)
{
	const char *expected;
	enum listener_result result;

	if (address_parse(&r->address, r->listens[r->index].address, &expected) != 0) {
		err_add(r->err, "listen[%zu].address \"%s\": expected %s", r->index,
			r->listens[r->index].address, expected);
		return LISTENER_INVALID;
	}
	*opened = find_kept(r);
	if (*opened != NULL)
		return LISTENER_OK;
	drop_leftovers(r);
	result = check_clash(r);
	return result == LISTENER_OK ? open_new(opened, r) : result;
}

struct listener *listener_adopt(struct listener_pool *pool, const struct listener_left *left)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->fd = left->fd;
	l->admin = left->admin;
	l->passed = left->passed;
	l->stored = notify_has_store() && !left->passed;
	l->dev = left->dev;
	l->ino = left->ino;
	l->address = strdup(left->address);
	if (l->address == NULL || listener_find_bound(l) != 0) {
		free(l->address);
		free(l);
		return NULL;
	}
	l->next = pool->first;
	pool->first = l;
	return l;
}

struct listener_pool *listener_pool_new(void)
{
	struct listener_pool *pool = calloc(1, sizeof(*pool));

	if (pool == NULL)
		return NULL;
	pool->owner = getpid();
	passed_take(&pool->passed);
	listener_adopt_stored(pool);
	return pool;
}

struct passed *listener_pool_passed(struct listener_pool *pool)
{
	return &pool->passed;
}

void listener_pool_free(struct listener_pool *pool)
{
	if (pool == NULL)
		return;
	pool->kept = true;
	for (struct listener *l = pool->first, *next; l != NULL; l = next) {
		next = l->next;
		listener_free(l, pool);
	}
	for (size_t i = 0; i < pool->passed.count; i++)
		close(pool->passed.fds[i].fd);
	passed_free(&pool->passed);
	free(pool);
}

void listener_pool_store(struct listener_pool *pool, const struct listener_set *set)
{
	struct listener *next;

	for (size_t i = 0; i < set->count; i++)
		listener_store(set->listeners[i]);
	for (struct listener *l = pool->first; l != NULL; l = next) {
		next = l->next;
		if (l->refs == 0)
			drop_leftover(l, pool);
	}
}

void listener_pool_keep(struct listener_pool *pool)
{
	pool->kept = true;
}

static enum listener_result open_set(struct listener_set *set, struct listener_pool *pool,
				     const struct config_listen *listens, size_t count, bool admin,
				     struct err *err)
{
	struct listener_request r = {
		.pool = pool, .set = set, .listens = listens, .admin = admin, .err = err};
	enum listener_result worst = LISTENER_OK, result;

	*set = (struct listener_set){.listeners = calloc(count, sizeof(*set->listeners)),
				     .fds = calloc(count, sizeof(*set->fds))};
	if (set->listeners != NULL && set->fds != NULL)
		set->count = count;
	else
		worst = listener_complain_errno(&r, "cannot listen");
	for (; r.index < set->count; r.index++) {
		struct listener *l = NULL;

		result = open_one(&l, &r);
		if (result != LISTENER_OK && worst != LISTENER_INVALID)
			worst = result;
		if (l == NULL)
			continue;
		l->refs++;
		set->listeners[r.index] = l;
		set->fds[r.index] = l->fd;
	}
	if (worst != LISTENER_OK)
		listener_set_close(set, pool);
	return worst;
}

enum listener_result listener_set_open(struct listener_set *set, struct listener_pool *pool,
				       const struct config_listen *listens, size_t count,
				       struct err *err)
{
	return open_set(set, pool, listens, count, false, err);
}

enum listener_result listener_set_open_admin(struct listener_set *set, struct listener_pool *pool,
					     const struct config_listen *listen, struct err *err)
{
	return open_set(set, pool, listen, 1, true, err);
}

int listener_set_adopt(struct listener_set *set, struct listener_pool *pool,
		       const struct listener_left *left, size_t count)
{
	*set = (struct listener_set){.listeners = calloc(count + 1, sizeof(*set->listeners)),
				     .fds = calloc(count + 1, sizeof(*set->fds))};
	if (set->listeners == NULL || set->fds == NULL) {
		free(set->listeners);
		free(set->fds);
		*set = (struct listener_set){0};
		return -1;
	}
	for (; set->count < count; set->count++) {
		struct listener *l = listener_adopt(pool, &left[set->count]);

		if (l == NULL)
			goto fail;
		l->refs++;
		set->listeners[set->count] = l;
		set->fds[set->count] = l->fd;
	}
	return 0;
fail:
	listener_set_close(set, pool);
	return -1;
}

int listener_set_apply(struct listener_set *set, const struct config_listen *listens)
{
	int error = 0;

	for (size_t i = 0; i < set->count; i++) {
		const struct listener *l = set->listeners[i];

		if (listen(l->fd, (int)listens[i].backlog) != 0)
			error = errno;
		if (l->where.kind == ADDRESS_INET &&
		    stamped_enable(l->fd, listener_wants_kernel_clock(&listens[i])) != 0)
			error = errno;
		if (l->where.kind == ADDRESS_UNIX && !l->passed &&
		    listener_has_file(l, listener_path(&l->where)) &&
		    chmod(listener_path(&l->where), (mode_t)listens[i].mode) != 0)
			error = errno;
	}
	errno = error;
	return error == 0 ? 0 : -1;
}

static void put_listener(struct listener *l, struct listener_pool *pool)
{
	struct listener **link = &pool->first;

	if (--l->refs > 0)
		return;
	while (*link != l)
		link = &(*link)->next;
	*link = l->next;
	listener_free(l, pool);
}

void listener_set_close(struct listener_set *set, struct listener_pool *pool)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->listeners[i] != NULL)
			put_listener(set->listeners[i], pool);
	free(set->listeners);
	free(set->fds);
	*set = (struct listener_set){0};
}
