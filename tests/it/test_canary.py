# SPDX-License-Identifier: MIT
"""reload.canary: a reload lets one worker of the new generation serve first, and takes it back when that does worse."""
import collections
import os
import selectors
import signal
import socket
import threading
import time

from crashes import crash_handler
from move_client import Crowd
from test_admin import Admin
from test_move import MoveServer
from whitecap_it import build, get, kit_route, needs_program, proc

CONNECTIONS = 24
REQUEST = get("/?null")  # what crashes the handler that is made to


class Callers:
    """Connections that ask all the time, a little apart, and never reconnect."""

    def __init__(self, address):
        self.statuses, self.closed = collections.Counter(), 0
        self.selector = selectors.DefaultSelector()
        self.over = False
        for _ in range(CONNECTIONS):
            client = socket.create_connection((address.rpartition(":")[0], int(address.rpartition(":")[2])))
            self.selector.register(client, selectors.EVENT_READ)
            client.sendall(REQUEST)
        self.request = REQUEST
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over:
            for key, _ in self.selector.select(0.1):
                self.read(key.fileobj)
            time.sleep(0.002)  # their pace

    def read(self, client):
        try:
            data = client.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.closed += 1
            self.selector.unregister(client)
            return
        self.statuses[data[9:12].decode()] += 1
        client.sendall(self.request)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join(10)
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()


def canary(seconds, requests=50, **more):
    return dict({"canary": "%dms" % (seconds * 1000), "canary_requests": requests}, **more)


def server(**more):
    return MoveServer({"routes": [kit_route("/*", "ok")]}, **more)


def check_rolled_back(s, callers, workers, pattern):
    stats = s.stats()
    assert stats["generation"] == 1 and stats["reload"]["failed"] == 1, stats["reload"]
    assert pattern in stats["reload"]["error"], stats["reload"]
    proc.wait_until(lambda: set(s.workers()) == workers, "only the old workers")
    # Answers of the canary may still be on their way to a caller: all have asked again after two rounds.
    callers.statuses.clear()
    proc.wait_until(lambda: callers.statuses["200"] >= 4 * CONNECTIONS, "those on their way")
    callers.statuses.clear()
    proc.wait_until(lambda: callers.statuses["200"] >= 200, "answers")
    assert set(callers.statuses) == {"200"} and callers.closed == 0, (callers.statuses, callers.closed)


def test_a_good_one_goes_on():
    with server() as s, Callers(s.address) as callers:
        old = s.workers()
        s.write_config(routes=[kit_route("/*", "block", n=0)], reload=canary(2, canary_latency=1000))
        s.kill(signal.SIGHUP)
        proc.wait_until(lambda: s.log.find("canary: one worker of generation 2 serves"), "a canary")
        assert len(s.workers()) == 3, s.workers()
        canary_pid = (set(s.workers()) - set(old)).pop()
        proc.wait_until(lambda: s.log.find("reload done: generation 2"), lambda: s.log.tail())
        assert s.log.find("canary: as good as the others, after [0-9]+ requests"), s.log.tail()
        proc.wait_until(lambda: len(s.workers()) == 2 and not set(old) & set(s.workers()), "two new workers")
        assert canary_pid in s.workers()
        callers.statuses.clear()
        proc.wait_until(lambda: callers.statuses["200"] >= 100, "answers")
        assert set(callers.statuses) == {"200"} and callers.closed == 0, (callers.statuses, callers.closed)


def test_one_that_answers_with_errors_is_taken_back_early():
    with server() as s, Callers(s.address) as callers:
        old = set(s.workers())
        s.write_config(routes=[kit_route("/*", "status", n=503, body="x")], reload=canary(60))
        s.reload_refused("reload failed: canary: 100 % of its [0-9]+ responses were 5xx")
        check_rolled_back(s, callers, old, "canary: 100 %")


def test_a_slower_one_is_taken_back():
    with server() as s, Callers(s.address) as callers:
        old = set(s.workers())
        s.write_config(routes=[kit_route("/*", "block", n=100)], reload=canary(3, requests=10))
        s.reload_refused("reload failed: canary: its p99 was [0-9.]+ ms, that of the old workers")
        check_rolled_back(s, callers, old, "reload.canary_latency allows 2 times")


def test_one_that_crashes_is_taken_back():
    with server(crashes=True, errors=["SIGSEGV|crash|canary|handle|register|frame|#[0-9]"]) as s, Callers(s.address) as callers:
        old = set(s.workers())
        s.write_config(routes=[{"path": "/*", "handler": crash_handler()}], reload=canary(60))
        s.reload_refused("reload failed: canary: ")
        proc.wait_until(lambda: callers.statuses["500"] == 1, "the one that crashed it told")
        check_rolled_back(s, callers, old, "canary: ")
        assert s.stats()["total"]["lost"] == 0


def test_too_few_requests_to_judge_by():
    with server() as s:
        s.reload(reload=canary(0.3, requests=1000000), routes=[kit_route("/*", "status", n=500, body="x")])
        assert s.log.find(r"canary: [0-9]+ requests are too few to judge by \(reload.canary_requests: 1000000\)")
        assert s.get("/").status == 500


def test_command_tells_why():
    with Admin({"pidfile": "server.pid", "routes": [kit_route("/*", "ok")]}, fds=False) as s, Callers(s.address):
        s.write_config(routes=[kit_route("/*", "status", n=500, body="x")], reload=canary(60))
        s.errors.append("reload failed: canary")
        done = s.command("reload", "-c", s.path)
        assert done.returncode == 2 and "canary: 100 % of its" in done.stderr, done


