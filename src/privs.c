/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "privs.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A number that is an id; UINT32_MAX is none: the system calls take it for "leave as it is". */
static bool parse_id(const char *text, uint32_t *id)
{
	unsigned long long number;

	if (text[0] == '\0' || strlen(text) > 10 || text[strspn(text, "0123456789")] != '\0')
		return false;
	number = strtoull(text, NULL, 10);
	*id = (uint32_t)number;
	return number < UINT32_MAX;
}

/* The database's entry, or NULL: then *id is set for a number, else there is a message. */
static const struct passwd *find_user(const char *user, uint32_t *id, struct err *err)
{
	const struct passwd *entry;

	errno = 0;
	entry = getpwnam(user);
	if (entry != NULL)
		return entry;
	if (parse_id(user, id))
		return getpwuid(*id);
	err_add(err, "user \"%s\": %s; expected the name or number of a user of this system", user,
		errno == 0 || errno == ENOENT ? "no such user" : strerror(errno));
	return NULL;
}

static int find_group(const char *group, gid_t *gid, struct err *err)
{
	const struct group *entry;
	uint32_t id;

	errno = 0;
	entry = getgrnam(group);
	if (entry != NULL) {
		*gid = entry->gr_gid;
		return 0;
	}
	if (parse_id(group, &id)) {
		*gid = id;
		return 0;
	}
	err_add(err, "group \"%s\": %s; expected the name or number of a group of this system",
		group,
		errno == 0 || errno == ENOENT ? "no such group" : strerror(errno));
	return -1;
}

/* All groups of the user; one that is only a number has but its gid. */
static int find_groups(struct privs *privs, const char *name)
{
	int count = 64;

	for (;;) {
		gid_t *groups = realloc(privs->groups, (size_t)count * sizeof(*groups));

		if (groups == NULL)
			return -1;
		privs->groups = groups;
		privs->groups[0] = privs->gid;
		privs->group_count = count;
		if (name == NULL) {
			privs->group_count = 1;
			return 0;
		}
		if (getgrouplist(name, privs->gid, groups, &privs->group_count) >= 0)
			return 0;
		count = privs->group_count > count ? privs->group_count : count * 2;
	}
}

static int find_ids(const char *user, const char *group, struct privs *privs, struct err *err)
{
	unsigned mistakes = err->count;
	const struct passwd *entry;
	uint32_t id = UINT32_MAX;

	entry = find_user(user, &id, err);
	privs->uid = entry != NULL ? entry->pw_uid : id;
	privs->gid = entry != NULL ? entry->pw_gid : (gid_t)-1;
	if (entry != NULL || id != UINT32_MAX) {
		if (privs->uid == 0)
			err_add(err, "user \"%s\" is root; expected a user other than root", user);
		if (entry == NULL && group == NULL)
			err_add(err, "user \"%s\" is not in the user database, so its group is not "
				     "known; expected \"group\" beside it", user);
	}
	/* Before the next look-up overwrites the entry. */
	if (err->count == mistakes &&
	    find_groups(privs, entry != NULL ? entry->pw_name : NULL) != 0)
		err_add(err, "user \"%s\": %s", user, strerror(errno));
	return err->count == mistakes ? 0 : -1;
}

/* The group of the configuration instead of the user's own, which stays among the others. */
static int set_group(struct privs *privs, gid_t gid)
{
	gid_t *groups = realloc(privs->groups, ((size_t)privs->group_count + 1) * sizeof(*groups));

	if (groups == NULL)
		return -1;
	privs->groups = groups;
	if (privs->gid == (gid_t)-1)
		privs->group_count = 0;
	privs->gid = gid;
	for (int i = 0; i < privs->group_count; i++)
		if (groups[i] == gid)
			return 0;
	groups[privs->group_count++] = gid;
	return 0;
}

static int check_unprivileged(const char *user, const char *group, struct privs *privs,
			      struct err *err)
{
	if (user != NULL && privs->uid != geteuid())
		err_add(err, "user \"%s\": the server was started by user %ld; expected it to be "
			     "started by root, or as that user", user, (long)geteuid());
	else if (group != NULL && privs->gid != getegid())
		err_add(err, "group \"%s\": the server was started with group %ld; expected it to "
			     "be started by root, or with that group", group, (long)getegid());
	else
		return 0;
	return -1;
}

static int resolve(const char *user, const char *group, struct privs *privs, struct err *err)
{
	gid_t gid = (gid_t)-1;

	if (user != NULL && find_ids(user, group, privs, err) != 0)
		return -1;
	if (group != NULL && find_group(group, &gid, err) != 0)
		return -1;
	if (group != NULL && set_group(privs, gid) != 0) {
		err_add(err, "group \"%s\": %s", group, strerror(ENOMEM));
		return -1;
	}
	if (geteuid() != 0)
		return check_unprivileged(user, group, privs, err);
	if (user == NULL && group != NULL) {
		err_add(err, "group \"%s\" has no user; expected \"user\" beside it", group);
		return -1;
	}
	privs->change = user != NULL;
	return 0;
}

