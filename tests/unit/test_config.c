/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "config_doc.h"

extern CU_TestInfo config_tests[];

static struct err err;

/* Loads a text as a file; *config NULL: err says why, with the file's name replaced by FILE. */
static struct config *load_octets(const char *text, size_t len, char *const *overrides)
{
	char path[] = "/tmp/whitecap-test-XXXXXX", *at;
	int fd = mkstemp(path);
	struct config *config;

	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT_FATAL(write(fd, text, len) == (ssize_t)len);
	close(fd);
	err_init(&err);
	config = config_load(path, overrides, &err);
	unlink(path);
	while ((at = strstr(err.text, path))) {
		memcpy(at, "FILE", 4);
		memmove(at + 4, at + strlen(path), strlen(at + strlen(path)) + 1);
	}
	return config;
}

static struct config *load(const char *text, char *const *overrides)
{
	return load_octets(text, strlen(text), overrides);
}

static char *dump(const struct config *config)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	CU_ASSERT_FATAL(out != NULL);
	config_dump(config, out);
	fclose(out);
	return text;
}

static void check_failure(const char *input, const char *message)
{
	if (err.count == 0 || !strstr(err.text, message))
		printf("\n%s\ngave:   %s\nwanted: %s\n", input, err.text, message);
	CU_ASSERT(err.count > 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, message));
}

static void test_defaults(void)
{
	struct config *config;

	err_init(&err);
	config = config_load(NULL, NULL, &err);
	CU_ASSERT_FATAL(config != NULL);
	CU_ASSERT_EQUAL(err.count, 0);
	CU_ASSERT_EQUAL(config->warnings.count, 0);
	CU_ASSERT_EQUAL(config->workers, 0);
	CU_ASSERT_EQUAL(config->listen_count, 1);
	CU_ASSERT_STRING_EQUAL(config->listens[0].address, "127.0.0.1:8080");
	CU_ASSERT_EQUAL(config->listens[0].backlog, 4096);
	CU_ASSERT_EQUAL(config->route_count, 1);
	CU_ASSERT_STRING_EQUAL(config->routes[0].path, "/");
	CU_ASSERT_STRING_EQUAL(config->routes[0].handler, "hello");
	CU_ASSERT_PTR_NULL(config->routes[0].methods);
	CU_ASSERT_EQUAL(json_object_size(config->routes[0].options), 0);
	CU_ASSERT(json_is_object(config->routes[0].options));
	CU_ASSERT_EQUAL(config->routes[0].shed.status, 204);
	CU_ASSERT_EQUAL(config->header_size, 16384);
	CU_ASSERT_EQUAL(config->keepalive_ms, 150000);
	CU_ASSERT_EQUAL(config->handler_ms, 0);
	CU_ASSERT_EQUAL(config->log_level, 2);
	CU_ASSERT_EQUAL(config->stats_mode, 0644);
	CU_ASSERT_PTR_NULL(config->access_log_path);
	CU_ASSERT_EQUAL(config->access_log_sample, 1);
	CU_ASSERT_STRING_EQUAL(config->admin_listen, "127.0.0.1:8081");
	CU_ASSERT_PTR_NULL(config->trusted_proxies[0]);
	CU_ASSERT(config->rebalance);
	config_free(config);
	config_free(NULL);
}

