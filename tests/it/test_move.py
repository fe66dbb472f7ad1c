# SPDX-License-Identifier: MIT
"""Connections move: what may happen to a server without its clients seeing anything of it."""
import json
import os
import random
import re
import resource
import shutil
import signal
import threading

from move_client import MIXED, Crowd
from whitecap_it import Server, Skip, build, get, kit_route, needs_root, pause, sanitized
from whitecap_it import proc

IDLE = 300
BUSY = 16


def route(version="v1", **options):
    return {"path": "/*", "handler": build.move_handler(version), "options": options}


class MoveServer(Server):
    """A server of tests/it/handlers/move.c, with patience for clients that are held in the middle."""

    def __init__(self, config=None, **options):
        base = {"workers": 2, "routes": [route()], "stats": {"file": "stats.json"},
                "timeouts": {"request": "120s", "send": "120s", "drain": "60s"}}
        options.setdefault("fds", False)
        super().__init__(dict(base, **(config or {})), **options)

    def stats(self):
        """A new statistics file, on USR1."""
        path = os.path.join(self.folder, "stats.json")
        if os.path.exists(path):
            os.remove(path)
        self.kill(signal.SIGUSR1)
        proc.wait_until(lambda: os.path.exists(path), "statistics written")
        with open(path, encoding="utf-8") as f:
            return json.load(f)

    def total(self):
        return self.stats()["total"]

    def check_moved(self, at_least, lost=0):
        """What one process gave, another one took."""
        total = self.total()
        assert total["lost"] == lost, total
        assert total["moved"]["in"] == total["moved"]["out"] >= at_least, total
        return total

    def worker_requests(self):
        return {w["pid"]: w["requests"] for w in self.stats()["workers"] if w["state"] == "ready"}


def crowd_of(server, busy=BUSY, idle=IDLE, **more):
    return Crowd(server.address, busy=busy, idle=idle, **dict(MIXED, **more))


def survives(server, what, **more):
    """Runs what() among a crowd of every kind; nobody may have seen anything."""
    with crowd_of(server, **more) as crowd:
        what()
        report = crowd.finish()
    report.check()
    return report


# Reload.