int privs_resolve(const char *user, const char *group, struct privs *privs, struct err *err)
{
	*privs = (struct privs){0};
	if (resolve(user, group, privs, err) == 0)
		return 0;
	privs_free(privs);
	return -1;
}

void privs_free(struct privs *privs)
{
	free(privs->groups);
	*privs = (struct privs){0};
}

static bool is_group_of(const struct privs *privs, gid_t gid)
{
	for (int i = 0; i < privs->group_count; i++)
		if (privs->groups[i] == gid)
			return true;
	return false;
}

/* Groups first: once the user is another one, they can't be changed any more. */
static int change_ids(const struct privs *privs)
{
	if (setgroups((size_t)privs->group_count, privs->groups) != 0 ||
	    setresgid(privs->gid, privs->gid, privs->gid) != 0)
		return -1;
	return setresuid(privs->uid, privs->uid, privs->uid);
}

static bool is_ids(const struct privs *privs)
{
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;

	return getresuid(&ruid, &euid, &suid) == 0 && getresgid(&rgid, &egid, &sgid) == 0 &&
	       ruid == privs->uid && euid == privs->uid && suid == privs->uid &&
	       rgid == privs->gid && egid == privs->gid && sgid == privs->gid;
}

static bool is_groups(const struct privs *privs)
{
	int count = getgroups(0, NULL);
	gid_t *groups = calloc(count > 0 ? (size_t)count : 1, sizeof(*groups));
	bool good = count == privs->group_count && groups != NULL &&
		    getgroups(count, groups) == count;

	for (int i = 0; good && i < count; i++)
		good = is_group_of(privs, groups[i]);
	free(groups);
	return good;
}

/* Tries to go back to root, which must fail. */
static bool is_way_back(const struct privs *privs)
{
	return setuid(0) == 0 || seteuid(0) == 0 || (!is_group_of(privs, 0) && setgid(0) == 0);
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	return (int)syscall(SYS_capset, &head, none);
}

static int fail(const char *what, struct err *err)
{
	err_add(err, "cannot give up rights: %s: %s", what, strerror(errno));
	return -1;
}

int privs_drop(const struct privs *privs, struct err *err)
{
	if (privs->change && change_ids(privs) != 0)
		return fail("setgroups, setresgid, setresuid", err);
	/* What was given to bind a port is not for handlers; plain root stays root, as told. */
	if (geteuid() != 0 && drop_capabilities() != 0)
		return fail("capset", err);
	errno = EPERM;
	if (privs->change && (is_way_back(privs) || !is_ids(privs) || !is_groups(privs)))
		return fail("the old rights are still there", err);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return fail("PR_SET_NO_NEW_PRIVS", err);
	/* A change of user turned it off. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
		return fail("PR_SET_DUMPABLE", err);
	return 0;
}

int privs_die_with_parent(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		return -1;
	if (getppid() == parent)
		return 0;
	errno = ESRCH; /* it died before we asked */
	return -1;
}

void privs_hide(void)
{
	if (geteuid() != 0)
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* What root's master needs: for files of any owner and mode, for ports below 1024, for its workers
 * to be another user, and for signals to them. */
static const unsigned kept[] = {CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,          CAP_KILL,
				CAP_SETGID, CAP_SETUID,       CAP_NET_BIND_SERVICE};

/* All of them are below 32. */
static uint32_t kept_set(void)
{
	uint32_t set = 0;

	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
		set |= CAP_TO_MASK(kept[i]);
	return set;
}

/* Without this, the next program would have them all again. */
static int reduce_bounding_set(void)
{
	int is_there;

	for (unsigned i = 0; (is_there = prctl(PR_CAPBSET_READ, i, 0, 0, 0)) >= 0; i++) {
		bool is_kept = i < 32 && (kept_set() & CAP_TO_MASK(i)) != 0;

		if (is_there && !is_kept && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) != 0)
			return -1;
	}
	return 0;
}

int privs_reduce(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	int result;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	if (geteuid() != 0)
		return 0;
	result = reduce_bounding_set();
	if (syscall(SYS_capget, &head, sets) != 0)
		return -1;
	sets[0].permitted &= kept_set();
	sets[0].effective = sets[0].permitted;
	sets[1].permitted = sets[1].effective = 0;
	sets[0].inheritable = sets[1].inheritable = 0;
	return syscall(SYS_capset, &head, sets) == 0 ? result : -1;
}

uint64_t privs_raise_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 0;
	if (limit.rlim_cur < limit.rlim_max) {
		struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};

		if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
			return raised.rlim_cur;
	}
	return limit.rlim_cur;
}
