# SPDX-License-Identifier: MIT
"""The admin process: answers whatever the workers do, harms nobody, comes back."""
import json
import os
import re
import signal
import socket
import stat
import subprocess
import time
import urllib.request

from whitecap_it import Client, Skip, Server, build, get, kit_route, needs_plain, needs_program, post, proc, request, run


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Admin(Server):
    """A server with an admin listener, at self.where."""

    def __init__(self, config=None, where=None, **options):
        self.where = where or "127.0.0.1:%d" % free_port()
        super().__init__(dict({"admin": {"listen": self.where}}, **(config or {})), **options)

    def ask(self, target, headers=(), method="GET"):
        with Client(self.where) as c:
            return c.ask(request(method, target, headers=[("Host", "localhost"), *headers]).replace(
                b"Host: test.local\r\n", b""), head=method == "HEAD")

    def stats(self):
        r = self.ask("/stats")
        assert r.status == 200 and r.headers["content-type"] == "application/json", r
        return json.loads(r.text, parse_constant=lambda c: 1 / 0)

    def of_generation(self, number):
        """Statistics of the admin process that this generation brought: the one before may answer a moment longer."""
        return proc.wait_until(lambda: (lambda t: t["admin"] and all(a["generation"] == number for a in t["admin"]) and t)(
            self.stats()), "admin process of generation %d" % number)

    def command(self, *words, wrap=(), env=None):
        return subprocess.run([*wrap, build.binary(), *words], env=dict(os.environ, **(env or {})), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder, timeout=60 * proc.scale())


def test_pages_answer():
    with Admin() as s:
        for target, kind in (("/", "text/html"), ("/stats", "application/json"), ("/metrics", "text/plain; version=0.0.4"),
                             ("/healthz", "text/plain"), ("/readyz", "text/plain")):
            r = s.ask(target)
            assert r.status == 200 and r.headers["content-type"].startswith(kind), (target, r)
            assert r.headers["cache-control"] == "no-store" and r.headers["x-content-type-options"] == "nosniff"
            head = s.ask(target, method="HEAD")
            assert head.status == 200 and head.body == b"", (target, head)
        assert s.ask("/nowhere").status == 404
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            r = s.ask("/stats", method=method)
            assert r.status == 405 and r.headers["allow"] == "GET", (method, r)
        with Client(s.where) as c:
            assert c.ask(post("/stats", b"x")).status in (405, 413)
        policy = s.ask("/").headers["content-security-policy"]
        nonce = re.search(r"script-src 'nonce-([0-9a-f]{32})'", policy).group(1)
        page = s.ask("/").text
        assert "default-src 'none'" in policy and "@NONCE@" not in page and nonce not in page
        assert not re.search(r"(src|href)=\"?(https?:)?//", page)
        total = s.stats()["total"]
        assert total["requests"] == 0 and total["accept"] == 0, "admin requests counted among the server's"
        assert s.get("/stats").status == 404, "statistics on a public listener"


def test_foreign_host_names_are_refused():
    with Admin() as s:
        for host, status in (("localhost", 200), ("localhost:8081", 200), ("127.0.0.1:8081", 200), ("[::1]:8081", 200),
                             ("10.1.2.3", 200), (socket.gethostname() + ":1", 200), ("evil.example", 421),
                             ("127.0.0.1.evil.example", 421), ("localhost.evil.example:8081", 421)):
            with Client(s.where) as c:
                r = c.ask(b"GET /stats HTTP/1.1\r\nHost: %s\r\n\r\n" % host.encode())
                assert r.status == status, (host, r)