def test_reload_is_not_seen_by_any_client():
    """At the size that the issue names, where descriptors allow it."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    idle = 500 if sanitized() else max(100, min(5000, soft - 1000))
    with MoveServer() as s:
        survives(s, s.reload, busy=64, idle=idle)
        s.check_moved(idle)


def test_answers_are_the_new_handlers_once_the_reload_is_done():
    with MoveServer() as s:
        with Crowd(s.address, idle=200, paced=16) as crowd:
            for version in ("v2", "v1", "v2"):
                s.reload(routes=[route(version)])
                crowd.report.versions.clear()
                proc.wait_until(lambda: sum(crowd.report.versions.values()) > 100, "answers")
                # One may have been on its way when the old worker had gone.
                old = {v: n for v, n in crowd.report.versions.items() if v != version}
                assert sum(old.values()) <= 16, (version, old)
            crowd.report.versions.clear()
            report = crowd.finish()
            report.check()
            assert set(report.versions) == {"v2"}, report.versions


def test_handler_file_replaced_on_disk_deploys_at_hup():
    with MoveServer(start=False) as s:
        path = os.path.join(s.folder, "handler.so")
        shutil.copy(build.move_handler("v1"), path)
        s.write_config(routes=[{"path": "/*", "handler": path}])
        s.start()

        def deploy():
            for i in range(6):
                shutil.copy(build.move_handler("v%d" % (i % 2 + 1)), path + ".new")
                os.rename(path + ".new", path)
                s.reload()

        survives(s, deploy)


def test_a_hundred_reloads_in_a_row():
    count = 25 if sanitized() else 100
    with MoveServer() as s:
        def reloads():
            for i in range(count):
                before = s.generation()
                s.write_config(routes=[route("v%d" % (i % 2 + 1))], workers=i % 3 + 1)
                s.kill(signal.SIGHUP)
                proc.wait_until(lambda: s.generation() > before, "reloaded")

        survives(s, reloads, busy=4)
        s.check_moved(count * IDLE // 2)
        assert s.stats()["reload"]["count"] == count


def test_storm_of_reloads():
    """HUP at 0 to 30 ms distance, with changing numbers of workers and versions."""
    rng = random.Random(5)
    with MoveServer() as s:
        def storm():
            for i in range(100):
                s.write_config(routes=[route("v%d" % (i % 2 + 1))], workers=rng.randint(1, 4))
                s.kill(signal.SIGHUP)
                pause(rng.uniform(0, 0.03))
            s.write_config(routes=[route("v3")], workers=2)
            s.kill(signal.SIGHUP)
            proc.wait_until(lambda: s.get("/?0").text == "v3 0\n" and len(s.workers()) == 2,
                            "the last configuration", 30)

        report = survives(s, storm)
        assert report.versions["v3"]
        s.check_moved(IDLE)


def test_routes_limits_and_listeners_change():
    with MoveServer() as s:
        path = os.path.join(s.folder, "http.sock")

        def changes():
            s.reload(routes=[{"path": "/other", "handler": "hello"}, route("v2")])
            s.reload(limits={"header_size": "4k", "target_size": "1k", "headers": 50, "body_size": "512k"})
            s.reload(listen=["127.0.0.1:0", "unix:" + path])
            s.reload(listen=["127.0.0.1:0"], timeouts=dict(s.config["timeouts"], keepalive="100s"))

        survives(s, changes)
        s.check_moved(4 * IDLE)


def test_connections_of_a_removed_listener_end_after_their_request():
    with MoveServer(start=False) as s:
        path = os.path.join(s.folder, "http.sock")
        s.write_config(listen=["127.0.0.1:0", "unix:" + path])
        s.start()
        with Crowd("unix:" + path, idle=20) as idle, Crowd("unix:" + path, half_body=5, half_head=5, waiting=2,
                                                           closing_allowed=True) as inside:
            idle.closing_allowed = True
            kept = s.client()
            kept.get("/?1")
            s.reload(listen=["127.0.0.1:0"])
            proc.wait_until(lambda: idle.report.closed == 20, "idle connections closed")
            inside.release()
            proc.wait_until(lambda: inside.report.closed + len(inside.report.trouble) == 12, "the others closed")
            assert not idle.report.trouble and not inside.report.trouble, inside.report.trouble
            assert inside.report.announced == 10, inside.report.counts()
            assert kept.get("/?1").text == "v1 1\n"


def test_broken_configuration_or_handler_moves_nothing():
    with MoveServer(crashes=True) as s:
        def mistakes():
            for write, pattern in (
                    (lambda: s.write_text("{broken"), "whitecap.json"),
                    (lambda: s.write_config(routes=[{"path": "/*", "handler": "nosuch"}]), "nosuch"),
                    (lambda: s.write_config(routes=[kit_route("/*", "ok", init="fail")]), "told to fail|routes"),
                    (lambda: s.write_config(routes=[kit_route("/*", "ok", init="crash")]), "SIGSEGV|signal")):
                write()
                s.reload_refused(pattern)

        s.errors += ["reload failed", "told to fail", "ended", "SIGSEGV"]
        workers = s.workers()
        survives(s, mistakes)
        assert workers == s.workers()
        assert s.total()["moved"]["out"] < IDLE, s.total()


# The number of workers.

def test_workers_come_and_go():
    with MoveServer() as s:
        def resize():
            for number, count in ((signal.SIGTTIN, 3), (signal.SIGTTIN, 4), (signal.SIGTTOU, 3),
                                  (signal.SIGTTOU, 2), (signal.SIGTTOU, 1), (signal.SIGTTIN, 2)):
                s.kill(number)
                proc.wait_until(lambda: len(s.workers()) == count, "%d workers" % count, 20)
                s.wait_set_up()

        survives(s, resize)
        s.check_moved(1)


def test_worker_told_to_leave():
    """TERM to a worker, not by the master: another one takes its place, its connections and all."""
    with MoveServer() as s:
        def tell():
            for _ in range(3):
                pid = s.workers()[0]
                s.expect_end(pid)
                s.kill(signal.SIGTERM, pid)
                proc.wait_until(lambda: pid not in s.workers() and len(s.workers()) == 2, "worker replaced", 20)

        survives(s, tell)
        s.check_moved(1)


def test_single_worker_told_to_leave():
    with MoveServer({"workers": 1}) as s:
        def tell():
            pid = s.worker
            s.expect_end(pid)
            s.kill(signal.SIGTERM, pid)
            proc.wait_until(lambda: s.workers() and pid not in s.workers(), "worker replaced", 20)

        survives(s, tell)
        s.check_moved(IDLE)


def test_recycling_by_requests():
    with MoveServer({"limits": {"worker_requests": 3000}}) as s:
        before = set(s.workers())
        survives(s, lambda: proc.wait_until(lambda: s.total()["recycle"] >= 4, "recycled", 30), paced=4)
        total = s.check_moved(IDLE)
        assert total["recycle"] >= 4 and not before & set(s.workers()), total
        # Give or take a tenth, and what was served until the next one was up.
        told = [int(m.group(1)) for m in s.log.find(r"to be replaced after (\d+) requests")]
        assert min(told) >= 2700, told
        assert min(told) != max(told), told


def test_recycling_by_memory():
    with MoveServer({"workers": 1, "limits": {"worker_memory": "1g"}}) as s:
        survives(s, lambda: s.reload(routes=[route("v2", ballast=str(100 << 20))]))
        assert s.total()["recycle"] == 0
        big = "64m" if not sanitized() else "96m"
        s.reload(limits={"worker_memory": big})
        survives(s, lambda: proc.wait_until(lambda: s.total()["recycle"] >= 1, "recycled", 20), idle=50)
        assert s.log.find(r"to be replaced at \d+ KiB of memory")
        s.reload(routes=[route("v2")], limits={})


def test_recycling_waits_for_the_one_in_its_place():
    """A handler that can't start any more: the old worker goes on serving."""
    with MoveServer(start=False) as s:
        flag = os.path.join(s.folder, "flag")
        s.write_config(workers=1, limits={"worker_requests": 50},
                       routes=[route(), kit_route("/kit", "ok", init="exit", only_with=flag)])
        s.start()
        s.errors += [r"ended", "exit code 7"]
        pid = s.worker
        with s.client() as c:
            with open(flag, "w", encoding="ascii"):
                pass
            for i in range(200):
                assert c.get("/?%d" % i).text == "v1 %d\n" % i
            s.log.wait("to be replaced after")
            pause(0.3)
            assert pid in s.workers() and s.total()["recycle"] == 0
            os.remove(flag)
            proc.wait_until(lambda: pid not in s.workers(), "replaced", 20)
            assert c.get("/?1").text == "v1 1\n"
        assert s.total()["recycle"] == 1
