/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#include "admin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "admin_window.h"
#include "dashboard_html.h"
#include "log.h"
#include "prometheus.h"
#include "slot.h"
#include "span.h"
#include "stats_json.h"
#include "stats_source.h"

enum {
	CONNECTIONS_MAX = 512,
	DESCRIPTORS_MAX = CONNECTIONS_MAX + 64, /* what a worker keeps for itself */
	HOST_MAX = 256,
	NONCE_LEN = 32,
};

/* Where the page has the nonce that its script and style must name. */
#define NONCE_PLACE "@NONCE@"

struct admin {
	const struct worker_args *args;    /* of the server whose statistics they are */
	struct config config;              /* of this process: that one, changed */
	struct config_listen listen;
	struct config_route route;
	struct admin_window *window;
	struct stats_window windows[STATS_WINDOWS];
	struct ev_loop *loop;
	ev_timer timer;
	char host[HOST_MAX];               /* this machine's name */
};

static struct admin admin;

static int open_stats(struct stats *stats)
{
	return stats_source_open(stats, admin.args->scoreboard, admin.args->config,
				 admin.args->listeners, admin.windows);
}

static void on_second(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct stats stats = {.board = admin.args->scoreboard};
	struct timespec now;

	(void)loop, (void)timer, (void)events;
	clock_gettime(CLOCK_MONOTONIC, &now);
	stats.now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	admin_window_sample(admin.window, &stats);
}

/* Answers. */

static int out_of_memory(struct wc_request *req)
{
	wc_header(req, "Content-Type", "text/plain");
	return wc_reply(req, 503, "out of memory\n", 14);
}

static int reply_text(struct wc_request *req, int status, const char *text)
{
	wc_header(req, "Content-Type", "text/plain; charset=utf-8");
	return wc_reply_copy(req, status, text, strlen(text));
}

static int reply_stats(struct wc_request *req, const char *type,
		       void (*write)(FILE *, const struct stats *))
{
	struct stats stats;
	char *text = NULL;
	size_t len = 0;
	int result;

	if (open_stats(&stats) < 0)
		return out_of_memory(req);
	admin_window_fill(admin.window, &stats, admin.windows);
	text = stats_source_text(&stats, write, &len);
	stats_source_close(&stats);
	if (!text)
		return out_of_memory(req);
	wc_header(req, "Content-Type", type);
	result = wc_reply_copy(req, 200, text, len);
	free(text);
	return result;
}

static int on_stats(struct wc_request *req)
{
	return reply_stats(req, "application/json", stats_json_write);
}

static int on_metrics(struct wc_request *req)
{
	return reply_stats(req, "text/plain; version=0.0.4; charset=utf-8", prometheus_write);
}

static int on_health(struct wc_request *req)
{
	return reply_text(req, 200, "ok\n");
}

static bool has_ready_worker(void)
{
	const struct scoreboard *board = admin.args->scoreboard;

	for (unsigned i = 1; i < scoreboard_end(board); i++)
		if ((board->slot[i].state == SLOT_READY || board->slot[i].state == SLOT_LEAVING) &&
		    board->slot[i].accepting)
			return true;
	return false;
}

/* NULL: it is. */
static const char *why_not_ready(void)
{
	struct master_status status;

	scoreboard_get_status(admin.args->scoreboard, &status);
	if (status.state == MASTER_STARTING)
		return "starting\n";
	if (status.state == MASTER_STOPPING)
		return "stopping: connections are drained\n";
	return has_ready_worker() ? NULL : "no worker is ready\n";
}

static int on_ready(struct wc_request *req)
{
	const char *why_not = why_not_ready();

	return reply_text(req, why_not ? 503 : 200, why_not ? why_not : "ready\n");
}

static int make_nonce(char nonce[NONCE_LEN + 1])
{
	unsigned char octets[NONCE_LEN / 2];

	if (getrandom(octets, sizeof octets, 0) != sizeof octets)
		return -1;
	for (size_t i = 0; i < sizeof octets; i++)
		snprintf(nonce + 2 * i, 3, "%02x", octets[i]);
	return 0;
}

static char *page_with(const char *nonce)
{
	size_t len;
	char *page = NULL;
	FILE *out = open_memstream(&page, &len);
	const char *rest = dashboard_html, *place;

	if (!out)
		return NULL;
	while ((place = strstr(rest, NONCE_PLACE))) {
		fwrite(rest, 1, (size_t)(place - rest), out);
		fputs(nonce, out);
		rest = place + strlen(NONCE_PLACE);
	}
	fputs(rest, out);
	if (fclose(out) == 0)
		return page;
	free(page);
	return NULL;
}

