/* SPDX-License-Identifier: MIT */
/* The key `seccomp`: the system calls that a process with handlers may make from now on. */
#ifndef SANDBOX_H
#define SANDBOX_H

#include "err.h"

/*
 * Child, after privs_drop() and the init of all handlers, for all its threads and for good.  A call
 * that is not on the list in sandbox.c fails with EPERM.  Other processes of the same user can't
 * look into this one any more; fault.c turns that back for the core dump.  0, or -1 with a message
 * in *err: then the process must end.
 */
int sandbox_enter(struct err *err);

#endif