static void test_values(void)
{
	struct config *config =
		load("{\"// note\": 1, \"workers\": 3, \"listen\": [\"[0::1]:080\", {\"address\": "
		     "\"unix:/run/x\","
		     " \"mode\": \"600\", \"// why\": null}, \"fd:web\"],"
		     " \"routes\": [{\"path\": \"/a\", \"methods\": [\"GET\"], \"handler\": \"x\","
		     " \"timeout\": 20, \"options\": {\"//\": 1, \"b\": 0.1}},"
		     " {\"path\": \"/a\", \"methods\": [\"POST\"], \"handler\": \"y\"}],"
		     " \"admin\": {\"listen\": null}, \"access_log\": {\"path\": \"/l\", "
		     "\"sample\": 0.5},"
		     " \"limits\": {\"body_size\": 0, \"header_size\": \"64K\"}, \"log\": "
		     "{\"level\": \"debug\"}}",
		     NULL);

	CU_ASSERT_FATAL(config != NULL);
	CU_ASSERT_EQUAL(config->workers, 3);
	CU_ASSERT_STRING_EQUAL(config->listens[0].address, "[::1]:80");
	CU_ASSERT_EQUAL(config->listens[1].mode, 0600);
	CU_ASSERT_STRING_EQUAL(config->listens[2].address, "fd:web");
	CU_ASSERT_EQUAL(config->routes[0].timeout_ms, 20);
	CU_ASSERT_STRING_EQUAL(config->routes[1].methods[0], "POST");
	CU_ASSERT_EQUAL(json_object_size(config->routes[0].options), 2);
	CU_ASSERT_PTR_NULL(config->admin_listen);
	CU_ASSERT_STRING_EQUAL(config->access_log_path, "/l");
	CU_ASSERT_EQUAL(config->access_log_sample, 0.5);
	CU_ASSERT_EQUAL(config->body_size, 0);
	CU_ASSERT_EQUAL(config->header_size, 65536);
	CU_ASSERT_EQUAL(config->log_level, 3);
	CU_ASSERT_EQUAL(config->warnings.count, 0);
	config_free(config);
}

#define ROUTE(more) "{\"routes\": [{\"path\": \"/a\", \"handler\": \"x\"" more "}]}"
#define ADDRESS_EXPECTED "expected an address: IPv4:port, [IPv6]:port, unix:PATH"

