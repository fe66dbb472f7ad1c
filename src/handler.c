/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "handler.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

#define SYMBOL "wc_handler_descriptor"

enum { SIZE_MAX_OCTETS = 256 << 20, LINK_MAX = 32, REASON_MAX = 1024 };

static char *find_path(const char *dir, const char *name)
{
	char *path = NULL;

	if (strchr(name, '/') != NULL)
		return strdup(name);
	return asprintf(&path, "%s/%s.so", dir, name) < 0 ? NULL : path;
}

/* What is wrong with the file, or NULL. */
static const char *check_file(int fd, const struct stat *st)
{
	char magic[4];

	if (!S_ISREG(st->st_mode))
		return "is no regular file";
	if (st->st_size > SIZE_MAX_OCTETS)
		return "is larger than 256 MiB";
	if (pread(fd, magic, sizeof(magic), 0) != sizeof(magic) ||
	    memcmp(magic, "\177ELF", sizeof(magic)) != 0)
		return "is no ELF file";
	return NULL;
}

/* Opens the file to be copied; -1 with a message. */
static int open_file(const char *path, struct stat *st, const char *where, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const char *wrong;

	if (fd < 0 || fstat(fd, st) != 0) {
		err_add(err, "%s: cannot open \"%s\": %s; expected a shared object", where, path,
			strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	wrong = check_file(fd, st);
	if (wrong == NULL)
		return fd;
	err_add(err, "%s: \"%s\" %s; expected a shared object", where, path, wrong);
	close(fd);
	return -1;
}

static int open_memory(const char *path)
{
	const char *slash = strrchr(path, '/');
	char name[200];
	int fd;

	snprintf(name, sizeof(name), "%s", slash != NULL ? slash + 1 : path);
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

static int copy(int to, int from, off_t size)
{
	while (size > 0) {
		ssize_t n = sendfile(to, from, NULL, (size_t)size);

		if (n <= 0) {
			errno = n == 0 ? EIO : errno;
			return -1;
		}
		size -= n;
	}
	return 0;
}

/* A file that is being written while it is read would give half of two versions. */
static bool is_changed(int fd, const struct stat *before)
{
	struct stat st;

	return fstat(fd, &st) != 0 || st.st_size != before->st_size ||
	       st.st_mtim.tv_sec != before->st_mtim.tv_sec ||
	       st.st_mtim.tv_nsec != before->st_mtim.tv_nsec;
}

/* A sealed copy of the file; -1 with a message. */
static int copy_file(int from, const struct stat *st, const char *path, const char *where,
		     struct err *err)
{
	const int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int to = open_memory(path);

	if (to < 0 || copy(to, from, st->st_size) != 0 || fcntl(to, F_ADD_SEALS, seals) != 0)
		err_add(err, "%s: cannot copy \"%s\" to memory: %s", where, path, strerror(errno));
	else if (is_changed(from, st))
		err_add(err, "%s: \"%s\" changed while it was read; expected one that is in place "
			     "(write another file and rename it)", where, path);
	else
		return to;
	if (to >= 0)
		close(to);
	return -1;
}

int handler_image_open(struct handler_image *image, const char *dir, const char *name,
		       const char *where, struct err *err)
{
	struct stat st;
	int from;

	*image = (struct handler_image){
		.name = strdup(name), .path = find_path(dir, name), .fd = -1};
	if (image->name == NULL || image->path == NULL) {
		err_add(err, "%s: %s", where, strerror(ENOMEM));
		goto fail;
	}
	from = open_file(image->path, &st, where, err);
	if (from < 0)
		goto fail;
	image->fd = copy_file(from, &st, image->path, where, err);
	close(from);
	if (image->fd >= 0)
		return 0;
fail:
	handler_image_close(image);
	return -1;
}

void handler_image_close(struct handler_image *image)
{
	free(image->name);
	free(image->path);
	if (image->fd >= 0)
		close(image->fd);
	*image = (struct handler_image){.fd = -1};
}

/* The linker speaks of the link to the copy; the operator knows the file. */
static void put_reason(char reason[REASON_MAX], const char *said, const char *link,
		       const char *path)
{
	size_t len = 0;
	const char *at;

	while (len < REASON_MAX && (at = strstr(said, link)) != NULL) {
		len += (size_t)snprintf(reason + len, REASON_MAX - len, "%.*s%s",
					(int)(at - said), said, path);
		said = at + strlen(link);
	}
	if (len < REASON_MAX)
		snprintf(reason + len, REASON_MAX - len, "%s", said);
}

/*
 * The linker knows loaded objects by name, so a descriptor that were closed and used again for
 * another image would give the first one once more: it is one of our own that stays open, as the
 * object stays loaded.
 */
static void *load(const struct handler_image *image, const char *where, struct err *err)
{
	char link[LINK_MAX], reason[REASON_MAX];
	int fd = fcntl(image->fd, F_DUPFD_CLOEXEC, 0);
	const char *said;
	void *object;

	if (fd < 0) {
		err_add(err, "%s: cannot load \"%s\": %s", where, image->path, strerror(errno));
		return NULL;
	}
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	object = dlopen(link, RTLD_NOW | RTLD_LOCAL);
	if (object != NULL)
		return object;
	said = dlerror();
	close(fd);
	put_reason(reason, said != NULL ? said : "unknown error", link, image->path);
	err_add(err, "%s: cannot load \"%s\": %s; expected a handler whose symbols are all found",
		where, image->path, reason);
	return NULL;
}

const struct wc_handler *handler_load(const struct handler_image *image, const char *where,
				      struct err *err)
{
	void *object = load(image, where, err);
	const struct wc_handler *handler;

	if (object == NULL)
		return NULL;
	handler = dlsym(object, SYMBOL);
	if (handler == NULL)
		err_add(err, "%s: \"%s\" has no symbol " SYMBOL "; expected a handler, with "
			"WC_HANDLER()", where, image->path);
	else if (handler->abi != WC_ABI)
		err_add(err, "%s: \"%s\" has ABI %u; expected %u: build it with this server's "
			"whitecap.h", where, image->path, handler->abi, (unsigned)WC_ABI);
	else if (handler->size != sizeof(*handler))
		err_add(err, "%s: \"%s\" has a descriptor of %u octets; expected %zu, with "
			"WC_HANDLER()", where, image->path, handler->size, sizeof(*handler));
	else if (handler->name == NULL || handler->name[0] == '\0')
		err_add(err, "%s: \"%s\" has no .name; expected one in WC_HANDLER()", where,
			image->path);
	else if (handler->handle == NULL)
		err_add(err, "%s: \"%s\" has no .handle; expected one in WC_HANDLER()", where,
			image->path);
	else
		return handler;
	return NULL;
}
