/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "cpus.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static unsigned in_mask(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set) < 0)
		return 1;
	return (unsigned)CPU_COUNT(&set);
}

/* "max 100000" or "200000 100000": microseconds per period.  UINT_MAX without a quota. */
static unsigned in_quota(const char *cgroup)
{
	char path[4200];
	unsigned long quota, period;
	unsigned cpus = ~0u;
	FILE *file;

	snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", cgroup);
	if (!(file = fopen(path, "re")))
		return cpus;
	if (fscanf(file, "%lu %lu", &quota, &period) == 2 && period > 0)
		cpus = (unsigned)((quota + period - 1) / period);
	fclose(file);
	return cpus;
}

static bool read_own_cgroup(char *cgroup, size_t size)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(cgroup, (int)size, file))
		found = strncmp(cgroup, "0::/", 4) == 0;
	fclose(file);
	return found;
}

/* A quota binds all below it: the lowest on the way up counts. */
unsigned cpus_count(void)
{
	unsigned cpus = in_mask(), quota;
	char line[4096], *cgroup = line + 3, *end;

	if (read_own_cgroup(line, sizeof line)) {
		cgroup[strcspn(cgroup, "\n")] = '\0';
		do {
			quota = in_quota(cgroup);
			cpus = quota < cpus ? quota : cpus;
			end = strrchr(cgroup, '/');
			if (end)
				*end = '\0';
		} while (end);
	}
	return cpus ? cpus : 1;
}
