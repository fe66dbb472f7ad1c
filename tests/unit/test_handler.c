/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "handler.h"
#include "system.h"
#include "unit.h"

#include <CUnit/CUnit.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct err err;

static void check_mistake(const char *dir, const char *name, const char *path, const char *why)
{
	struct handler_image image;

	err_init(&err);
	CU_ASSERT_EQUAL(handler_image_open(&image, dir, name, "routes[0].handler", &err), -1);
	CU_ASSERT_EQUAL(err.count, 1);
	CU_ASSERT_EQUAL(strncmp(err.text, "routes[0].handler: ", 19), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, path));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, why));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "expected"));
	CU_ASSERT_EQUAL(image.fd, -1);
	CU_ASSERT_PTR_NULL(image.path);
}

static void test_files(void)
{
	const char *fifo = system_path("fifo.so"), *big = system_path("big.so"),
		   *text = system_path("text.so");

	check_mistake("/nowhere", "hello", "\"/nowhere/hello.so\"", "No such file or directory");
	check_mistake("/nowhere", "./hello.so", "\"./hello.so\"", "No such file or directory");
	check_mistake("/nowhere", system_folder(), system_folder(), "no regular file");
	system_write(text, "int main(void) {}\n");
	check_mistake(system_folder(), "text", text, "no ELF file");
	system_write(text, "");
	check_mistake(system_folder(), "text", text, "no ELF file");
	CU_ASSERT_EQUAL(mkfifo(fifo, 0600), 0);
	check_mistake("", fifo, fifo, "no regular file");
	system_write(big, "\177ELF");
	CU_ASSERT_EQUAL(truncate(big, (256 << 20) + 1), 0);
	check_mistake("", big, big, "larger than 256 MiB");
	unlink(big);
}

/* The object that CUnit is in: loads, but is no handler. */
static void test_no_handler(void)
{
	struct handler_image image;
	Dl_info info;

	if (dladdr((void *)(uintptr_t)CU_initialize_registry, &info) == 0 ||
	    strstr(info.dli_fname, ".so") == NULL) {
		unit_skip("CUnit is linked statically");
		return;
	}
	err_init(&err);
	CU_ASSERT_EQUAL_FATAL(handler_image_open(&image, "", info.dli_fname, "here", &err), 0);
	CU_ASSERT_PTR_NULL(handler_load(&image, "routes[7].handler", &err));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "routes[7].handler: "));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, info.dli_fname));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no symbol wc_handler_descriptor"));
	handler_image_close(&image);
}

/* A broken object: the linker's words name the file, not the link to its copy. */
static void test_cannot_load(void)
{
	const char *path = system_path("broken.so");
	struct handler_image image;

	system_write(path, "\177ELF and nothing more");
	err_init(&err);
	CU_ASSERT_EQUAL_FATAL(handler_image_open(&image, system_folder(), "broken", "x", &err), 0);
	CU_ASSERT_PTR_NULL(handler_load(&image, "routes[0].handler", &err));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "cannot load"));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, path));
	CU_ASSERT_PTR_NULL(strstr(err.text, "/proc/self"));
	handler_image_close(&image);
}

/* What is run is what was read, whatever happens to the file or through the descriptor. */
static void test_sealed(void)
{
	const char *path = system_path("sealed.so");
	struct handler_image image;
	char octets[4] = "";

	system_write(path, "\177ELF 1");
	err_init(&err);
	CU_ASSERT_EQUAL_FATAL(handler_image_open(&image, system_folder(), "sealed", "x", &err), 0);
	CU_ASSERT_STRING_EQUAL(image.name, "sealed");
	CU_ASSERT_STRING_EQUAL(image.path, path);
	CU_ASSERT_EQUAL(fcntl(image.fd, F_GETFD), FD_CLOEXEC);
	system_write(path, "broken");
	CU_ASSERT_EQUAL(write(image.fd, "x", 1), -1);
	CU_ASSERT_EQUAL(ftruncate(image.fd, 0), -1);
	CU_ASSERT_EQUAL(pread(image.fd, octets, 4, 0), 4);
	CU_ASSERT_EQUAL(memcmp(octets, "\177ELF", 4), 0);
	handler_image_close(&image);
	handler_image_close(&image);
}

CU_TestInfo handler_tests[] = {
	{"files", test_files},
	{"no handler", test_no_handler},
	{"can't be loaded", test_cannot_load},
	{"sealed", test_sealed},
	CU_TEST_INFO_NULL,
};