def test_figures_agree_with_what_was_sent():
    with Admin({"workers": 2, "routes": [{"path": "/*", "handler": "hello"}, kit_route("/sleep", "later", n=40),
                                         kit_route("/calls", "count")]}) as s:
        with s.client() as c:
            for _ in range(100):
                c.get("/")
            for _ in range(5):
                c.get("/sleep")
            for _ in range(3):
                c.get("/calls")
            stats = proc.wait_until(lambda: (lambda t: t["total"]["requests"] == 108 and t)(s.stats()), "108 requests")
            assert sum(stats["total"]["connections"].values()) == 1
        routes = {r["path"]: r for r in stats["routes"]}
        assert [routes[p]["requests"] for p in ("/*", "/sleep", "/calls")] == [100, 5, 3]
        assert routes["/calls"]["counters"]["calls"] == 3, routes["/calls"]
        assert 0 < routes["/*"]["latency_us"]["p50"] < 20000 * proc.scale(), routes["/*"]
        assert 0 < routes["/*"]["handler_us"]["p50"] <= routes["/*"]["latency_us"]["p50"] * 1.1
        for key in ("latency_us", "handler_us"):
            assert 38000 < routes["/sleep"][key]["p50"] < 60000 * proc.scale(), routes["/sleep"]
        assert stats["total"]["latency_us"]["max"] >= 38000
        assert sum(w["requests"] for w in stats["workers"]) == 108
        assert all(w["memory"] > 0 and w["cpu_s"] >= 0 for w in stats["workers"])
        listener = stats["listeners"][0]
        assert listener["address"] == s.address and listener["accept"] == 1
        assert listener["queue"] == 0 and listener["backlog"] > 0
        assert stats["rates"]["60s"]["requests"] <= 108
        assert {w["pid"] for w in stats["workers"]} == set(s.workers())
        assert stats["admin"][0]["pid"] == s.admin()


def test_totals_of_a_route_survive_a_reload_that_moves_it():
    one, two = {"path": "/*", "handler": "hello"}, {"path": "/echo", "handler": "echo"}
    with Admin({"routes": [one, two]}, fds=False) as s:
        for _ in range(7):
            s.get("/")
        s.reload(routes=[two, one])
        s.get("/")
        stats = s.of_generation(2)
        assert [(r["path"], r["requests"]) for r in stats["routes"]] == [("/echo", 0), ("/*", 8)], stats["routes"]
        assert s.stats()["listeners"][0]["accept"] == 8
        s.reload(routes=[two])
        s.reload(routes=[one])
        assert [r["requests"] for r in s.of_generation(4)["routes"]] == [8]
        assert s.stats()["total"]["requests"] == 8


def test_rates_of_the_last_second_and_ten():
    with Admin() as s:
        proc.wait_until(lambda: s.stats()["rates"]["10s"]["span_s"] > 0, "what to compare with from before the first request")
        end = time.monotonic() + 3
        count = 0
        with s.client() as c:
            while time.monotonic() < end:
                c.get()
                count += 1
        rates = s.stats()["rates"]
        assert rates["1s"]["requests_per_s"] > 0 and 0.9 < rates["1s"]["span_s"] < 2.2, rates["1s"]
        # An answer is timed once it is out.
        proc.wait_until(lambda: s.stats()["rates"]["10s"]["requests"] == count, lambda: (count, s.stats()["rates"]), 5)
        assert s.stats()["rates"]["10s"]["latency_us"]["p99"] > 0
        proc.wait_until(lambda: s.stats()["rates"]["1s"]["requests_per_s"] == 0, "an idle second")


def test_answers_while_every_worker_is_stopped_or_busy():
    needs_plain()
    with Admin({"workers": 2, "routes": [kit_route("/*", "block", n=5000), {"path": "/hi", "handler": "hello"}]}) as s:
        for pid in s.workers():
            os.kill(pid, signal.SIGSTOP)
        waiting = [s.client() for _ in range(5)]
        for _ in range(50):
            start = time.monotonic()
            stats = s.stats()
            assert time.monotonic() - start < 0.25
        assert stats["listeners"][0]["queue"] == 5, stats["listeners"]
        for pid in s.workers():
            os.kill(pid, signal.SIGCONT)
        for c in waiting:
            assert c.get("/hi").status == 200
            c.close()


def test_ready_only_while_it_is():
    with Admin({"workers": 1, "routes": [{"path": "/*", "handler": "hello"}, kit_route("/later", "later", n=1500)],
                "timeouts": {"drain": "20s"}}) as s:
        assert s.ask("/readyz").text == "ready\n"
        with s.client() as c:
            c.send(get("/later"))
            proc.wait_until(lambda: s.stats()["total"]["connections"]["active"] == 1, "a request in the handler")
            s.kill(signal.SIGTERM)
            r = proc.wait_until(lambda: (lambda r: r.status == 503 and r)(s.ask("/readyz")), "not ready")
            assert "stopping" in r.text, r.text
            assert s.ask("/healthz").status == 200 and s.stats()["state"] == "stopping"
            assert c.receive().status == 200
        assert s.wait_exit() == 0