static const struct {
	const char *text, *message;
} mistakes[] = {
	/* JSON itself. */
	{"", "FILE:1:0: '[' or '{' expected near end of file (the file is empty)"},
	{"[]", "FILE: found an array, expected an object"},
	{"5", "FILE:1:1: '[' or '{' expected near '5'"},
	{"{\n \"workers\": 1,\n}", "FILE:3:1: string or '}' expected near '}'"},
	{"{\"user\": \"a\",\n\"user\": \"b\"}", "FILE:2:6: duplicate object key near '\"user\"'"},
	{"{\"log\": {\"path\": \"a\", \"path\": \"b\"}}", "duplicate object key near '\"path\"'"},
	{ROUTE(", \"options\": {\"a\": 1, \"a\": 2}"), "duplicate object key near '\"a\"'"},
	{"{\"user\": \"a\\u0000b\"}", "\\u0000 is not allowed"},
	{"{} x", "FILE:1:4: end of file expected near 'x'"},
	{"{}{}", "FILE:1:3: end of file expected near '{'"},
	{"\xef\xbb\xbf{}", "(the file begins with a byte order mark, which JSON does not have)"},
	{"{\"user\": \"\xff\"}", "unable to decode byte 0xff"},
	{"// hello\n{}", "(a comment is a key that begins with //)"},
	{"{ # hello\n}", "(a comment is a key that begins with //)"},
	{"{\"workers\": NaN}", "FILE:1:15: invalid token near 'NaN'"},
	{"{\"workers\": 99999999999999999999}", "too big integer"},
	{"{\"workers\": 1e999}", "real number overflow"},
	{"{\"user\": 'a'}", "FILE:1:10: invalid token"},
	/* Names. */
	{"{\"worker\": 1}", "FILE: worker: unknown key, the nearest known one is workers"},
	{"{\"Workers\": 1}", "FILE: Workers: unknown key, the nearest known one is workers"},
	{"{\"\": 1}", "FILE: : unknown key, and none known is like it"},
	{"{\"limit\": {}}", "FILE: limit: unknown key, the nearest known one is limits"},
	{"{\"limits\": {\"body_sise\": 1}}",
	 "FILE: limits.body_sise: unknown key, the nearest known one is limits.body_size"},
	{"{\"body_size\": 1}", "body_size: unknown key, the nearest known one is limits.body_size"},
	{"{\"limits.body_size\": 1}", "FILE: limits.body_size: unknown key"},
	{ROUTE(", \"timout\": 1"),
	 "FILE: routes[0].timout: unknown key, the nearest known one is routes[0].timeout"},
	{ROUTE(", \"shed\": {\"tmaks\": true}"), "the nearest known one is routes[0].shed.tmax"},
	{"{\"listen\": [{\"address\": \"fd:a\", \"back_log\": 1}]}",
	 "FILE: listen[0].back_log: unknown key, the nearest known one is listen[0].backlog"},
	{"{\"quux\": 1}", "FILE: quux: unknown key, and none known is like it"},
	/* Types and bounds. */
	{"{\"workers\": 0}",
	 "FILE: workers: found 0, expected an integer from 1 to 126, or \"auto\""},
	{"{\"workers\": 129}", "workers: found 129, expected"},
	{"{\"workers\": 1.0}", "workers: found 1.0, expected an integer"},
	{"{\"workers\": \"2\"}", "workers: found \"2\", expected an integer"},
	{"{\"workers\": null}", "workers: found null, expected an integer"},
	{"{\"limits\": 5}", "FILE: limits: found 5, expected an object"},
	{"{\"limits\": null}", "FILE: limits: found null, expected an object"},
	{"{\"access_log\": 1}", "FILE: access_log: found 1, expected an object, or null"},
	{"{\"access_log\": {}}", "FILE: access_log.path: found nothing, expected a string"},
	{"{\"access_log\": {\"path\": \"a\", \"sample\": 1.5}}",
	 "access_log.sample: found 1.5, expected a number from 0 to 1"},
	{"{\"access_log\": {\"path\": \"a\", \"format\": \"xml\"}}",
	 "access_log.format: found \"xml\", expected \"json\" or \"combined\""},
	{"{\"limits\": {\"body_size\": \"2g\"}}",
	 "limits.body_size: found \"2g\", expected a size from 0 to 1g, such as \"64k\""},
	{"{\"limits\": {\"body_size\": -1}}", "limits.body_size: found -1, expected a size"},
	{"{\"limits\": {\"headers\": 0}}",
	 "limits.headers: found 0, expected an integer from 1 to 1000"},
	{"{\"limits\": {\"header_size\": \"4k\"}}",
	 "limits.target_size: found \"8k\", expected at most limits.header_size, \"4k\""},
	{"{\"timeouts\": {\"keepalive\": \"150\"}}",
	 "timeouts.keepalive: found \"150\", expected a duration"},
	{"{\"timeouts\": {\"keepalive\": \"25h\"}}",
	 "found \"25h\", expected a duration from 1ms to 1d"},
	{"{\"timeouts\": {\"keepalive\": 1.5}}",
	 "timeouts.keepalive: found 1.5, expected a duration"},
	{"{\"log\": {\"level\": \"INFO\"}}",
	 "log.level: found \"INFO\", expected \"error\" or \"warn\""},
	{"{\"log\": {\"path\": \"\"}}",
	 "log.path: found \"\", expected a string that is not empty"},
	{"{\"stats\": {\"mode\": 644}}", "stats.mode: found 644, expected an octal mode"},
	{"{\"stats\": {\"mode\": \"0689\"}}", "stats.mode: found \"0689\", expected an octal mode"},
	{"{\"stats\": {\"mode\": \"1777\"}}", "expected an octal mode from 0000 to 0777"},
	{"{\"rebalance\": 1}", "rebalance: found 1, expected true or false"},
	{"{\"user\": {}}", "user: found an object, expected a string that is not empty, or null"},
	{"{\"trusted_proxies\": [\"10.0.0.0/33\"]}",
	 "trusted_proxies: found [\"10.0.0.0/33\"], expected"},
	{"{\"trusted_proxies\": [\"proxy\"]}", "expected an array of IP addresses and networks"},
	/* Addresses. */
	{"{\"listen\": []}", "FILE: listen: found [], expected an array, in length from 1 to 64"},
	{"{\"listen\": \"fd:a\"}", "FILE: listen: found \"fd:a\", expected an array"},
	{"{\"listen\": [5]}", "FILE: listen[0]: found 5, expected a string or an object"},
	{"{\"listen\": [{}]}", "FILE: listen[0].address: found nothing, " ADDRESS_EXPECTED},
	{"{\"listen\": [\"localhost:80\"]}",
	 "listen[0].address: found \"localhost:80\", " ADDRESS_EXPECTED},
	{"{\"listen\": [\"localhost\"]}", "host names are not looked up"},
	{"{\"listen\": [\"127.0.0.1\"]}", ADDRESS_EXPECTED},
	{"{\"listen\": [\"127.0.0.1:65536\"]}", ADDRESS_EXPECTED},
	{"{\"listen\": [\"127.0.0.1:\"]}", ADDRESS_EXPECTED},
	{"{\"listen\": [\"::1:80\"]}", ADDRESS_EXPECTED},
	{"{\"listen\": [\"[::g]:80\"]}", ADDRESS_EXPECTED},
	{"{\"listen\": [\"unix:\"]}", ADDRESS_EXPECTED},
	{"{\"listen\": [\"fd:\"]}", ADDRESS_EXPECTED},
	{"{\"listen\": [\"127.0.0.1:80\", \"127.0.0.1:0080\"]}",
	 "listen[1].address: found \"127.0.0.1:80\", expected one that does not clash with "
	 "listen[0].address"},
	{"{\"listen\": [\"127.0.0.1:80\", \"0.0.0.0:80\"]}",
	 "listen[1].address: found \"0.0.0.0:80\""},
	{"{\"listen\": [\"unix:/a\", \"unix:/a\"]}", "does not clash with listen[0].address"},
	{"{\"listen\": [\"127.0.0.1:0\", \"127.0.0.1:0\"]}",
	 "does not clash with listen[0].address"},
	{"{\"listen\": [\"127.0.0.1:8081\"]}",
	 "FILE: admin.listen: found \"127.0.0.1:8081\", expected one"},
	/* Routes. */
	{"{\"routes\": []}", "FILE: routes: found [], expected an array, in length from 1 to 64"},
	{"{\"routes\": [\"/\"]}", "FILE: routes[0]: found \"/\", expected an object"},
	{"{\"routes\": [{\"handler\": \"x\"}]}", "routes[0].path: found nothing, expected a path"},
	{"{\"routes\": [{\"path\": \"/\"}]}",
	 "routes[0].handler: found nothing, expected a string"},
	{"{\"routes\": [{\"path\": \"a\", \"handler\": \"x\"}]}",
	 "routes[0].path: found \"a\", expected a path"},
	{"{\"routes\": [{\"path\": \"/?\", \"handler\": \"x\"}]}", "routes[0].path: found \"/?\""},
	{"{\"routes\": [{\"path\": \"/\\u0001\", \"handler\": \"x\"}]}",
	 "routes[0].path: found \"/\\u0001\""},
	{ROUTE(", \"methods\": []"), "routes[0].methods: found [], expected an array of methods"},
	{ROUTE(", \"methods\": [\"GE T\"]"), "routes[0].methods: found [\"GE T\"], expected"},
	{ROUTE(", \"methods\": [\"\"]"), "routes[0].methods: found [\"\"], expected"},
	{ROUTE(", \"methods\": \"GET\""), "routes[0].methods: found \"GET\", expected an array"},
	{ROUTE(", \"options\": []"), "routes[0].options: found [], expected an object"},
	{ROUTE(", \"timeout\": \"1w\""),
	 "FILE: routes[0].timeout: found \"1w\", expected a duration"},
	{ROUTE(", \"shed\": {\"status\": 200}"),
	 "routes[0].shed.status: found 200, expected 204 or 503"},
	{ROUTE("}, {\"path\": \"/a\", \"handler\": \"y\""),
	 "routes[1].path: found \"/a\", expected one that does not clash with routes[0].path"},
	{ROUTE(", \"methods\": [\"GET\"]}, {\"path\": \"/a\", \"handler\": \"y\", \"methods\": "
	       "[\"POST\", \"GET\"]"),
	 "does not clash with routes[0].path"},
};

