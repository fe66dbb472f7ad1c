# SPDX-License-Identifier: MIT
"""Connections move: what may happen to a server without its clients seeing anything of it."""
import json
import os
import random
import re
import resource
import shutil
import signal

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

    def open_connections(self):
        return sum(self.total()["connections"].values())

    def check_moved(self, at_least, lost=0):
        """What one process gave, another one takes."""
        seen = []

        def is_taken():
            seen[:] = [self.total()]
            return seen[0]["moved"]["in"] == seen[0]["moved"]["out"] >= at_least and seen[0]["lost"] == lost

        proc.wait_until(is_taken, lambda: "all that was given taken: %s" % seen, 5)
        return seen[0]

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


def test_last_move_is_shown():
    with MoveServer({"rebalance": False}) as s:
        assert s.stats()["last_move"] is None
        with Crowd(s.address, idle=200) as crowd:
            s.reload()
            s.check_moved(200)
            move = s.stats()["last_move"]
            # A worker that is not told to leave yet may take some of what another gives, and give it again.
            assert 200 <= move["count"] == s.total()["moved"]["out"] <= 400 and 0 < move["ms"] < 10000 and move["ago_s"] < 60, move
            crowd.finish().check()


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
            for i in range(4):
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

        survives(s, reloads, busy=4, idle=100)
        s.check_moved(count * 50)
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
        s.reload(routes=[route("v2", ballast=str(100 << 20))])
        assert s.total()["recycle"] == 0
        s.reload(limits={"worker_memory": "64m"})
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


# What cannot be kept is counted, and nothing hangs.

def test_drain_deadline_ends_a_request_that_never_does():
    with MoveServer({"timeouts": {"drain": "1s", "request": "60s"}}) as s:
        with Crowd(s.address, idle=100, paced=4) as crowd, s.client() as never:
            never.send(get("/wait/0?1"))
            proc.wait_until(lambda: s.open_connections() == 105, "all open")
            s.reload(seconds=10)
            never.expect_closed()
            crowd.finish().check()
        s.check_moved(100, lost=1)


def test_stopped_worker_is_replaced_at_the_deadline():
    """Its connections are lost with it; the others' are not."""
    with MoveServer({"timeouts": {"drain": "1s"}}, errors=["killed", "ended"]) as s:
        with Crowd(s.address, idle=40, closing_allowed=True) as crowd:
            stopped = s.workers()[0]
            held = next(w for w in s.stats()["workers"] if w["pid"] == stopped)["connections"]
            count = held["active"] + held["idle"]
            os.kill(stopped, signal.SIGSTOP)
            s.kill(signal.SIGHUP)
            proc.wait_until(lambda: not proc.alive(stopped), "stopped worker killed", 20)
            proc.wait_until(lambda: len(crowd.report.trouble) + crowd.report.closed >= count, "its clients told")
            crowd.finish()
            assert crowd.report.closed + crowd.report.reset == count, (count, crowd.report.counts())
        total = s.total()
        assert total["lost"] == count, total


def test_small_queue_of_an_unprivileged_user():
    """Without CAP_NET_ADMIN the exchange is small: what does not fit waits for its turn."""
    needs_root()
    if not shutil.which("setpriv"):
        raise Skip("needs setpriv")
    wrap = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
    with MoveServer(start=False, wrap=wrap) as s:
        os.chown(s.folder, 65534, 65534)
        s.start()
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        survives(s, s.reload, idle=300 if sanitized() else max(100, min(3000, soft - 1000)), half_body=100)
        s.check_moved(300)


def test_too_many_descriptors_under_way():
    """The kernel counts those of a user without privileges that nobody has taken yet: wait for the takers."""
    from whitecap_it.trace import Strace
    with MoveServer({"workers": 1}) as s:
        with Crowd(s.address, idle=300, paced=10) as crowd:
            giver = s.worker
            with Strace(giver, "sendmsg", inject="error=ETOOMANYREFS:when=1+2") as trace:
                s.reload()
                proc.wait_until(lambda: giver not in s.workers(), "the giver gone", 20)
            crowd.finish().check()
        s.check_moved(300)
    refused = [line for line in trace.lines if "SCM_RIGHTS" in line and "ETOOMANYREFS" in line]
    assert len(refused) >= 3, trace.lines[:10]


def test_descriptor_limit_of_the_takers():
    """Each worker has room for some 400 connections, so that not everyone can take at any time."""
    with MoveServer({"workers": 3}, wrap=["prlimit", "--nofile=500:500"]) as s:
        with Crowd(s.address, idle=900, paced=4) as crowd:
            s.reload()
            s.reload()
            crowd.finish().check()
        s.check_moved(1800)


