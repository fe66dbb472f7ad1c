/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "listener.h"
#include "system.h"
#include "unit.h"

#include <CUnit/CUnit.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct err err;
static struct listener_pool *pool;

static struct config_listen listen_on(const char *address)
{
	return (struct config_listen){.address = (char *)address, .mode = 0600, .backlog = 16};
}

/* "unix:" and a path in the tests' folder; four live at a time. */
static const char *unix_address(const char *name)
{
	static char addresses[4][160];
	static unsigned next;
	char *address = addresses[next++ % 4];

	snprintf(address, sizeof(addresses[0]), "unix:%s", system_path(name));
	return address;
}

static void begin(void)
{
	err_init(&err);
	pool = listener_pool_new();
	CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
}

static void end(void)
{
	listener_pool_free(pool);
}

static enum listener_result open_one(struct listener_set *set, const char *address)
{
	struct config_listen config = listen_on(address);

	return listener_set_open(set, pool, &config, 1, &err);
}

/* Connects to where the listener is; the client's fd, or -1 with errno. */
static int connect_to(const struct listener *l)
{
	int fd = socket(l->where.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (const struct sockaddr *)&l->where.sa, l->where.len) == 0)
		return fd;
	close(fd);
	return -1;
}

static int option_of(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	getsockopt(fd, level, name, &value, &len);
	return value;
}

/* What a worker would have to set on each connection, were it not inherited. */
static void test_inherited(void)
{
	struct listener_set set;
	int client, fd;

	begin();
	CU_ASSERT_EQUAL_FATAL(open_one(&set, "127.0.0.1:0"), LISTENER_OK);
	CU_ASSERT_EQUAL(fcntl(set.fds[0], F_GETFD), FD_CLOEXEC);
	CU_ASSERT(fcntl(set.fds[0], F_GETFL) & O_NONBLOCK);
	client = connect_to(set.listeners[0]);
	fd = accept4(set.fds[0], NULL, NULL, SOCK_CLOEXEC);
	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(option_of(fd, IPPROTO_TCP, TCP_NODELAY), 1);
	CU_ASSERT_EQUAL(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
	CU_ASSERT_EQUAL(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), 60);
	CU_ASSERT_EQUAL(option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL), 10);
	CU_ASSERT_EQUAL(option_of(fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
	CU_ASSERT_EQUAL(option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 89000);
	close(fd);
	close(client);
	listener_set_close(&set, pool);
	end();
}

static void test_bound_text(void)
{
	struct listener_set set;
	unsigned port;
	char expected[64];

	begin();
	CU_ASSERT_EQUAL_FATAL(open_one(&set, "127.0.0.1:0"), LISTENER_OK);
	port = address_port(&set.listeners[0]->where);
	CU_ASSERT(port > 0);
	snprintf(expected, sizeof(expected), "127.0.0.1:%u", port);
	CU_ASSERT_STRING_EQUAL(set.listeners[0]->bound, expected);
	CU_ASSERT_STRING_EQUAL(set.listeners[0]->address, "127.0.0.1:0");
	listener_set_close(&set, pool);
	CU_ASSERT_EQUAL_FATAL(open_one(&set, unix_address("text.sock")), LISTENER_OK);
	CU_ASSERT_STRING_EQUAL(set.listeners[0]->bound, unix_address("text.sock"));
	listener_set_close(&set, pool);
	end();
}

static void test_ipv6(void)
{
	struct listener_set set;

	begin();
	if (open_one(&set, "[::1]:0") == LISTENER_OK) {
		CU_ASSERT_EQUAL(strncmp(set.listeners[0]->bound, "[::1]:", 6), 0);
		CU_ASSERT_EQUAL(option_of(set.fds[0], IPPROTO_IPV6, IPV6_V6ONLY), 1);
		listener_set_close(&set, pool);
	} else {
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "listen[0].address \"[::1]:0\""));
		unit_skip("no IPv6 on this machine");
	}
	end();
}