static void test_mistakes(void)
{
	for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
		struct config *config = load(mistakes[i].text, NULL);

		CU_ASSERT_PTR_NULL(config);
		check_failure(mistakes[i].text, mistakes[i].message);
		config_free(config);
	}
}

/* A configuration cut anywhere is a mistake. */
static void test_cut(void)
{
	static const char text[] = "{\"workers\": 2, \"listen\": [\"127.0.0.1:0\"], \"log\": {}}";

	for (size_t len = 0; len < sizeof text - 1; len++)
		CU_ASSERT_PTR_NULL(load_octets(text, len, NULL));
}

static void test_all_in_one_run(void)
{
	CU_ASSERT_PTR_NULL(load("{\"workers\": 0, \"usr\": 1, \"limits\": {\"headers\": 0},"
				" \"listen\": [\"a\", \"b\"], \"routes\": [{}]}",
				NULL));
	CU_ASSERT_EQUAL(err.count, 7);
	check_failure("all in one run", "FILE: usr: unknown key");
	check_failure("all in one run", "FILE: workers: found 0");
	check_failure("all in one run", "FILE: limits.headers: found 0");
	check_failure("all in one run", "FILE: listen[0].address: found \"a\"");
	check_failure("all in one run", "FILE: listen[1].address: found \"b\"");
	check_failure("all in one run", "FILE: routes[0].path: found nothing");
	check_failure("all in one run", "FILE: routes[0].handler: found nothing");
}

