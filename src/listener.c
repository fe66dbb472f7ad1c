/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "notify.h"
#include "stamped.h"

#define STORED_PUBLIC "whitecap-listen-"
#define STORED_ADMIN "whitecap-admin-"

enum { STORED_NAME_MAX = 256, STORE_FLUSH_MS = 2000, NOTSENT_MAX = 262144 };

struct listener_pool {
	struct listener *first;
	struct passed passed;
	pid_t owner;
	bool kept; /* for the next instance */
};

/* One entry of the configuration on its way to a listener. */
struct request {
	struct listener_pool *pool;
	const struct listener_set *set; /* entries before `index` are filled in; NULL: failed */
	const struct config_listen *listens;
	size_t index;
	bool admin;
	struct address address;
	struct err *err;
};

/*
 * Accepted sockets inherit all of these.  A dead peer is found after 60 + 3 * 10 s of silence.
 * TCP_USER_TIMEOUT overrides TCP_KEEPCNT: shorter than their sum, it would end a connection
 * after the first lost probe.  What a client does not read stays with us, beyond so many octets:
 * else the kernel takes up to 4 MiB of each, and short of memory all connections get slow.
 */
static const struct option {
	int level, name, value;
} tcp_options[] = {
	{SOL_SOCKET, SO_REUSEADDR, 1},          {SOL_SOCKET, SO_KEEPALIVE, 1},
	{IPPROTO_TCP, TCP_NODELAY, 1},          {IPPROTO_TCP, TCP_KEEPIDLE, 60},
	{IPPROTO_TCP, TCP_KEEPINTVL, 10},       {IPPROTO_TCP, TCP_KEEPCNT, 3},
	{IPPROTO_TCP, TCP_USER_TIMEOUT, 89000}, {IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOTSENT_MAX},
};

static const struct hint {
	int error;
	const char *text;
} hints[] = {
	{EADDRINUSE, "expected an address on which nobody else listens"},
	{EADDRNOTAVAIL, "expected an address of this machine"},
	{EACCES, "expected one that this user may bind (ports below 1024 need root or "
		 "CAP_NET_BIND_SERVICE)"},
	{ENOENT, "expected a path in a directory that exists"},
	{EAFNOSUPPORT, "expected a kind of address that this system supports"},
	{EROFS, "expected a path in a directory that can be written"},
};

static enum listener_result complain(const struct request *r, enum listener_result result,
				     const char *found, const char *expected)
{
	char key[48] = "admin.listen";

	if (!r->admin)
		snprintf(key, sizeof(key), "listen[%zu].address", r->index);
	err_add(r->err, "%s \"%s\": %s; %s", key, r->listens[r->index].address, found, expected);
	return result;
}

static enum listener_result complain_errno(const struct request *r, const char *what)
{
	const char *expected = "expected an address that can be listened on";
	char found[160];

	snprintf(found, sizeof(found), "%s: %s", what, strerror(errno));
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
		if (hints[i].error == errno)
			expected = hints[i].text;
	return complain(r, LISTENER_CANNOT_BIND, found, expected);
}

/* Whether the file of a unix socket is still the one that was made for it. */
static bool is_file_of(const struct listener *l, const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino;
}

static const char *unix_path(const struct address *address)
{
	return ((const struct sockaddr_un *)&address->sa)->sun_path;
}

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
		       is_file_of(l, unix_path(address));
	return address_is_overlapping(&l->where, address);
}

/* Whether an open listener is what the configuration's entry asks for. */
static bool is_wanted(const struct listener *l, const struct request *r)
{
	const struct address *address = &r->address;

	if (l->admin != r->admin)
		return false;
	if (address->kind == ADDRESS_PASSED || l->passed)
		return l->passed && strcmp(l->address, r->listens[r->index].address) == 0;
	if (address->kind != l->where.kind)
		return false;
	if (address->kind == ADDRESS_UNIX)
		return is_file_of(l, unix_path(address));
	if (address_port(address) == 0)
		return strcmp(l->address, r->listens[r->index].address) == 0;
	return address->len == l->where.len &&
	       memcmp(&address->sa, &l->where.sa, address->len) == 0;
}