/* A connection that waits in the queue is there after a reload: the socket is the same one. */
static void test_kept(void)
{
	struct listener_set old, new;
	struct config_listen first[2] = {listen_on("127.0.0.1:0"),
					 listen_on(unix_address("kept.sock"))};
	struct config_listen second[3] = {listen_on("127.0.0.1:0"), first[1], first[0]};
	int client, fd;

	begin();
	CU_ASSERT_EQUAL_FATAL(listener_set_open(&old, pool, first, 2, &err), LISTENER_OK);
	client = connect_to(old.listeners[0]);
	CU_ASSERT_EQUAL_FATAL(listener_set_open(&new, pool, second, 3, &err), LISTENER_OK);
	CU_ASSERT_EQUAL(new.fds[0], old.fds[0]);
	CU_ASSERT_EQUAL(new.fds[1], old.fds[1]);
	CU_ASSERT_NOT_EQUAL(new.fds[2], new.fds[0]);
	listener_set_close(&old, pool);
	fd = accept4(new.fds[0], NULL, NULL, SOCK_CLOEXEC);
	CU_ASSERT(fd >= 0);
	close(fd);
	close(client);
	client = connect_to(new.listeners[1]);
	CU_ASSERT(client >= 0);
	close(client);
	/* The port that the kernel chose, now written out: the same socket still. */
	second[0].address = strdup(new.listeners[0]->bound);
	CU_ASSERT_EQUAL_FATAL(listener_set_open(&old, pool, second, 1, &err), LISTENER_OK);
	CU_ASSERT_EQUAL(old.fds[0], new.fds[0]);
	free(second[0].address);
	listener_set_close(&old, pool);
	listener_set_close(&new, pool);
	CU_ASSERT_EQUAL(access(system_path("kept.sock"), F_OK), -1);
	CU_ASSERT_EQUAL(err.count, 0);
	end();
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

static void test_mode(void)
{
	struct config_listen config = listen_on(unix_address("mode.sock"));
	struct listener_set old, new;

	begin();
	umask(077);
	config.mode = 0666;
	CU_ASSERT_EQUAL_FATAL(listener_set_open(&old, pool, &config, 1, &err), LISTENER_OK);
	CU_ASSERT_EQUAL(mode_of(system_path("mode.sock")), 0666);
	CU_ASSERT_EQUAL(umask(022), 077);
	config.mode = 0600;
	CU_ASSERT_EQUAL_FATAL(listener_set_open(&new, pool, &config, 1, &err), LISTENER_OK);
	CU_ASSERT_EQUAL(mode_of(system_path("mode.sock")), 0666);
	CU_ASSERT_EQUAL(listener_set_apply(&new, &config), 0);
	CU_ASSERT_EQUAL(mode_of(system_path("mode.sock")), 0600);
	listener_set_close(&old, pool);
	listener_set_close(&new, pool);
	end();
}

/* All or nothing: what was opened is closed again, what was kept stays, all mistakes are told. */
static void test_all_or_nothing(void)
{
	struct config_listen config[] = {
		listen_on("127.0.0.1:0"), listen_on(unix_address("nothing.sock")),
		listen_on("192.0.2.1:1"), listen_on("localhost:80"),
	};
	struct listener_set old, new;
	int client;

	begin();
	CU_ASSERT_EQUAL_FATAL(listener_set_open(&old, pool, config, 1, &err), LISTENER_OK);
	CU_ASSERT_EQUAL(listener_set_open(&new, pool, config, 3, &err), LISTENER_CANNOT_BIND);
	CU_ASSERT_EQUAL(err.count, 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "listen[2].address \"192.0.2.1:1\": cannot bind: "
						"Cannot assign requested address; expected"));
	CU_ASSERT_EQUAL(new.count, 0);
	CU_ASSERT_EQUAL(access(system_path("nothing.sock"), F_OK), -1);
	err_init(&err);
	CU_ASSERT_EQUAL(listener_set_open(&new, pool, config, 4, &err), LISTENER_INVALID);
	CU_ASSERT_EQUAL(err.count, 2);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "listen[3].address \"localhost:80\": "
						"expected IPv4"));
	client = connect_to(old.listeners[0]);
	CU_ASSERT(client >= 0);
	close(client);
	listener_set_close(&new, pool);
	listener_set_close(&old, pool);
	end();
}