static void test_files(void)
{
	static char deep[100000];
	size_t size = 50 * 1024 * 1024;
	char *big = malloc(size);

	CU_ASSERT_FATAL(big != NULL);
	memset(big, ' ', size);
	CU_ASSERT_PTR_NULL(load_octets(big, size, NULL));
	check_failure("50 MiB", "FILE: found more than 16777216 octets");
	free(big);
	memset(deep, '[', sizeof deep);
	CU_ASSERT_PTR_NULL(load_octets(deep, sizeof deep, NULL));
	check_failure("deep", "FILE:1:2049: maximum parsing depth reached");
	CU_ASSERT_PTR_NULL(load_octets("{}\0", 3, NULL));
	check_failure("NUL", "(there is a NUL octet)");
	err_init(&err);
	CU_ASSERT_PTR_NULL(config_load("/nonexistent/x.json", NULL, &err));
	check_failure("missing",
		      "/nonexistent/x.json: can't read the file: No such file or directory");
	err_init(&err);
	CU_ASSERT_PTR_NULL(config_load("/tmp", NULL, &err));
	check_failure("directory", "/tmp: can't read the file: Is a directory");
}

static void test_long_names(void)
{
	char text[2048], name[1001];

	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	snprintf(text, sizeof text, "{\"%s\": 1}", name);
	CU_ASSERT_PTR_NULL(load(text, NULL));
	check_failure("long name", "xxx: unknown key");
	snprintf(text, sizeof text, "{\"user\": {\"%s\": 1}, \"log\": {\"level\": \"%s\"}}", name,
		 name);
	CU_ASSERT_PTR_NULL(load(text, NULL));
	check_failure("long value", "xxx..., expected \"error\"");
}

