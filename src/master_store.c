/* SPDX-License-Identifier: MIT */
/*
 * What outlives the server: the service manager's fd store holds the exchange's two ends and the
 * listeners, from the start on, so that also an instance that is killed leaves its connections to
 * the next one.
 */
#include "autoconf.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "master_parts.h"
#include "notify.h"

#define NAME_GIVE "whitecap-give"
#define NAME_TAKE "whitecap-take"

#define NAME_PROBE "whitecap-probe"

enum { FLUSH_MS = 5000, PROBE_MS = 1000 };

/* The end of an exchange that was stored; -1: there is none. */
static int pick(struct passed *passed, const char *name)
{
	int fd, found = -1, type = 0;
	socklen_t len = sizeof type;
	char *text;

	while ((fd = passed_pick(passed, name, &text)) >= 0) {
		free(text);
		if (found < 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
		    type == SOCK_SEQPACKET && fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0)
			found = fd;
		else
			close(fd);
	}
	return found;
}

int master_store_open(struct master *master)
{
	struct exchange *exchange = &master->rows.exchange;
	struct passed *passed = listener_pool_passed(master->pool);

	exchange->give = pick(passed, NAME_GIVE);
	exchange->take = pick(passed, NAME_TAKE);
	if (exchange->give >= 0 && exchange->take >= 0)
		return 0;
	if (exchange->give >= 0)
		close(exchange->give);
	if (exchange->take >= 0)
		close(exchange->take);
	return exchange_open(exchange);
}

/* A manager without room closes what it is sent, and says nothing: so it is sent the end of a pipe. */
static bool has_room(void)
{
	int ends[2];
	struct pollfd closed = {.fd = -1};

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	closed.fd = ends[0];
	notify_send(ends[1], "FDSTORE=1\nFDNAME=" NAME_PROBE "\nFDPOLL=0");
	close(ends[1]);
	notify_flush(PROBE_MS);
	poll(&closed, 1, 0);
	notify_send(-1, "FDSTOREREMOVE=1\nFDNAME=" NAME_PROBE);
	close(ends[0]);
	return !(closed.revents & POLLHUP);
}

void master_store_begin(struct master *master)
{
	struct exchange *exchange = &master->rows.exchange;

	master->rows.stored = notify_has_store() && !master->options.test;
	if (!master->rows.stored)
		return;
	if (!has_room()) {
		log_warn("connections will not outlive the server: the service manager stores nothing "
			 "(FileDescriptorStoreMax=)");
		master->rows.stored = false;
		return;
	}
	if (notify_send(exchange->give, "FDSTORE=1\nFDNAME=" NAME_GIVE "\nFDPOLL=0") == 0 &&
	    notify_send(exchange->take, "FDSTORE=1\nFDNAME=" NAME_TAKE "\nFDPOLL=0") == 0)
		return;
	log_error("connections will not outlive the server: the service manager: %s",
		  strerror(errno));
	master->rows.stored = false;
}

void master_store_listeners(struct master *master, const struct generation *new)
{
	if (!master->rows.stored)
		return;
	listener_pool_store(master->pool, &new->listeners);
	listener_pool_store(master->pool, &new->admin_listener);
}

void master_store_end(const struct master *master)
{
	if (master->rows.stored)
		notify_flush(FLUSH_MS);
}
