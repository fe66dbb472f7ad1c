/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "generation.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpus.h"

enum { ADMIN_BACKLOG = 512 };

enum { LOG_FLAGS = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

/* A log that is made anew belongs to whom the one before belonged. */
static int open_access_log(const char *path, int before)
{
	int fd = open(path, LOG_FLAGS | O_EXCL, 0640);
	struct stat st;

	if (fd < 0)
		return errno == EEXIST ? open(path, LOG_FLAGS, 0640) : -1;
	if (before >= 0 && fstat(before, &st) == 0 &&
	    (st.st_uid != geteuid() || st.st_gid != getegid()))
		if (fchown(fd, st.st_uid, st.st_gid) < 0)
			errno = 0; /* still better than none */
	return fd;
}

static int open_images(struct generation *generation, struct err *err)
{
	const struct config *config = generation->config;
	char where[64];
	int result = 0;

	generation->images = calloc(config->route_count, sizeof *generation->images);
	if (!generation->images) {
		err_add(err, "routes: %s", strerror(errno));
		return -1;
	}
	for (size_t i = 0; i < config->route_count; i++) {
		snprintf(where, sizeof where, "routes[%zu].handler", i);
		generation->images[i].fd = -1;
		if (handler_image_open(&generation->images[i], config->handler_dir,
				       config->routes[i].handler, where, err) < 0)
			result = -1;
		generation->image_count = i + 1;
	}
	return result;
}

static int open_log(struct generation *generation, struct err *err)
{
	const char *path = generation->config->access_log_path;

	if (!path)
		return 0;
	generation->access_log = open_access_log(path, -1);
	if (generation->access_log >= 0)
		return 0;
	err_add(err, "access_log.path: %s: %s", path, strerror(errno));
	return -1;
}

/* The log itself is changed only when the generation serves; whether that can be done is asked now.
 */
static int probe_log(const char *path, struct err *err)
{
	int fd;

	if (!path)
		return 0;
	fd = open(path, LOG_FLAGS, 0640);
	if (fd >= 0)
		return close(fd);
	err_add(err, "log.path: %s: %s", path, strerror(errno));
	return -1;
}

static enum listener_result open_admin(struct generation *generation, struct err *err)
{
	const struct config *config = generation->config;

	if (!config->admin_listen)
		return LISTENER_OK;
	generation->admin_listen = (struct config_listen){.address = config->admin_listen,
							  .mode = config->admin_mode,
							  .backlog = ADMIN_BACKLOG};
	return listener_set_open_admin(&generation->admin_listener, generation->pool,
				       &generation->admin_listen, err);
}

/* A test leaves nothing behind: whether a log could be opened, or made, is only asked. */
static int test_log(const char *key, const char *path, struct err *err)
{
	char *folder;
	int result;

	if (!path)
		return 0;
	result = access(path, W_OK);
	if (result < 0 && errno == ENOENT && (folder = strdup(path))) {
		result = access(dirname(folder), W_OK | X_OK);
		free(folder);
	}
	if (result < 0)
		err_add(err, "%s: %s: %s", key, path, strerror(errno));
	return result;
}

static enum generation_result open_listeners(struct generation *generation, struct err *err)
{
	static const enum generation_result results[] = {
		[LISTENER_OK] = GENERATION_OK,
		[LISTENER_INVALID] = GENERATION_INVALID,
		[LISTENER_CANNOT_BIND] = GENERATION_CANNOT_BIND,
	};

	enum listener_result result = listener_set_open(&generation->listeners, generation->pool,
							generation->config->listens,
							generation->config->listen_count, err);
	enum listener_result admin = open_admin(generation, err);

	return results[result != LISTENER_OK ? result : admin];
}

/* Everything is tried, so that all mistakes come at once. */
static enum generation_result open_all(struct generation *generation, struct err *err)
{
	const struct config *config = generation->config;
	enum generation_result result = GENERATION_OK;
	int failed = 0;

	failed |= privs_resolve(config->user, config->group, &generation->privs, err);
	failed |= open_images(generation, err);
	if (generation->pool) {
		failed |= probe_log(config->log_path, err);
		failed |= open_log(generation, err);
		result = open_listeners(generation, err);
	} else {
		failed |= test_log("log.path", config->log_path, err);
		failed |= test_log("access_log.path", config->access_log_path, err);
	}
	return failed ? GENERATION_INVALID : result;
}

enum generation_result generation_open(struct generation **generation, unsigned number,
				       struct config *config, struct listener_pool *pool,
				       struct err *err)
{
	struct generation *new = calloc(1, sizeof *new);
	enum generation_result result = GENERATION_INVALID;

	if (!new) {
		err_add(err, "%s", strerror(errno));
		config_free(config);
		return result;
	}
	new->number = number;
	new->config = config;
	new->pool = pool;
	new->access_log = -1;
	new->workers = config->workers ? (unsigned)config->workers : cpus_count();
	result = open_all(new, err);
	if (result == GENERATION_OK)
		*generation = new;
	else
		generation_free(new);
	return result;
}

struct generation *generation_adopt(unsigned number, struct config *config,
				    struct listener_pool *pool)
{
	struct generation *generation = calloc(1, sizeof *generation);

	if (!generation) {
		config_free(config);
		return NULL;
	}
	generation->number = number;
	generation->config = config;
	generation->pool = pool;
	generation->access_log = -1;
	generation->proven = generation->serving = generation->foreign = true;
	return generation;
}

void generation_retire(struct generation *generation)
{
	generation->retired = true;
	if (generation->pool) {
		listener_set_close(&generation->listeners, generation->pool);
		listener_set_close(&generation->admin_listener, generation->pool);
	}
	for (size_t i = 0; i < generation->image_count; i++)
		handler_image_close(&generation->images[i]);
	generation->image_count = 0;
}

void generation_free(struct generation *generation)
{
	if (!generation)
		return;
	generation_retire(generation);
	if (generation->access_log >= 0)
		close(generation->access_log);
	privs_free(&generation->privs);
	config_free(generation->config);
	free(generation->images);
	free(generation->reason);
	free(generation);
}

int generation_admin_fd(const struct generation *generation)
{
	return generation->admin_listener.count ? generation->admin_listener.fds[0] : -1;
}

void generation_note_failure(struct generation *generation, const char *reason)
{
	char *copy;

	generation->failed_starts++;
	if (generation->refused || !(copy = strdup(reason)))
		return;
	free(generation->reason);
	generation->reason = copy;
}

int generation_reopen(struct generation *generation)
{
	const char *path = generation->config->access_log_path;
	int fd;

	if (!path)
		return 0;
	fd = open_access_log(path, generation->access_log);
	if (fd < 0)
		return -1;
	close(generation->access_log);
	generation->access_log = fd;
	return 0;
}