static struct listener *find_kept(const struct request *r)
{
	for (struct listener *l = r->pool->first; l != NULL; l = l->next)
		if (is_wanted(l, r) && !is_in_set(r->set, l))
			return l;
	return NULL;
}

static bool is_kernel(const struct config_listen *config)
{
	return config->arrival_clock == CONFIG_ARRIVAL_KERNEL;
}

static int set_options(int fd, int family, bool kernel_clock)
{
	int on = 1;

	if (family == AF_UNIX)
		return 0;
	if (kernel_clock && stamped_enable(fd, true) != 0)
		return -1;
	/* Refused where the socket is bound already, as one that was passed is. */
	if (family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	for (size_t i = 0; i < sizeof(tcp_options) / sizeof(tcp_options[0]); i++) {
		const struct option *o = &tcp_options[i];

		if (setsockopt(fd, o->level, o->name, &o->value, sizeof(o->value)) != 0)
			return -1;
	}
	return 0;
}

/*
 * bind() makes the file with the mode that the umask leaves, so it never has a wider one; but the
 * umask does not count where the directory has a default ACL.
 */
static int bind_unix(struct listener *l, mode_t mode)
{
	const char *path = unix_path(&l->where);
	mode_t umask_before = umask(~mode & 0777);
	int result = bind(l->fd, (const struct sockaddr *)&l->where.sa, l->where.len);
	struct stat st;

	umask(umask_before);
	if (result != 0 || lstat(path, &st) != 0)
		return -1;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	return (st.st_mode & 0777) == mode ? 0 : chmod(path, mode);
}

static int bind_listener(struct listener *l, const struct config_listen *config)
{
	if (l->where.kind == ADDRESS_UNIX)
		return bind_unix(l, (mode_t)config->mode);
	return bind(l->fd, (const struct sockaddr *)&l->where.sa, l->where.len);
}

/* Whether somebody listens at the path; -1 with errno when that can't be told. */
static int is_alive(const struct address *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), result, error;

	if (fd < 0)
		return -1;
	result = connect(fd, (const struct sockaddr *)&address->sa, address->len);
	error = errno;
	close(fd);
	errno = error;
	if (result == 0 || errno == EAGAIN || errno == EPROTOTYPE)
		return 1;
	return errno == ECONNREFUSED ? 0 : -1;
}

/* Makes way for a unix socket: what a dead server left is removed, nothing else. */
static enum listener_result clear_path(const struct request *r)
{
	const char *path = unix_path(&r->address);
	struct stat st;
	int alive;

	if (lstat(path, &st) != 0)
		return errno == ENOENT ? LISTENER_OK : complain_errno(r, "cannot look at the path");
	if (!S_ISSOCK(st.st_mode))
		return complain(r, LISTENER_CANNOT_BIND, "a file that is no socket is there",
				"expected a path that is free");
	alive = is_alive(&r->address);
	if (alive < 0)
		return complain_errno(r, "cannot tell whether the socket there is in use");
	if (alive)
		return complain(r, LISTENER_CANNOT_BIND, "a server listens there",
				"expected a path that is free");
	if (unlink(path) != 0 && errno != ENOENT)
		return complain_errno(r, "cannot remove the stale socket there");
	return LISTENER_OK;
}

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

static void store(struct listener *l)
{
	char name[STORED_NAME_MAX];

	if (l->stored || l->passed || !notify_has_store())
		return;
	stored_name(l, name);
	l->stored = notify_send(l->fd, "FDSTORE=1\nFDNAME=%s\nFDPOLL=0", name) == 0;
}

/* The manager drops all that have the name: one that took the place of this one is stored again. */
static void unstore(const struct listener *l, const struct listener_pool *pool)
{
	char name[STORED_NAME_MAX];

	stored_name(l, name);
	notify_send(-1, "FDSTOREREMOVE=1\nFDNAME=%s", name);
	for (struct listener *other = pool->first; other != NULL; other = other->next) {
		if (other == l || !other->stored || other->admin != l->admin ||
		    strcmp(other->address, l->address) != 0)
			continue;
		other->stored = false;
		store(other);
	}
}

