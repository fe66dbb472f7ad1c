# SPDX-License-Identifier: MIT
"""Statistics: exact, never falling, written atomically."""
import json
import os
import signal
import stat
import subprocess
import threading

from whitecap_it import Server, build, get, kit_route, needs_plain, post
from whitecap_it import proc


class Stats:
    """The statistics file of a server, written anew on USR1."""

    def __init__(self, server):
        self.server, self.path = server, os.path.join(server.folder, "stats.json")

    def read(self):
        if os.path.exists(self.path):
            os.remove(self.path)
        self.server.kill(signal.SIGUSR1)
        proc.wait_until(lambda: os.path.exists(self.path), "statistics written")
        with open(self.path) as f:
            return json.load(f, parse_constant=lambda c: 1 / 0)

    def until(self, condition, what):
        seen = []

        def look():
            seen[:] = [self.read()]
            return condition(seen[0])

        try:
            proc.wait_until(look, what, 5)
        except proc.Timeout:
            raise AssertionError("%s: %s" % (what, json.dumps(seen[0]["total"]))) from None
        return seen[0]


def test_statistics_are_valid_from_the_first_moment():
    with Server({"workers": 2, "stats": {"file": "stats.json"}}) as s:
        stats = Stats(s).read()
        assert stats["pid"] == s.pid and stats["state"] == "serving" and stats["generation"] == 1
        assert stats["total"]["requests"] == 0 and len(stats["workers"]) == 2
        assert {w["pid"] for w in stats["workers"]} == set(s.workers())
        assert stats["reload"]["count"] == 0 and stats["reload"]["error"] is None
        for key in ("accept", "accept_error", "close", "connections", "requests", "responses", "bytes",
                    "max_connections", "max_keepalive", "timeout", "send_error", "shed", "late", "moved", "lost",
                    "crash", "hang", "recycle", "log_dropped"):
            assert key in stats["total"], key


def test_counters_are_exact():
    with Server({"workers": 2, "stats": {"file": "stats.json"}, "limits": {"keepalive_requests": 50},
                 "routes": [{"path": "/", "handler": "hello"}, {"path": "/echo", "handler": "echo"},
                            kit_route("/204", "status", n=204), kit_route("/500", "nothing"),
                            kit_route("/slow", "later", n=9000, route_timeout="50ms")]}, errors=["kit"]) as s:
        sent = received = 0
        with s.client() as c:
            for data, count in ((get("/"), 10), (post("/echo", b"x" * 1000), 10), (get("/204"), 10), (get("/500"), 2),
                                (get("/slow"), 1)):
                for _ in range(count):
                    sent += len(data)
                    r = c.ask(data)
                    received += len(r.head_bytes) + len(r.body)
        with s.client() as c:
            data = b"BAD\r\n\r\n"
            sent += len(data)
            r = c.ask(data)
            received += len(r.head_bytes) + len(r.body)
            c.expect_closed()
        total = Stats(s).until(lambda t: t["total"]["connections"] == {"active": 0, "idle": 0}, "all closed")["total"]
        assert total["accept"] == total["close"] == 2, total
        assert total["requests"] == 34, total
        assert total["responses"] == {"2xx": 30, "3xx": 0, "4xx": 1, "5xx": 3}, total
        assert total["bytes"] == {"in": sent, "out": received}, (total, sent, received)
        assert total["timeout"]["handler"] == 1, total


def test_totals_survive_deaths_and_reloads_and_never_fall():
    """B52."""
    with Server({"workers": 4, "stats": {"file": "stats.json"}}, fds=False) as s:
        stats = Stats(s)
        held = [s.client() for _ in range(40)]
        asked = 0
        for _ in range(25):
            for c in held:
                assert c.get().status == 200
                asked += 1
        first = stats.until(lambda t: t["total"]["requests"] == asked, "all requests counted")
        assert first["total"]["connections"] == {"active": 0, "idle": 40}, first["total"]
        for action in ("kill", "kill", "reload", "term"):
            if action == "reload":
                s.reload()
            else:
                pid = s.workers()[0]
                s.kill_worker(pid, signal.SIGKILL if action == "kill" else signal.SIGTERM)
            held = [c for c in held if not c.is_closed()]
            now = stats.until(lambda t: t["total"]["connections"]["idle"] == len(held), "%d idle" % len(held))
            assert now["total"]["requests"] == asked and now["total"]["accept"] == 40, now["total"]
            assert established(s.port) == len(held)
        assert sum(w["restarts"] for w in now["workers"]) == 3, now["workers"]
        assert now["reload"]["count"] == 1 and now["generation"] == 2
        assert s.get().status == 200
        assert stats.until(lambda t: t["total"]["requests"] == asked + 1, "one more")


