/* SPDX-License-Identifier: MIT */
/* One listening socket: made, or picked among those that were passed. */
#include "autoconf.h"

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

#include "listener_parts.h"
#include "stamped.h"

enum { NOTSENT_MAX = 262144 };

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

enum listener_result listener_complain(const struct listener_request *r,
				       enum listener_result result, const char *found,
				       const char *expected)
{
	char key[48] = "admin.listen";

	if (!r->admin)
		snprintf(key, sizeof(key), "listen[%zu].address", r->index);
	err_add(r->err, "%s \"%s\": %s; %s", key, r->listens[r->index].address, found, expected);
	return result;
}

enum listener_result listener_complain_errno(const struct listener_request *r, const char *what)
{
	const char *expected = "expected an address that can be listened on";
	char found[160];

	snprintf(found, sizeof(found), "%s: %s", what, strerror(errno));
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
		if (hints[i].error == errno)
			expected = hints[i].text;
	return listener_complain(r, LISTENER_CANNOT_BIND, found, expected);
}

bool listener_has_file(const struct listener *l, const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino;
}

const char *listener_path(const struct address *address)
{
	return ((const struct sockaddr_un *)&address->sa)->sun_path;
}

bool listener_wants_kernel_clock(const struct config_listen *config)
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
	const char *path = listener_path(&l->where);
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
static enum listener_result clear_path(const struct listener_request *r)
{
	const char *path = listener_path(&r->address);
	struct stat st;
	int alive;

	if (lstat(path, &st) != 0)
		return errno == ENOENT ? LISTENER_OK
				       : listener_complain_errno(r, "cannot look at the path");
	if (!S_ISSOCK(st.st_mode))
		return listener_complain(r, LISTENER_CANNOT_BIND,
					 "a file that is no socket is there",
					 "expected a path that is free");
	alive = is_alive(&r->address);
	if (alive < 0)
		return listener_complain_errno(r, "cannot tell whether the socket there is in use");
	if (alive)
		return listener_complain(r, LISTENER_CANNOT_BIND, "a server listens there",
					 "expected a path that is free");
	if (unlink(path) != 0 && errno != ENOENT)
		return listener_complain_errno(r, "cannot remove the stale socket there");
	return LISTENER_OK;
}

int listener_find_bound(struct listener *l)
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

enum listener_result listener_make(struct listener *l, const struct listener_request *r)
{
	const struct config_listen *config = &r->listens[r->index];
	int family = r->address.sa.ss_family;

	if (r->address.kind == ADDRESS_UNIX && clear_path(r) != LISTENER_OK)
		return LISTENER_CANNOT_BIND;
	l->where = r->address;
	l->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0 || set_options(l->fd, family, listener_wants_kernel_clock(config)) != 0)
		return listener_complain_errno(r, "cannot make a socket");
	if (bind_listener(l, config) != 0)
		return listener_complain_errno(r, "cannot bind");
	if (listen(l->fd, (int)config->backlog) != 0)
		return listener_complain_errno(r, "cannot listen");
	return listener_find_bound(l) == 0 ? LISTENER_OK
					   : listener_complain_errno(r, "cannot listen");
}

/* A passed socket of that name that no listener has yet; -1: none. */
static int find_passed(const struct listener_request *r)
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

static enum listener_result complain_not_passed(const struct listener_request *r)
{
	const struct passed *passed = &r->pool->passed;
	char expected[256] = "expected one of LISTEN_FDNAMES, each socket once:";
	size_t len = strlen(expected);

	if (passed->count == 0)
		return listener_complain(
			r, LISTENER_INVALID, "no sockets were passed to this process",
			"expected to be started by socket activation (LISTEN_FDS)");
	for (size_t i = 0; i < passed->count && len < sizeof(expected); i++)
		len += (size_t)snprintf(expected + len, sizeof(expected) - len, " \"%s\"",
					passed->fds[i].name);
	return listener_complain(r, LISTENER_INVALID, "no socket of that name is left", expected);
}

bool listener_is_stream(int fd)
{
	int type = 0, accepts = 0;
	socklen_t len = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
	       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &len) == 0 && accepts;
}

enum listener_result listener_pick(struct listener *l, const struct listener_request *r)
{
	int flags;

	l->fd = find_passed(r);
	if (l->fd < 0)
		return complain_not_passed(r);
	if (!listener_is_stream(l->fd))
		return listener_complain(r, LISTENER_INVALID,
					 "the file that was passed is another one",
					 "expected a listening stream socket (Accept=no)");
	flags = fcntl(l->fd, F_GETFL);
	if (flags < 0 || fcntl(l->fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
	    listener_find_bound(l) != 0 ||
	    set_options(l->fd, l->where.sa.ss_family,
			listener_wants_kernel_clock(&r->listens[r->index])) != 0)
		return listener_complain_errno(r, "cannot set up the socket that was passed");
	return LISTENER_OK;
}
