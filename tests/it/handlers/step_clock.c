/* SPDX-License-Identifier: MIT */
/*
 * Preloaded: the clock of the day is ahead of the kernel's by as many seconds as the file
 * STEP_CLOCK says in its first 8 octets, which may change at any time.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*next)(clockid_t, struct timespec *);
static volatile int64_t *ahead;

static void __attribute__((constructor)) find(void)
{
	int fd = open(getenv("STEP_CLOCK"), O_RDONLY);
	void *page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);

	close(fd);
	next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	if (page != MAP_FAILED)
		ahead = page;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int result = next(clock, time);

	if ((clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) && ahead)
		time->tv_sec += *ahead;
	return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	*time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
	return 0;
}

time_t time(time_t *where)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (where)
		*where = now.tv_sec;
	return now.tv_sec;
}