def established(port):
    out = subprocess.run(["ss", "-Htn", "state", "established", "sport", "=", ":%d" % port], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    return len(out.splitlines())


def test_failed_reload_shows_in_the_statistics():
    with Server({"stats": {"file": "stats.json"}}) as s:
        s.write_text('{"wrokers": 1}')
        s.reload_refused("wrokers")
        stats = Stats(s).until(lambda t: t["reload"]["failed"] == 1, "a failed reload")
        assert "wrokers" in stats["reload"]["error"] and stats["generation"] == 1
        s.write_config()
        s.reload()
        stats = Stats(s).until(lambda t: t["reload"]["count"] == 1, "a reload")
        assert stats["reload"]["error"] is None and stats["generation"] == 2


def test_file_is_written_by_interval_never_torn_and_with_its_mode():
    with Server({"stats": {"file": "stats.json", "interval": "5ms", "mode": "0640"}}) as s:
        path = os.path.join(s.folder, "stats.json")
        proc.wait_until(lambda: os.path.exists(path), "written")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o640
        over = threading.Event()

        def load():
            with s.client() as c:
                while not over.is_set():
                    c.get()

        thread = threading.Thread(target=load)
        thread.start()
        last = 0
        try:
            for _ in range(2000):
                with open(path) as f:
                    total = json.load(f)["total"]
                assert total["requests"] >= last
                last = total["requests"]
        finally:
            over.set()
            thread.join()
        assert last > 0
        assert sorted(n for n in os.listdir(s.folder) if "stats" in n) == ["stats.json"]


def test_file_that_cannot_be_written_is_logged_once_and_harms_nobody():
    with Server({"stats": {"file": "there/stats.json", "interval": "5ms"}}, errors=["stats.file"]) as s:
        s.log.wait("stats.file: there/stats.json: No such file")
        for _ in range(100):
            assert s.get().status == 200
        proc.pause(0.1)
        assert len(s.log.find("stats.file")) == 1, s.log.tail()
        os.mkdir(os.path.join(s.folder, "there"))
        proc.wait_until(lambda: os.listdir(os.path.join(s.folder, "there")) == ["stats.json"], "written")


def test_file_is_written_at_the_end():
    with Server({"stats": {"file": "stats.json"}}) as s:
        s.get()
        s.stop()
        with open(os.path.join(s.folder, "stats.json")) as f:
            stats = json.load(f)
        assert stats["state"] == "stopping" and stats["total"]["requests"] == stats["total"]["close"] == 1
        assert stats["workers"] == []


def test_more_octets_than_32_bits_count():
    """B54."""
    needs_plain()
    with Server({"stats": {"file": "stats.json"}, "routes": [kit_route("/*", "big", n=67108864)]}) as s:
        received, room = 0, bytearray(1 << 20)
        with s.client() as c:
            c.send(get("/") * 65 + get("/", [("Connection", "close")]))
            while got := c.s.recv_into(room):
                received += got
        assert received > 1 << 32
        closed = Stats(s).until(lambda t: t["total"]["close"] == 1, "closed")
        assert closed["total"]["bytes"]["out"] == received


def test_handlers_counters_are_shown():
    with Server({"stats": {"file": "stats.json"}, "routes": [kit_route("/", "count")]}) as s:
        for _ in range(7):
            s.get()
        text = json.dumps(Stats(s).read())
        assert '"calls": 7' in text, text


def test_command_line_prints_the_statistics():
    with Server({"stats": {"file": "stats.json"}}) as s:
        s.get()
        Stats(s).until(lambda t: t["total"]["requests"] == 1, "counted")
        done = subprocess.run([build.binary(), "stats", "-c", s.path], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, cwd=s.folder)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["total"]["requests"] == 1
