/* SPDX-License-Identifier: MIT */
/* Rights of the processes: who the workers are, and that they can't become anybody else again. */
#ifndef PRIVS_H
#define PRIVS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"

/* Looked up once by the master, so that every child of a generation is the same user. */
struct privs {
	bool change;   /* false: children stay who the master is */
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* all of the user's, gid among them */
	int group_count;
};

/*
 * Master: looks up names or numbers; NULL: not set.  0, or -1 with messages in *err that begin
 * with `user` or `group`; then *privs is empty.
 */
int privs_resolve(const char *user, const char *group, struct privs *privs, struct err *err);
void privs_free(struct privs *privs);

/*
 * Child: becomes that user and proves that there is no way back, gives up capabilities and the
 * gaining of rights by exec, and makes core dumps possible again.  Root without a user to become
 * keeps the capabilities of the master.  0, or -1 with a message in *err: then the process must end.
 */
int privs_drop(const struct privs *privs, struct err *err);

/*
 * Child, after privs_drop(), which resets it: SIGKILL when `parent` dies.
 * -1 with errno (ESRCH: it is dead already).
 */
int privs_die_with_parent(pid_t parent);

/*
 * Master: its memory and descriptors can't be reached by other processes of its user, as workers
 * are without `user`.  It dumps no core then.  Root's processes are out of their reach anyway.
 */
void privs_hide(void);

/*
 * Master, once the exchange is open: gives up for good, and for all programs that it becomes, what
 * root can do beyond reload and upgrade.  Who is not root keeps what it was given.  -1 with errno.
 */
int privs_reduce(void);

/* Raises the soft limit on open files to the hard one; what it is afterwards. */
uint64_t privs_raise_files(void);

#endif