def test_connections_of_a_removed_listener_come_back():
    with server(start=False) as s:
        path = os.path.join(s.folder, "http.sock")
        s.write_config(listen=["127.0.0.1:0", "unix:" + path], workers=1)
        s.start()
        old = set(s.workers())
        clients = [socket.socket(socket.AF_UNIX) for _ in range(40)]
        for client in clients:
            client.connect(path)
            client.sendall(REQUEST)
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
        s.write_config(listen=["127.0.0.1:0"], routes=[kit_route("/*", "status", n=500, body="x")],
                       reload=canary(60, requests=100))
        s.errors.append("reload failed: canary")
        s.kill(signal.SIGHUP)
        seen, deadline = collections.Counter(), time.monotonic() + 20
        while not s.log.find("reload failed: canary") and time.monotonic() < deadline:
            for client in clients:
                client.sendall(REQUEST)
                seen[client.recv(4096)[9:12]] += 1
        proc.wait_until(lambda: set(s.workers()) == old, "only the old worker")
        assert seen[b"500"] >= 100, seen
        for client in clients:
            client.sendall(REQUEST)
            answer = client.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200") and b"close" not in answer.lower(), answer
            client.close()


def test_moves_among_a_crowd_of_every_kind():
    """To the canary and back: nobody sees anything but the other answers."""
    route = {"path": "/*", "handler": build.move_handler("v1")}
    with MoveServer({"routes": [route]}, errors=["canary"], crashes=True) as s:
        with Crowd(s.address, busy=8, idle=100, paced=20) as crowd:
            s.write_config(routes=[dict(route, handler=build.move_handler("v2"))],
                           reload=canary(60, requests=1000000))
            s.kill(signal.SIGHUP)
            proc.wait_until(lambda: s.log.find("canary: one worker"), "a canary")
            proc.wait_until(lambda: crowd.report.versions["v2"] > 100, "answers of the canary")
            pid = next(w["pid"] for w in s.stats()["workers"] if w["generation"] == 2)
            s.expect_end(pid)
            os.kill(pid, signal.SIGTERM)  # it leaves, as if it had been told to: no canary any more
            proc.wait_until(lambda: s.log.find("reload failed: canary"), "the end of it")
            crowd.report.versions.clear()
            proc.wait_until(lambda: crowd.report.versions["v1"] > 100, "answers of the old ones")
            crowd.finish().check()


def test_connections_of_a_new_listener_stay():
    """Which the old workers do not have."""
    with server(start=False) as s:
        path = os.path.join(s.folder, "http.sock")
        s.write_config(workers=1)
        s.start()
        s.write_config(workers=1, listen=["127.0.0.1:0", "unix:" + path],
                       reload=canary(1.5, requests=1000000, canary_latency=1000))
        s.kill(signal.SIGHUP)
        proc.wait_until(lambda: s.log.find("canary: one worker"), "a canary")
        clients = [socket.socket(socket.AF_UNIX) for _ in range(60)]
        for client in clients:
            client.connect(path)
        while not s.log.find("reload done"):
            for client in clients:
                client.sendall(REQUEST)
                answer = client.recv(4096)
                assert answer.startswith(b"HTTP/1.1 200") and b"close" not in answer.lower(), answer
        for client in clients:
            client.sendall(REQUEST)
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
            client.close()


def test_one_that_hangs_is_taken_back():
    """Watched by its own configuration: the old one has no timeouts.handler."""
    with server(crashes=True, errors=["canary|hang|handle|register|frame|ended|#[0-9]"]) as s, Callers(s.address) as callers:
        old = set(s.workers())
        s.write_config(routes=[{"path": "/*", "handler": crash_handler()}], timeouts={"handler": "200ms"},
                       reload=canary(60))
        callers.request = get("/?sleep")
        s.reload_refused("reload failed: canary: ")
        proc.wait_until(lambda: callers.statuses["504"] >= 1, "the one that hung told")
        assert s.stats()["generation"] == 1 and callers.closed == 0
        proc.wait_until(lambda: set(s.workers()) == old, "only the old workers")


def test_one_is_not_recycled_meanwhile():
    with server() as s, Callers(s.address):
        s.write_config(routes=[kit_route("/*", "block", n=0)], limits={"worker_requests": 20},
                       reload=canary(2, canary_latency=1000))
        s.kill(signal.SIGHUP)
        proc.wait_until(lambda: s.log.find("reload done"), lambda: s.log.tail())
        judged = s.log.find("canary: as good as the others, after ([0-9]+) requests")
        assert judged and int(judged[0].group(1)) >= 50, s.log.tail()


def test_command_does_not_tell_the_outcome_of_another_reload():
    with Admin({"pidfile": "server.pid", "routes": [kit_route("/*", "ok")], "timeouts": {"start": "1ms"}},
               fds=False, start=False) as s:
        s.write_config(timeouts={"start": "1s"})
        s.start()
        s.write_config(timeouts={"start": "1s"}, reload=canary(300))
        s.kill(signal.SIGHUP)
        proc.wait_until(lambda: s.log.find("canary: one worker"), "a canary")
        s.write_config(timeouts={"start": "1ms"}, reload={"canary": 0})
        # It looks again and again until its patience is over; strace has its pauses end at once.
        done = s.command("reload", "-c", s.path, wrap=[
            needs_program("strace"), "-qq", "-o", "/dev/null", "-e", "trace=?poll,?ppoll",
            "-e", "inject=?poll,?ppoll:retval=0"], env=build.sanitizer_options())
        assert done.returncode == 1 and "another reload is on its way" in done.stderr, done