static void free_listener(struct listener *l, const struct listener_pool *pool)
{
	if (l->stored && !pool->kept)
		unstore(l, pool);
	if (!l->passed && !pool->kept && l->where.kind == ADDRESS_UNIX && l->ino != 0 &&
	    pool->owner == getpid() && is_file_of(l, unix_path(&l->where)))
		unlink(unix_path(&l->where));
	if (!l->passed && l->fd >= 0)
		close(l->fd);
	free(l->address);
	free(l->bound);
	free(l);
}

/* Fills in where the socket is; -1 with errno. */
static int find_bound(struct listener *l)
{
	char text[ADDRESS_TEXT_MAX];

	l->where.name = NULL; /* was part of the configuration's text */
	l->where.len = sizeof(l->where.sa);
	if (getsockname(l->fd, (struct sockaddr *)&l->where.sa, &l->where.len) != 0)
		return -1;
	l->where.kind = l->where.sa.ss_family == AF_UNIX ? ADDRESS_UNIX : ADDRESS_INET;
	address_format((const struct sockaddr *)&l->where.sa, l->where.len, text);
	l->bound = strdup(text);
	return l->bound == NULL ? -1 : 0;
}

static enum listener_result open_bound(struct listener *l, const struct request *r)
{
	const struct config_listen *config = &r->listens[r->index];
	int family = r->address.sa.ss_family;

	if (r->address.kind == ADDRESS_UNIX && clear_path(r) != LISTENER_OK)
		return LISTENER_CANNOT_BIND;
	l->where = r->address;
	l->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0 || set_options(l->fd, family, is_kernel(config)) != 0)
		return complain_errno(r, "cannot make a socket");
	if (bind_listener(l, config) != 0)
		return complain_errno(r, "cannot bind");
	if (listen(l->fd, (int)config->backlog) != 0)
		return complain_errno(r, "cannot listen");
	return find_bound(l) == 0 ? LISTENER_OK : complain_errno(r, "cannot listen");
}

/* A passed socket of that name that no listener has yet; -1: none. */
static int find_passed(const struct request *r)
{
	const struct passed *passed = &r->pool->passed;

	for (size_t i = 0; i < passed->count; i++) {
		const struct listener *l = r->pool->first;

		while (l != NULL && l->fd != passed->fds[i].fd)
			l = l->next;
		if (l == NULL && strcmp(passed->fds[i].name, r->address.name) == 0)
			return passed->fds[i].fd;
	}
	return -1;
}

static enum listener_result complain_not_passed(const struct request *r)
{
	const struct passed *passed = &r->pool->passed;
	char expected[256] = "expected one of LISTEN_FDNAMES, each socket once:";
	size_t len = strlen(expected);

	if (passed->count == 0)
		return complain(r, LISTENER_INVALID, "no sockets were passed to this process",
				"expected to be started by socket activation (LISTEN_FDS)");
	for (size_t i = 0; i < passed->count && len < sizeof(expected); i++)
		len += (size_t)snprintf(expected + len, sizeof(expected) - len, " \"%s\"",
					passed->fds[i].name);
	return complain(r, LISTENER_INVALID, "no socket of that name is left", expected);
}

static bool is_stream_listener(int fd)
{
	int type = 0, accepts = 0;
	socklen_t len = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
	       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &len) == 0 && accepts;
}

static enum listener_result open_passed(struct listener *l, const struct request *r)
{
	int flags;

	l->fd = find_passed(r);
	if (l->fd < 0)
		return complain_not_passed(r);
	if (!is_stream_listener(l->fd))
		return complain(r, LISTENER_INVALID, "the file that was passed is another one",
				"expected a listening stream socket (Accept=no)");
	flags = fcntl(l->fd, F_GETFL);
	if (flags < 0 || fcntl(l->fd, F_SETFL, flags | O_NONBLOCK) != 0 || find_bound(l) != 0 ||
	    set_options(l->fd, l->where.sa.ss_family, is_kernel(&r->listens[r->index])) != 0)
		return complain_errno(r, "cannot set up the socket that was passed");
	return LISTENER_OK;
}

static enum listener_result open_new(struct listener **opened, const struct request *r)
{
	struct listener *l = calloc(1, sizeof(*l));
	enum listener_result result;