static int on_page(struct wc_request *req)
{
	char nonce[NONCE_LEN + 1], policy[256], *page;
	int result;

	if (make_nonce(nonce) < 0 || !(page = page_with(nonce)))
		return out_of_memory(req);
	snprintf(policy, sizeof policy,
		 "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; "
		 "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		 nonce, nonce);
	wc_header(req, "Content-Type", "text/html; charset=utf-8");
	wc_header(req, "Content-Security-Policy", policy);
	wc_header(req, "Referrer-Policy", "no-referrer");
	result = wc_reply_copy(req, 200, page, strlen(page));
	free(page);
	return result;
}

/* Host: a page of another site whose name was made to lead here has that site's name in it. */

static bool is_address(const char *host)
{
	struct in6_addr any;
	char bare[HOST_MAX];
	size_t len = strlen(host);

	if (host[0] == '[' && host[len - 1] == ']') {
		snprintf(bare, sizeof bare, "%.*s", (int)len - 2, host + 1);
		return inet_pton(AF_INET6, bare, &any) == 1;
	}
	return inet_pton(AF_INET, host, &any) == 1;
}

static bool is_host_allowed(struct wc_span value)
{
	char host[HOST_MAX], *colon;

	if (!value.ptr || value.len == 0)
		return true;
	if (value.len >= sizeof host)
		return false;
	memcpy(host, value.ptr, value.len);
	host[value.len] = '\0';
	colon = strrchr(host, ':');
	if (colon && !strchr(colon, ']'))
		*colon = '\0';
	return strcasecmp(host, "localhost") == 0 || strcasecmp(host, admin.host) == 0 ||
	       (*host && is_address(host));
}

static int handle(struct wc_request *req, void *state)
{
	static const struct {
		const char *path;
		int (*answer)(struct wc_request *req);
	} pages[] = {
		{"/", on_page},         {"/stats", on_stats},   {"/metrics", on_metrics},
		{"/healthz", on_health}, {"/readyz", on_ready},
	};
	struct wc_span path = wc_path(req);

	(void)state;
	wc_header(req, "Cache-Control", "no-store");
	wc_header(req, "X-Content-Type-Options", "nosniff");
	if (!is_host_allowed(wc_get_header(req, "Host")))
		return reply_text(req, 421, "the Host field must be an address, localhost, "
					    "or this machine's name\n");
	for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
		if (span_is(path, pages[i].path))
			return pages[i].answer(req);
	return reply_text(req, 404, "there are /, /stats, /metrics, /healthz and /readyz\n");
}

static int init(void **state, const json_t *options, struct wc_worker *worker)
{
	(void)state, (void)options;
	admin.window = admin_window_new();
	if (!admin.window) {
		wc_log(worker, WC_LOG_ERROR, "out of memory");
		return -1;
	}
	if (gethostname(admin.host, sizeof admin.host - 1) < 0)
		admin.host[0] = '\0';
	admin.loop = wc_loop(worker);
	ev_timer_init(&admin.timer, on_second, 0., 1.);
	ev_timer_start(admin.loop, &admin.timer);
	return 0;
}

static void fini(void *state)
{
	(void)state;
	ev_timer_stop(admin.loop, &admin.timer);
	admin_window_free(admin.window);
}

/* Small, and soon rid of who does not speak: so that nobody can fill it up for long. */
static void make_config(struct config *config, const struct config *of)
{
	static char *methods[] = {"GET", NULL};

	*config = *of;
	admin.listen = (struct config_listen){.address = of->admin_listen, .mode = of->admin_mode};
	admin.route = (struct config_route){.path = "/*", .methods = methods, .handler = "admin"};
	config->listens = &admin.listen;
	config->routes = &admin.route;
	config->listen_count = config->route_count = 1;
	config->max_connections = 0;
	config->header_size = 8192;
	config->max_headers = 100;
	config->target_size = 1024;
	config->body_size = 0;
	config->keepalive_requests = config->worker_requests = config->worker_memory = 0;
	config->keepalive_ms = 20000;
	config->request_ms = 5000;
	config->handler_ms = 0;
	config->send_ms = 5000;
	config->drain_ms = 1000;
	config->rebalance = false;
}

static void limit_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur <= DESCRIPTORS_MAX)
		return;
	limit.rlim_cur = DESCRIPTORS_MAX;
	setrlimit(RLIMIT_NOFILE, &limit);
}

void admin_setup(struct worker_args *own, const struct worker_args *args)
{
	static const struct wc_handler handler = {.abi = WC_ABI,
						  .size = sizeof handler,
						  .name = "admin",
						  .init = init,
						  .fini = fini,
						  .handle = handle};

	admin.args = args;
	make_config(&admin.config, args->config);
	limit_descriptors();
	*own = *args;
	own->config = &admin.config;
	own->images = NULL;
	own->builtin = &handler;
	own->listeners = &args->admin_listener;
	own->exchange = (struct exchange){-1, -1};
	own->access_log = -1;
}