def test_more_connections_than_the_takers_have_descriptors_for():
    with MoveServer({"workers": 3}, wrap=["prlimit", "--nofile=500:500"], errors=["could not be taken"]) as s:
        with Crowd(s.address, idle=900, closing_allowed=True) as crowd:
            s.reload(workers=1, seconds=20)
            def settled():
                total = s.total()
                return total["lost"] + sum(total["connections"].values()) == 900 and crowd.report.closed == total["lost"]

            proc.wait_until(lambda: crowd.report.closed >= 400 and settled(), "the surplus closed", 20)
            crowd.finish()
        report, total = crowd.report, s.total()
        assert not report.trouble, report.trouble[:5]
        assert total["lost"] == report.closed and 400 <= report.closed < 600, (total, report.counts())
        assert report.answers == 2 * 900 - report.closed, report.counts()


def test_taker_killed_while_taking():
    """What it had taken is lost and counted; what it had not is another one's."""
    with MoveServer({"workers": 3}) as s:
        with Crowd(s.address, idle=300, busy=4, closing_allowed=True) as crowd:
            for _ in range(4):
                s.errors.append("ended")
                s.kill(signal.SIGHUP)
                generation = s.generation()
                proc.wait_until(lambda: s.generation() > generation, "reloaded")
                taker = s.workers()[-1]
                s.kill(signal.SIGKILL, taker)
                proc.wait_until(lambda: taker not in s.workers() and len(s.workers()) == 3, "three workers", 20)
            crowd.finish()
            report = crowd.report
        assert not report.wrong and not report.duplicates and not report.out_of_order, report.trouble[:5]
        total = s.total()
        gone = report.closed + report.reset + sum(t.startswith("closed:") for t in report.trouble)
        assert total["lost"] >= report.reset and total["lost"] <= 304, (total, report.counts())
        assert report.answers >= 2 * 304 - gone, report.counts()


def test_stopped_taker_does_not_hold_the_others_up():
    with MoveServer({"workers": 3, "timeouts": {"drain": "60s"}}) as s:
        with Crowd(s.address, idle=100, paced=4) as crowd:
            workers = s.workers()
            os.kill(workers[0], signal.SIGSTOP)
            s.expect_end(workers[1])
            s.kill(signal.SIGTERM, workers[1])
            proc.wait_until(lambda: workers[1] not in s.workers() and len(s.workers()) == 3, "replaced", 20)
            os.kill(workers[0], signal.SIGCONT)
            crowd.finish().check()


# Givers forget what they gave.

def test_given_connections_do_not_wake_their_giver_and_no_epoll_set_is_rebuilt():
    from whitecap_it.trace import Strace
    with MoveServer({"workers": 1, "rebalance": False}) as s:
        with Crowd(s.address, idle=200, paced=20) as crowd, s.client() as held:
            held.send(get("/wait/60000?1"))
            proc.wait_until(lambda: s.total()["requests"] > 300, "requests")
            giver = s.worker
            with Strace(giver, "epoll_create,epoll_create1,epoll_ctl,epoll_wait,epoll_pwait") as move:
                s.kill(signal.SIGHUP)
                proc.wait_until(lambda: len(s.workers()) == 2, "two generations")
                answers = crowd.report.answers
                proc.wait_until(lambda: s.total()["moved"]["out"] >= 220 and crowd.report.answers > answers + 100,
                                "all moved")
            with Strace(giver, "epoll_create,epoll_create1,epoll_ctl,epoll_wait,epoll_pwait") as after:
                answers = crowd.report.answers
                proc.wait_until(lambda: crowd.report.answers > answers + 300, "answers by others")
            taker = next(p for p in s.workers() if p != giver)
            with Strace(taker, "epoll_create,epoll_create1") as taking:
                answers = crowd.report.answers
                proc.wait_until(lambda: crowd.report.answers > answers + 100, "answers")
            assert crowd.report.answers > 0
            crowd.finish().check()
            woken = [line for line in after.lines if re.search(r"epoll_p?wait\(.*= [1-9]", line)]
            assert not woken, woken[:5]
            for trace in (move, after, taking):
                created = [c for c in trace.calls if c.startswith("epoll_create")]
                assert not created, trace.lines[:20]
            proc.kill_quietly(giver)
            s.expect_end(giver)
            proc.wait_until(lambda: giver not in s.workers(), "giver gone")


test_given_connections_do_not_wake_their_giver_and_no_epoll_set_is_rebuilt.alone = True
for lengthy in (test_a_hundred_reloads_in_a_row, test_storm_of_reloads):
    lengthy.long = True