	if (l == NULL || (l->address = strdup(r->listens[r->index].address)) == NULL) {
		free(l);
		return complain_errno(r, "cannot listen");
	}
	l->fd = -1;
	l->admin = r->admin;
	l->passed = r->address.kind == ADDRESS_PASSED;
	result = l->passed ? open_passed(l, r) : open_bound(l, r);
	if (result != LISTENER_OK) {
		free_listener(l, r->pool);
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
	free_listener(l, pool);
	notify_flush(STORE_FLUSH_MS); /* as long as the manager has it, the address is taken */
}

static void drop_leftovers(const struct request *r)
{
	struct listener *next;

	for (struct listener *l = r->pool->first; l != NULL; l = next) {
		next = l->next;
		if (l->refs == 0 && is_clashing(l, &r->address) && !is_in_set(r->set, l))
			drop_leftover(l, r->pool);
	}
}

/* An address of this server in the way: twice in one configuration, or of the one in use. */
static enum listener_result check_clash(const struct request *r)
{
	char found[320];

	for (size_t i = 0; i < r->index; i++) {
		if (r->set->listeners[i] == NULL || !is_clashing(r->set->listeners[i], &r->address))
			continue;
		snprintf(found, sizeof(found), "listen[%zu].address \"%.200s\" covers it already",
			 i, r->listens[i].address);
		return complain(r, LISTENER_INVALID, found, "expected different sockets");
	}
	for (const struct listener *l = r->pool->first; l != NULL; l = l->next) {
		if (!is_clashing(l, &r->address) || is_in_set(r->set, l))
			continue;
		snprintf(found, sizeof(found), "the configuration in use listens on \"%.200s\"",
			 l->address);
		return complain(r, LISTENER_CANNOT_BIND, found,
				"expected that very address, another one, or a restart");
	}
	return LISTENER_OK;
}

static enum listener_result open_one(struct listener **opened, struct request *r)
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

static struct listener *adopt(struct listener_pool *pool, const struct listener_left *left)
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
	if (l->address == NULL || find_bound(l) != 0) {
		free(l->address);
		free(l);
		return NULL;
	}
	l->next = pool->first;
	pool->first = l;
	return l;
}

/*
 * Those that the instance before had.  Which configuration wants them is still to be seen; one
 * whose file is gone is of no use to anybody.
 */
static void adopt_stored(struct listener_pool *pool, const char *prefix, bool admin)
{
	struct listener_left left = {.admin = admin};
	struct listener *l;
	struct stat st;
	char *name;

	while ((left.fd = passed_pick(&pool->passed, prefix, &name)) >= 0) {
		left.address = address_of_name(name + strlen(prefix));
		l = is_stream_listener(left.fd) ? adopt(pool, &left) : NULL;
		if (l == NULL) {
			close(left.fd);
		} else if (l->where.kind == ADDRESS_UNIX && lstat(unix_path(&l->where), &st) == 0) {
			l->dev = st.st_dev;
			l->ino = st.st_ino;
		}
		free(name);
	}
}

struct listener_pool *listener_pool_new(void)
{
	struct listener_pool *pool = calloc(1, sizeof(*pool));

	if (pool == NULL)
		return NULL;
	pool->owner = getpid();
	passed_take(&pool->passed);
	adopt_stored(pool, STORED_PUBLIC, false);
	adopt_stored(pool, STORED_ADMIN, true);
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
		free_listener(l, pool);
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
		store(set->listeners[i]);
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
	struct request r = {
		.pool = pool, .set = set, .listens = listens, .admin = admin, .err = err};
	enum listener_result worst = LISTENER_OK, result;

	*set = (struct listener_set){.listeners = calloc(count, sizeof(*set->listeners)),
				     .fds = calloc(count, sizeof(*set->fds))};
	if (set->listeners != NULL && set->fds != NULL)
		set->count = count;
	else
		worst = complain_errno(&r, "cannot listen");
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
		struct listener *l = adopt(pool, &left[set->count]);

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
		    stamped_enable(l->fd, is_kernel(&listens[i])) != 0)
			error = errno;
		if (l->where.kind == ADDRESS_UNIX && !l->passed &&
		    is_file_of(l, unix_path(&l->where)) &&
		    chmod(unix_path(&l->where), (mode_t)listens[i].mode) != 0)
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
	free_listener(l, pool);
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