static void check_clash(const char *a, const char *b)
{
	struct config_listen config[2] = {listen_on(a), listen_on(b)};
	struct listener_set set;

	err_init(&err);
	CU_ASSERT_EQUAL(listener_set_open(&set, pool, config, 2, &err), LISTENER_INVALID);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "listen[1].address"));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "listen[0].address"));
}

/* A port that nobody had on any address a moment ago. */
static unsigned free_port(void)
{
	struct listener_set set;
	unsigned port;

	CU_ASSERT_EQUAL_FATAL(open_one(&set, "0.0.0.0:0"), LISTENER_OK);
	port = address_port(&set.listeners[0]->where);
	listener_set_close(&set, pool);
	return port;
}

static void test_clashes(void)
{
	char one[64], any[64], dotted[200];
	struct listener_set set, other;

	begin();
	snprintf(one, sizeof(one), "127.0.0.1:%u", free_port());
	snprintf(any, sizeof(any), "0.0.0.0:%s", strchr(one, ':') + 1);
	snprintf(dotted, sizeof(dotted), "unix:%s/./twice.sock", system_folder());
	check_clash(one, one);
	check_clash(one, any);
	check_clash(any, one);
	check_clash(unix_address("twice.sock"), dotted);
	err_init(&err);
	CU_ASSERT_EQUAL_FATAL(open_one(&set, one), LISTENER_OK);
	CU_ASSERT_EQUAL(open_one(&other, any), LISTENER_CANNOT_BIND);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "the configuration in use listens on"));
	listener_set_close(&set, pool);
	end();
}

static void test_in_use(void)
{
	struct listener_pool *other = listener_pool_new();
	struct listener_set set, second;
	struct config_listen config = listen_on("127.0.0.1:0");

	begin();
	CU_ASSERT_EQUAL_FATAL(listener_set_open(&set, other, &config, 1, &err), LISTENER_OK);
	CU_ASSERT_EQUAL(open_one(&second, set.listeners[0]->bound), LISTENER_CANNOT_BIND);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "Address already in use"));
	listener_set_close(&set, other);
	listener_pool_free(other);
	end();
}

/* What kill -9 left behind is replaced, a living server's socket is not. */
static void test_stale_and_live(void)
{
	const char *address = unix_address("stale.sock");
	struct listener_pool *other = listener_pool_new();
	struct config_listen config = listen_on(address);
	struct listener_set live, second;
	int client;
	pid_t pid;

	begin();
	pid = fork();
	if (pid == 0)
		_exit(open_one(&second, address) == LISTENER_OK ? 0 : 1);
	waitpid(pid, NULL, 0);
	CU_ASSERT_EQUAL(access(system_path("stale.sock"), F_OK), 0);
	CU_ASSERT_EQUAL_FATAL(listener_set_open(&live, other, &config, 1, &err), LISTENER_OK);
	CU_ASSERT_EQUAL(open_one(&second, address), LISTENER_CANNOT_BIND);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "a server listens there"));
	client = connect_to(live.listeners[0]);
	CU_ASSERT(client >= 0);
	close(client);
	listener_set_close(&live, other);
	CU_ASSERT_EQUAL(access(system_path("stale.sock"), F_OK), -1);
	listener_pool_free(other);
	end();
}

static void test_regular_file(void)
{
	const char *path = system_path("regular");
	struct listener_set set;

	begin();
	system_write(path, "precious");
	CU_ASSERT_EQUAL(open_one(&set, unix_address("regular")), LISTENER_CANNOT_BIND);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no socket"));
	CU_ASSERT_STRING_EQUAL(system_read(path), "precious");
	end();
}