static void test_overrides(void)
{
	char *const overrides[] = {
		"workers=2", "listen=127.0.0.1:0", "listen[0].backlog=7", "limits.body_size=2m",
		"timeouts.keepalive=1500", "routes[0].handler=echo", "routes[0].options.file=/x",
		"routes[1].path=/b", "routes[1].handler=bidder", "routes[1].methods[0]=POST",
		"access_log.path=/l", "stats.mode=0600", "admin.listen=null", "user=www=data", NULL,
	};
	struct config *config = load("{\"workers\": 1, \"access_log\": null}", overrides);

	CU_ASSERT_FATAL(config != NULL);
	CU_ASSERT_EQUAL(config->workers, 2);
	CU_ASSERT_EQUAL(config->listen_count, 1);
	CU_ASSERT_STRING_EQUAL(config->listens[0].address, "127.0.0.1:0");
	CU_ASSERT_EQUAL(config->listens[0].backlog, 7);
	CU_ASSERT_EQUAL(config->body_size, 2 * 1024 * 1024);
	CU_ASSERT_EQUAL(config->keepalive_ms, 1500);
	CU_ASSERT_EQUAL(config->route_count, 2);
	CU_ASSERT_STRING_EQUAL(config->routes[0].path, "/");
	CU_ASSERT_STRING_EQUAL(config->routes[0].handler, "echo");
	CU_ASSERT_EQUAL(json_object_size(config->routes[0].options), 1);
	CU_ASSERT_STRING_EQUAL(config->routes[1].methods[0], "POST");
	CU_ASSERT_STRING_EQUAL(config->access_log_path, "/l");
	CU_ASSERT_EQUAL(config->stats_mode, 0600);
	CU_ASSERT_PTR_NULL(config->admin_listen);
	CU_ASSERT_STRING_EQUAL(config->user, "www=data");
	config_free(config);
}

static const struct {
	char *override;
	const char *message;
} override_mistakes[] = {
	{"workers", "-o workers: found no '=', expected path=value"},
	{"=1", "-o : found a path that leads nowhere"},
	{".a=1", "-o .a: found a path that leads nowhere"},
	{"limits.=1", "-o limits.: found a path that leads nowhere"},
	{"listen[=1", "-o listen[: found a path that leads nowhere"},
	{"listen[]=1", "-o listen[]: found a path that leads nowhere"},
	{"listen[0]x=1", "-o listen[0]x: found a path that leads nowhere"},
	{"listen[9].backlog=1", "-o listen[9].backlog: found a path that leads nowhere"},
	{"listen[99999999999999999999999].mode=1", "found a path that leads nowhere"},
	{"workers=\xff", "-o workers=\xff: found a value that is not UTF-8"},
	{"workers=0", "-o workers: found 0, expected an integer from 1 to 126"},
	{"workers=two", "-o workers: found \"two\", expected an integer"},
	{"limits.x=1", "-o limits.x: unknown key"},
	{"limts.body_size=1", "-o limts: unknown key, the nearest known one is limits"},
	{"listen[0].backlog=70000", "-o listen[0].backlog: found 70000"},
	{"listen=localhost:80", "-o listen[0].address: found \"localhost:80\""},
	{"admin.listen=8081", "-o admin.listen: found 8081, expected an address"},
	{"limits.target_size=1m", "-o limits.target_size: found \"1m\", expected at most"},
};

static void test_override_mistakes(void)
{
	for (size_t i = 0; i < sizeof override_mistakes / sizeof override_mistakes[0]; i++) {
		char *const overrides[] = {override_mistakes[i].override, NULL};
		struct config *config;

		err_init(&err);
		config = config_load(NULL, overrides, &err);
		CU_ASSERT_PTR_NULL(config);
		check_failure(overrides[0], override_mistakes[i].message);
		config_free(config);
	}
}

static const struct {
	const char *text, *message; /* NULL: no warning */
} warned[] = {
	{"{\"admin\": {\"listen\": \"127.0.0.1:9\"}}", NULL},
	{"{\"rebalance\": false}", NULL},
	{"{\"trusted_proxies\": [\"10.0.0.0/8\", \"::1\"]}", NULL},
	{"{\"limits\": {\"worker_requests\": 1, \"worker_memory\": \"1g\"}}", NULL},
	{"{\"listen\": [{\"address\": \"fd:a\", \"proxy_protocol\": true}]}", NULL},
	{"{\"listen\": [{\"address\": \"fd:a\", \"arrival_clock\": \"kernel\"}]}", NULL},
	{"{\"listen\": [\"127.0.0.1:9\", {\"address\": \"unix:/a\", \"arrival_clock\": \"kernel\"}]}",
	 "listen[1].arrival_clock: set, but has no effect on a unix socket"},
	{ROUTE(", \"shed\": {\"after\": \"20ms\"}"), NULL},
	{ROUTE(", \"shed\": null"), NULL},
	{ROUTE(", \"decompress\": true"), NULL},
	{"{\"stats\": {\"file\": \"/s\", \"interval\": \"1s\"}, \"user\": \"www-data\"}", NULL},
};

