/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "stamped.h"

#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "engine.h"

enum { READINGS = 3 };

int stamped_enable(int fd, bool on)
{
	int value = on;

	return setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &value, sizeof value);
}

static uint64_t to_ns(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

/* The process may be held up between two clocks: of several readings the quickest counts. */
static int64_t read_offset(const struct arrival *known)
{
	uint64_t shortest = UINT64_MAX;
	int64_t offset = 0;

	for (int i = 0; i < READINGS; i++) {
		struct timespec real;
		uint64_t before = engine_clock(), took;

		clock_gettime(CLOCK_REALTIME, &real);
		took = engine_clock() - before;
		if (took >= shortest)
			continue;
		shortest = took;
		offset = (int64_t)(to_ns(&real) - before - took / 2);
		if (arrival_agrees(known, offset))
			break;
	}
	return offset;
}

void stamped_init(struct engine *engine)
{
	static const struct arrival nothing = {.offset_ns = INT64_MAX / 2};

	engine->arrival = (struct arrival){.offset_ns = read_offset(&nothing)};
	engine->arrival_looked_ns = engine->now_ns;
}

/* Once in a turn of the loop. */
static void look_for_step(struct engine *engine)
{
	int64_t offset = read_offset(&engine->arrival);

	if (!arrival_agrees(&engine->arrival, offset))
		arrival_step(&engine->arrival, offset, engine->now_ns);
	engine->arrival_looked_ns = engine->now_ns;
}

static uint64_t find_stamp(struct msghdr *message)
{
	struct timespec stamp;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
		return to_ns(&stamp);
	}
	return 0;
}

ssize_t stamped_receive(struct engine *engine, int fd, void *to, size_t room, uint64_t since_ns,
			uint64_t *came_ns)
{
	struct iovec piece = {to, room};
	union {
		struct cmsghdr align;
		char octets[CMSG_SPACE(sizeof(struct timespec))];
	} control;
	struct msghdr message = {.msg_iov = &piece,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof control};
	ssize_t got = recvmsg(fd, &message, 0);
	uint64_t stamp_ns = got > 0 ? find_stamp(&message) : 0;

	*came_ns = engine->now_ns;
	if (stamp_ns == 0) {
		/* Of an older configuration, perhaps.  A socket that was asked may be asked again. */
		if (got > 0 && since_ns == 0)
			stamped_enable(fd, true);
		return got;
	}
	if (engine->arrival_looked_ns != engine->now_ns)
		look_for_step(engine);
	*came_ns = arrival_of(&engine->arrival, stamp_ns, since_ns, latency_now(&engine->latency));
	return got;
}