/* A child that ends, or a file that somebody else put there, does not cost a socket file. */
static void test_unlink_only_ours(void)
{
	const char *path = system_path("ours.sock");
	struct listener_set set;
	pid_t pid;

	begin();
	CU_ASSERT_EQUAL_FATAL(open_one(&set, unix_address("ours.sock")), LISTENER_OK);
	pid = fork();
	if (pid == 0) {
		listener_set_close(&set, pool);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	CU_ASSERT_EQUAL(access(path, F_OK), 0);
	CU_ASSERT_EQUAL(rename(path, system_path("moved.sock")), 0);
	system_write(path, "another's");
	listener_set_close(&set, pool);
	CU_ASSERT_STRING_EQUAL(system_read(path), "another's");
	unlink(path);
	unlink(system_path("moved.sock"));
	end();
}

/* A socket file that was removed under us is made again by a reload. */
static void test_file_lost(void)
{
	const char *path = system_path("lost.sock");
	struct listener_set old, new;

	begin();
	CU_ASSERT_EQUAL_FATAL(open_one(&old, unix_address("lost.sock")), LISTENER_OK);
	unlink(path);
	CU_ASSERT_EQUAL_FATAL(open_one(&new, unix_address("lost.sock")), LISTENER_OK);
	CU_ASSERT_NOT_EQUAL(old.fds[0], new.fds[0]);
	listener_set_close(&old, pool);
	CU_ASSERT_EQUAL(access(path, F_OK), 0);
	listener_set_close(&new, pool);
	CU_ASSERT_EQUAL(access(path, F_OK), -1);
	end();
}

static void test_unix_errors(void)
{
	char address[300] = "unix:/tmp/";
	struct listener_set set;

	begin();
	CU_ASSERT_EQUAL(open_one(&set, unix_address("nowhere/x.sock")), LISTENER_CANNOT_BIND);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "No such file or directory"));
	memset(address + 10, 'x', 200);
	CU_ASSERT_EQUAL(open_one(&set, address), LISTENER_INVALID);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "107 octets"));
	CU_ASSERT_EQUAL(open_one(&set, "unix:"), LISTENER_INVALID);
	end();
}

/* A child that was passed a listening unix socket (fd 3) and another file (fd 4). */
static int in_passed_child(int (*check)(const char *path))
{
	const char *path = system_path("passed.sock");
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0), file;
		char text[16];

		strcpy(sun.sun_path, path);
		if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0 || listen(fd, 5) != 0)
			_exit(99);
		fd = fcntl(fd, F_DUPFD, 10);
		file = fcntl(open("/dev/null", O_RDONLY), F_DUPFD, 10);
		dup2(fd, 3);
		dup2(file, 4);
		snprintf(text, sizeof(text), "%ld", (long)getpid());
		setenv("LISTEN_PID", text, 1);
		setenv("LISTEN_FDS", "2", 1);
		setenv("LISTEN_FDNAMES", "web:file", 1);
		_exit(check(path));
	}
	waitpid(pid, &status, 0);
	unlink(path);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool is_environment_clean(void)
{
	return getenv("LISTEN_PID") == NULL && getenv("LISTEN_FDS") == NULL &&
	       getenv("LISTEN_FDNAMES") == NULL;
}

static int check_passed(const char *path)
{
	struct listener_set set, again;

	err_init(&err);
	pool = listener_pool_new();
	if (!is_environment_clean() || fcntl(3, F_GETFD) != FD_CLOEXEC)
		return 1;
	if (open_one(&set, "fd:web") != LISTENER_OK || set.fds[0] != 3)
		return 2;
	if (strncmp(set.listeners[0]->bound, "unix:", 5) != 0 ||
	    strcmp(set.listeners[0]->bound + 5, path) != 0 || !(fcntl(3, F_GETFL) & O_NONBLOCK))
		return 3;
	if (open_one(&again, "fd:web") != LISTENER_OK || again.fds[0] != 3)
		return 4;
	listener_set_close(&again, pool);
	listener_set_close(&set, pool);
	/* Neither closed nor removed: a later configuration may want it again. */
	if (access(path, F_OK) != 0 || open_one(&set, "fd:web") != LISTENER_OK)
		return 5;
	return 0;
}