def test_not_ready_while_starting():
    with Admin({"routes": [kit_route("/*", "status", n=200, init="wait")]}, wait_ready=False) as s:
        def look():
            try:
                return s.ask("/readyz")
            except OSError:
                return None
        r = proc.wait_until(look, "an answer of the admin process", 20)
        assert r.status == 503 and "starting" in r.text, r
        proc.wait_until(lambda: s.ask("/readyz").status == 200, "ready", 20)
        s.ready()


def test_admin_process_is_replaced_and_nobody_notices():
    with Admin({"workers": 2}, errors=[r"admin \(\d+\)", "admin: fault"]) as s, s.client() as c:
        workers, before = s.workers(), s.admin()
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
            os.kill(before, number)
            proc.wait_until(lambda: not proc.alive(before), "it is gone")
            after = s.admin()
            assert after != before
            proc.wait_until(lambda: s.ask("/healthz").status == 200, "it is back")
            before = after
        assert c.get().status == 200 and s.workers() == workers
        stats = s.stats()
        assert stats["total"]["crash"] == 0 and stats["total"]["lost"] == 0
        assert stats["admin"][0]["restarts"] == 3, stats["admin"]
        since = s.admin()
        s.reload()
        assert proc.wait_until(lambda: s.admin() != since and s.ask("/readyz").status == 200, "the next one")
        assert s.stats()["generation"] == 2


