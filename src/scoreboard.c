/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "scoreboard.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

enum { VERSION = 1 };

struct scoreboard *scoreboard_open(int *fd)
{
	struct scoreboard *scoreboard = MAP_FAILED;
	int memory = memfd_create("whitecap-scoreboard", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (memory < 0)
		return NULL;
	/* Sealed in its size: a process that shrank it would kill all others by SIGBUS. */
	if (ftruncate(memory, sizeof(*scoreboard)) == 0 &&
	    fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		scoreboard = mmap(NULL, sizeof(*scoreboard), PROT_READ | PROT_WRITE, MAP_SHARED,
				  memory, 0);
	if (scoreboard == MAP_FAILED) {
		int error = errno;

		close(memory);
		errno = error;
		return NULL;
	}
	scoreboard->version = VERSION;
	scoreboard->slots = SCOREBOARD_SLOTS;
	*fd = memory;
	return scoreboard;
}

void scoreboard_close(struct scoreboard *scoreboard, int fd)
{
	if (scoreboard != NULL)
		munmap(scoreboard, sizeof(*scoreboard));
	if (fd >= 0)
		close(fd);
}

uint64_t scoreboard_total(const struct scoreboard *scoreboard, enum scoreboard_counter counter)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < SCOREBOARD_SLOTS; i++)
		sum += atomic_load_explicit(&scoreboard->slot[i].counter[counter],
					    memory_order_relaxed);
	return sum;
}

uint64_t scoreboard_active(const struct scoreboard *scoreboard)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < SCOREBOARD_SLOTS; i++)
		sum += atomic_load_explicit(&scoreboard->slot[i].active, memory_order_relaxed);
	return sum;
}