static int check_passed_mistakes(const char *path)
{
	struct config_listen twice[2] = {listen_on("fd:web"), listen_on("fd:web")};
	struct listener_set set;

	(void)path;
	err_init(&err);
	pool = listener_pool_new();
	if (open_one(&set, "fd:nope") != LISTENER_INVALID ||
	    strstr(err.text, "\"web\" \"file\"") == NULL)
		return 1;
	if (open_one(&set, "fd:file") != LISTENER_INVALID || strstr(err.text, "stream") == NULL)
		return 2;
	if (listener_set_open(&set, pool, twice, 2, &err) != LISTENER_INVALID)
		return 3;
	return 0;
}

static int check_foreign(const char *path)
{
	struct listener_set set;

	(void)path;
	setenv("LISTEN_PID", "1", 1);
	err_init(&err);
	pool = listener_pool_new();
	if (!is_environment_clean() || open_one(&set, "fd:web") != LISTENER_INVALID)
		return 1;
	return fcntl(3, F_GETFD) == 0 ? 0 : 2; /* left alone */
}

static void test_passed(void)
{
	CU_ASSERT_EQUAL(in_passed_child(check_passed), 0);
	CU_ASSERT_EQUAL(in_passed_child(check_passed_mistakes), 0);
	CU_ASSERT_EQUAL(in_passed_child(check_foreign), 0);
}

static void test_addresses(void)
{
	static const struct {
		const char *text;
		enum address_kind kind;
		const char *formatted; /* NULL: a mistake */
	} cases[] = {
		{"127.0.0.1:80", ADDRESS_INET, "127.0.0.1:80"},
		{"0.0.0.0:65535", ADDRESS_INET, "0.0.0.0:65535"},
		{"[::1]:8080", ADDRESS_INET, "[::1]:8080"},
		{"[2001:DB8:0::1]:1", ADDRESS_INET, "[2001:db8::1]:1"},
		{"[::]:0", ADDRESS_INET, "[::]:0"},
		{"unix:/run/x", ADDRESS_UNIX, "unix:/run/x"},
		{"unix:", ADDRESS_UNIX, NULL},
		{"unix:/run/", ADDRESS_UNIX, NULL},
		{"fd:", ADDRESS_PASSED, NULL},
		{"", ADDRESS_INET, NULL},
		{":80", ADDRESS_INET, NULL},
		{"127.0.0.1", ADDRESS_INET, NULL},
		{"127.0.0.1:", ADDRESS_INET, NULL},
		{"127.0.0.1:65536", ADDRESS_INET, NULL},
		{"127.0.0.1:+80", ADDRESS_INET, NULL},
		{"127.0.0.1:000080", ADDRESS_INET, NULL},
		{"127.1:80", ADDRESS_INET, NULL},
		{"::1:80", ADDRESS_INET, NULL},
		{"[::1]", ADDRESS_INET, NULL},
		{"[127.0.0.1]:80", ADDRESS_INET, NULL},
		{"[]:80", ADDRESS_INET, NULL},
		{"[:80", ADDRESS_INET, NULL},
		{"localhost:80", ADDRESS_INET, NULL},
		{"*:80", ADDRESS_INET, NULL},
	};
	char text[ADDRESS_TEXT_MAX];
	struct address address;
	const char *expected;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int result = address_parse(&address, cases[i].text, &expected);

		CU_ASSERT_EQUAL(result, cases[i].formatted != NULL ? 0 : -1);
		if (result != 0)
			continue;
		CU_ASSERT_EQUAL(address.kind, cases[i].kind);
		address_format((const struct sockaddr *)&address.sa, address.len, text);
		CU_ASSERT_STRING_EQUAL(text, cases[i].formatted);
	}
}

CU_TestInfo listener_tests[] = {
	{"addresses", test_addresses},
	{"options are inherited", test_inherited},
	{"text of the bound address", test_bound_text},
	{"IPv6", test_ipv6},
	{"kept over a reload", test_kept},
	{"mode", test_mode},
	{"all or nothing", test_all_or_nothing},
	{"clashes", test_clashes},
	{"in use", test_in_use},
	{"stale and live socket files", test_stale_and_live},
	{"regular file", test_regular_file},
	{"unlink only ours", test_unlink_only_ours},
	{"socket file lost", test_file_lost},
	{"unix errors", test_unix_errors},
	{"passed sockets", test_passed},
	CU_TEST_INFO_NULL,
};