static void test_warnings(void)
{
	for (size_t i = 0; i < sizeof warned / sizeof warned[0]; i++) {
		struct config *config = load(warned[i].text, NULL);
		const char *message = warned[i].message;

		CU_ASSERT_FATAL(config != NULL);
		CU_ASSERT_EQUAL(config->warnings.count, message ? 1 : 0);
		CU_ASSERT(!message || strstr(config->warnings.text, message));
		config_free(config);
	}
}

static void check_round_trip(struct config *config)
{
	struct config *again;
	char *first, *second;

	CU_ASSERT_FATAL(config != NULL);
	first = dump(config);
	again = load(first, NULL);
	CU_ASSERT_FATAL(again != NULL);
	second = dump(again);
	CU_ASSERT_STRING_EQUAL(first, second);
	free(first);
	free(second);
	config_free(config);
	config_free(again);
}

static void test_dump(void)
{
	err_init(&err);
	check_round_trip(config_load(NULL, NULL, &err));
	check_round_trip(load("{\"access_log\": {\"path\": \"/l\", \"sample\": 0.1},"
			      " \"timeouts\": {\"send\": 1501, \"handler\": \"90m\"},"
			      " \"limits\": {\"body_size\": 1000, \"header_size\": 10240},"
			      " \"listen\": [\"[::]:0\", \"unix:/\xc3\xa4\"], \"workers\": 8,"
			      " \"trusted_proxies\": [\"::1\"], \"admin\": {\"listen\": null},"
			      " \"log\": {\"path\": \"/tmp/\\u0001\\\"\"}}",
			      NULL));
	check_round_trip(
		load(ROUTE(", \"shed\": {\"tmax\": true}, \"methods\": [\"GET\"], \"options\":"
			   " {\"// kept\": [null, {}], \"x\": 0.30000000000000004, \"y\": 1e300,"
			   " \"z\": 9007199254740993}"),
		     NULL));
}

/* The documents come from the same table. */
static void test_schema(void)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	json_t *schema, *properties;

	CU_ASSERT_FATAL(out != NULL);
	config_doc_schema(out);
	fclose(out);
	schema = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	free(text);
	CU_ASSERT_FATAL(schema != NULL);
	properties = json_object_get(schema, "properties");
	CU_ASSERT_PTR_NOT_NULL(json_object_get(properties, "limits"));
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(
				       json_object_get(properties, "handler_dir"), "default")),
			       "$libdir/whitecap");
	json_decref(schema);
}

static void test_seccomp(void)
{
	const char *text = "{\"seccomp\": true}";
	struct config *config = load(text, NULL);

#ifdef HAVE_SECCOMP
	CU_ASSERT_FATAL(config != NULL);
	CU_ASSERT(config->seccomp);
#else
	CU_ASSERT_PTR_NULL(config);
	check_failure(text, "FILE: seccomp: found true, expected false: built without libseccomp");
#endif
	config_free(config);
}

CU_TestInfo config_tests[] = {
	{"defaults", test_defaults},
	{"values", test_values},
	{"mistakes", test_mistakes},
	{"cut", test_cut},
	{"all mistakes in one run", test_all_in_one_run},
	{"files", test_files},
	{"long names", test_long_names},
	{"overrides", test_overrides},
	{"mistakes in overrides", test_override_mistakes},
	{"warnings", test_warnings},
	{"dump", test_dump},
	{"schema", test_schema},
	{"seccomp", test_seccomp},
	CU_TEST_INFO_NULL,
};
