/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into the server: fails an allocation, as the file of FAIL_MALLOC says, which every
 * process maps and which may change at any time.  It works in front of the allocator of a
 * sanitizer, too.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct orders {
	_Atomic int64_t whose; /* process; less than 0: children of that process; 0: nobody's */
	_Atomic int64_t left;  /* the one that makes this 0 fails */
	_Atomic int64_t more;  /* how many fail behind it */
	_Atomic int64_t failed;
};

static struct orders *orders;
static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);
static void *(*next_mmap)(void *, size_t, int, int, int, off_t);

/* For dlsym, before the others are known. */
static _Alignas(16) char early[65536];
static size_t early_used;
static bool is_finding;

static bool is_early(const void *ptr)
{
	return (const char *)ptr >= early && (const char *)ptr < early + sizeof early;
}

static void *get_early(size_t size)
{
	void *ptr = early + early_used;

	early_used += (size + 31) & ~(size_t)15;
	if (early_used > sizeof early)
		abort();
	return ptr;
}

static void *find(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static bool is_found(void)
{
	if (next_free)
		return true;
	if (is_finding)
		return false;
	is_finding = true;
	next_malloc = (void *(*)(size_t))find("malloc");
	next_calloc = (void *(*)(size_t, size_t))find("calloc");
	next_realloc = (void *(*)(void *, size_t))find("realloc");
	next_mmap = (void *(*)(void *, size_t, int, int, int, off_t))find("mmap");
	next_free = (void (*)(void *))find("free");
	return true;
}

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("FAIL_MALLOC");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *memory;

	if (fd < 0 || !is_found())
		return;
	memory = next_mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory != MAP_FAILED)
		orders = memory;
}

static bool fails(void)
{
	int64_t whose = orders ? orders->whose : 0;
	int64_t left;

	if (whose == 0 || (whose > 0 ? getpid() != whose : getppid() != -whose))
		return false;
	left = atomic_fetch_sub(&orders->left, 1) - 1;
	if (left > 0 || left < -orders->more)
		return false;
	atomic_fetch_add(&orders->failed, 1);
	errno = ENOMEM;
	return true;
}

void *malloc(size_t size)
{
	if (!is_found())
		return get_early(size);
	return fails() ? NULL : next_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	if (!is_found())
		return get_early(n * size);
	return fails() ? NULL : next_calloc(n, size);
}

void *realloc(void *ptr, size_t size)
{
	void *new;

	if (!is_early(ptr))
		return !is_found() ? get_early(size) : fails() ? NULL : next_realloc(ptr, size);
	new = malloc(size);
	if (new)
		memcpy(new, ptr, size < (size_t)(early + sizeof early - (char *)ptr) ? size : 0);
	return new;
}

void free(void *ptr)
{
	if (ptr && !is_early(ptr) && is_found())
		next_free(ptr);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (!is_found())
		return MAP_FAILED;
	return fails() ? MAP_FAILED : next_mmap(address, length, protection, flags, fd, offset);
}