def test_bad_readers_do_not_hurt_it():
    needs_plain()
    with Admin({"workers": 1}) as s:
        held = []
        for i in range(400):
            c = Client(s.where)
            if i % 4 == 1:
                c.send(b"GET /stats HT")
            elif i % 4 == 2:
                c.send(os.urandom(200).replace(b"\n", b" ") + b"\r\n\r\n")
            elif i % 4 == 3:
                c.send(b"GET /stats HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 7000)
            held.append(c)
        with Client(s.where) as c:
            assert c.ask(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20000 + b"\r\n\r\n").status == 431
        assert s.ask("/healthz").status == 200
        assert proc.memory_kb([s.admin()]) < 40000
        assert s.get().status == 200
        for c in held:
            c.close()


def test_unix_socket_with_its_mode():
    with Server({}) as probe:
        path = os.path.join(probe.folder, "admin.sock")
        where = "unix:" + path
        with Admin({"admin": {"listen": where, "mode": "0600"}}, where=where) as s:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            assert s.ask("/healthz").status == 200
            done = s.command("stats", "-c", s.path)
            assert done.returncode == 0 and json.loads(done.stdout)["pid"] == s.pid, done.stderr
        assert not os.path.exists(path)


def test_address_in_use_is_named():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        where = "127.0.0.1:%d" % held.getsockname()[1]
        done = run(["-c", "{config}"], config={"admin": {"listen": where}, "listen": ["127.0.0.1:0"],
                                               "handler_dir": build.handler_dir()})
        assert done.returncode == 3 and 'admin.listen "%s"' % where in done.stderr, done


# Prometheus.

def parse_metrics(text):
    """Strict: each family once, its samples together; counters and histograms are named as such."""
    families, current, samples = {}, None, {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in families, "family twice: " + name
            families[name] = None
            current = name
        elif line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:4]
            assert name == current
            families[name] = kind
            assert kind != "counter" or name.endswith("_total"), name
        else:
            m = re.fullmatch(r'([a-z_:]+)(\{(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)', line)
            assert m, line
            name = m.group(1)
            base = re.sub(r"_(bucket|sum|count)$", "", name) if families[current] == "histogram" else name
            assert base == current, (name, current)
            key = name + (m.group(2) or "")
            assert key not in samples, "twice: " + key
            samples[key] = float(m.group(3))
    return families, samples


def test_metrics_are_valid_and_never_fall():
    with Admin({"workers": 2, "routes": [{"path": "/*", "handler": "hello"},
                                         kit_route('/q"\\é', "count"), kit_route("/m", "status", n=204, route_methods=["GET"])]},
               fds=False) as s:
        families, zero = parse_metrics(s.ask("/metrics").body.decode())
        for _ in range(50):
            s.get("/")
        counted = 'whitecap_request_duration_seconds_count{route="/*",handler="hello",methods=""}'
        # An answer is timed once it is out: a worker killed right then would take that along.
        proc.wait_until(lambda: parse_metrics(s.ask("/metrics").body.decode())[1][counted] == 50, "50 timed")
        s.kill_worker(s.workers()[0], signal.SIGKILL)
        s.reload()
        s.kill(signal.SIGTTIN)
        proc.wait_until(lambda: len(s.workers()) == 3, "three workers")
        _, now = parse_metrics(s.ask("/metrics").body.decode())
        for key, value in zero.items():
            kind = families.get(re.sub(r"\{.*|_(bucket|sum|count)(\{.*)?$", "", key)) or families.get(key.split("{")[0])
            if kind in ("counter", "histogram") and "cpu" not in key:
                assert now[key] >= value, (key, value, now.get(key))
        assert sum(v for k, v in now.items() if k.startswith("whitecap_requests_total")) == 50
        assert now[counted] == 50
        assert len(now) < 5000


def test_promtool_finds_nothing_to_say():
    tool = needs_program("promtool")
    with Admin({"workers": 2}) as s:
        for _ in range(20):
            s.get("/")
        done = subprocess.run([tool, "check", "metrics"], input=s.ask("/metrics").body, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        assert done.returncode == 0 and not done.stdout, done.stdout


def test_prometheus_scrapes_it():
    program = needs_program("prometheus")
    with Admin({"workers": 2}) as s:
        for _ in range(30):
            s.get("/")
        port = free_port()
        config = os.path.join(s.folder, "prometheus.yml")
        with open(config, "w") as f:
            json.dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [
                {"job_name": "whitecap", "static_configs": [{"targets": [s.where]}]}]}, f)
        server = subprocess.Popen([program, "--config.file=" + config, "--web.listen-address=127.0.0.1:%d" % port,
                                   "--storage.tsdb.path=" + os.path.join(s.folder, "tsdb")],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            def query():
                try:
                    with urllib.request.urlopen("http://127.0.0.1:%d/api/v1/query?query=sum(whitecap_requests_total)" % port) as r:
                        return json.load(r)["data"]["result"]
                except OSError:
                    return None
            result = proc.wait_until(query, "scraped", 40)
            assert result[0]["value"][1] == "30", result
        finally:
            server.terminate()
            server.wait()


def test_example_rules_and_dashboard_name_what_there_is():
    rules = os.path.join(build.SOURCE, "conf", "whitecap.rules.yml")
    with open(rules) as f, open(os.path.join(build.SOURCE, "conf", "grafana.json")) as g:
        named = set(re.findall(r"whitecap_[a-z_]+", f.read() + json.dumps(json.load(g))))
    with Admin() as s:
        there = set(re.findall(r"(?m)^(whitecap_[a-z_]+)", s.ask("/metrics").text))
    assert len(named) > 10 and named <= there, named - there
    done = subprocess.run([needs_program("promtool"), "check", "rules", rules], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def test_every_field_is_described_in_the_manual():
    def names(value):
        if isinstance(value, list):
            return set().union(set(), *map(names, value))
        if isinstance(value, dict):
            return set(value).union(*map(names, value.values()))
        return set()

    with open(os.path.join(build.SOURCE, "man", "whitecap-stats.7")) as f:
        words = set(re.findall(r"[a-zA-Z0-9_]+", f.read()))
    with Admin({"routes": [{"path": "/*", "handler": "hello"}]}) as s:
        missing = names(s.stats()) - words
        assert not missing, missing
        families, _ = parse_metrics(s.ask("/metrics").body.decode())
    counters = open(os.path.join(build.SOURCE, "src", "counters.def")).read()
    known = words | set(re.findall(r'"([a-z_]+)[."]', counters))
    missing = [f for f in families if f[9:] not in words and f[9:].replace("_total", "") not in known]
    assert not missing, missing


def test_probes_are_in_the_binary_and_in_the_manual():
    """The notes of the binary (readelf -n), as tracers read them."""
    done = subprocess.run([needs_program("readelf"), "-n", build.binary()], stdout=subprocess.PIPE, text=True)
    there = set(re.findall(r"Provider: whitecap\s+Name: (\w+)", done.stdout))
    if not there:
        raise Skip("built without sys/sdt.h")
    with open(os.path.join(build.SOURCE, "man", "whitecap-stats.7")) as f:
        described = set(re.findall(r"(?m)^\.It Fn (\w+)", f.read()))
    assert there == described, there ^ described
    assert {"accept", "accept_error", "close", "max_keepalive", "max_connections", "send_error", "timeout",
            "handler_timeout", "stats", "moved_in", "moved_out", "crash"} <= there
