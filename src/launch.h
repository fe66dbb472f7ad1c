/* SPDX-License-Identifier: MIT */
/* How a row's process begins: what it keeps of the master, who it becomes, what it runs. */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <sys/types.h>

#include "row.h"

/* Forks the process of a row; `ipc` is the child's end of its pair.  The pid, or -1 with errno. */
pid_t launch_child(struct row *row, int ipc);

#endif
