/* SPDX-License-Identifier: MIT */
/* How many processors this process may use: what "workers": "auto" means. */
#ifndef CPUS_H
#define CPUS_H

/* The affinity mask's, or what the cgroup's CPU quota comes to where that is less; at least 1. */
unsigned cpus_count(void);

#endif
