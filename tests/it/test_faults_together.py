# SPDX-License-Identifier: MIT
"""Faults on top of others: a crash where something runs out, a stop or another signal while a worker hands over."""
import os
import signal

from crashes import crash_server, ended, stats, wait_replaced
from whitecap_it import build, get, needs_program, post, proc
from whitecap_it.trace import Strace

NO_ROOM = ["no room to watch", "ended", "reload failed", "not ready within"]


class Deaf:
    """A crash_server whose children, while this is on, have no room in epoll for the nth descriptor that they watch."""

    def __init__(self, nth, workers):
        self.flag = None
        self.server = crash_server(workers, fds=False, start=False, wait_ready=False, config={"timeouts": {"start": "5s"}})
        self.flag = os.path.join(self.server.folder, "flag")
        self.server.env = {"LD_PRELOAD": build.compile_shared("fail_epoll.c", "fail_epoll"), "FAIL_EPOLL": self.flag,
                           "FAIL_EPOLL_NTH": str(nth)}
        environment = self.server.environment()
        # A sanitizer must bear that its library is not the first one.
        self.server.environment = lambda: dict(
            environment, ASAN_OPTIONS=environment.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
        self.server.errors += NO_ROOM

    def __enter__(self):
        self.server.__enter__()
        self.server.start()
        self.server.ready()
        return self

    def __exit__(self, *exception):
        return self.server.__exit__(*exception)

    def begin(self):
        with open(self.flag, "wb"):
            pass

    def end(self):
        os.remove(self.flag)


def each_descriptor(workers, act):
    """act() while the first, second... one of each new worker can't be watched: all clients are served afterwards."""
    for nth in range(1, 6):
        with Deaf(nth, workers) as deaf:
            s = deaf.server
            olds = [s.client() for _ in range(10)]
            for c in olds:
                assert c.get("/c?x").status == 200
            deaf.begin()
            act(s)
            deaf.end()
            with s.client() as new:
                assert new.get("/c?x", seconds=10).status == 200, nth
            for c in olds:
                assert c.get("/c?x", seconds=10).status == 200, nth
            assert stats(s)["total"]["lost"] == 0, (nth, stats(s)["total"])


def test_no_room_in_epoll_for_workers_of_a_new_generation():
    def reload(s):
        since = len(s.log.lines)
        s.kill(signal.SIGHUP)
        s.log.wait("reload (done|failed)", since=since, seconds=20)

    each_descriptor(2, reload)


def test_no_room_in_epoll_for_the_worker_that_replaces_a_crashed_one():
    def crash(s):
        before = s.worker
        os.kill(before, signal.SIGSEGV)
        proc.wait_until(lambda: any(pid != before for pid in s.workers()) or "no room" in s.log.tail(), "another worker")

    each_descriptor(1, crash)


def test_no_room_in_epoll_during_an_upgrade():
    needs_program("strace")
    for when in ("1", "2", "1..6"):
        with crash_server(2, fds=False) as s:
            s.errors += NO_ROOM
            with s.client() as c:
                assert c.get("/c?x").status == 200
                with Strace(s.pid, "epoll_ctl", inject="error=ENOSPC:when=" + when, follow=False):
                    s.kill(signal.SIGUSR2)
                    s.log.wait("no room to watch what a child says", seconds=20)
                assert c.get("/c?x", seconds=10).status == 200
            s.reload()
            assert s.get("/c?x").status == 200


def read_half(s, count):
    """Connections with so much of a body read that it does not fit a message of the exchange; and the rest of it."""
    whole = post("/echo?1", b"b" * 30000)
    clients = [s.client() for _ in range(count)]
    for c in clients:
        c.send(whole[:20000])
    proc.wait_until(lambda: stats(s)["total"]["bytes"]["in"] >= 20000 * count, "all of it read")
    return clients, whole[20000:]


def check_all(s, clients, rest):
    for c in clients:
        assert c.ask(rest).status == 200
    assert stats(s)["total"]["lost"] == 0, stats(s)["total"]


def test_crash_with_few_descriptors_left():
    with crash_server(1, fds=False, wrap=["prlimit", "--nofile=256:256"], config={"timeouts": {"request": "30s"}}) as s:
        clients, rest = read_half(s, 150)
        os.kill(s.worker, signal.SIGSEGV)
        wait_replaced(s, 1, 1)
        check_all(s, clients, rest)


def test_further_crash_signals_from_outside_during_the_hand_over():
    with crash_server(1, fds=False, config={"timeouts": {"request": "30s"}}) as s:
        clients, rest = read_half(s, 100)
        worker = s.worker
        for _ in range(20):
            proc.kill_quietly(worker, signal.SIGSEGV)
            proc.pause(0.001)
        wait_replaced(s, 1, 1)
        check_all(s, clients, rest)


def test_hand_over_without_memory_in_the_kernel_for_a_moment():
    needs_program("strace")
    for error in ("ENOMEM", "ENOBUFS"):
        with crash_server(1, fds=False) as s:
            clients = [s.client() for _ in range(100)]
            for c in clients:
                assert c.get("/c?x").status == 200
            with Strace(s.worker, "sendmsg", inject="error=%s:when=2..4" % error):
                os.kill(s.worker, signal.SIGSEGV)
                wait_replaced(s, 1, 1)
            for c in clients:
                assert c.get("/c?x").status == 200
            assert stats(s)["total"]["lost"] == 0, stats(s)["total"]


def test_stop_while_answers_of_crashes_wait_with_much_behind_them():
    for size in (100, 12000):
        with crash_server(2, fds=False) as s:
            clients = [s.client() for _ in range(6)]
            for c in clients:
                c.send(get("/c?null") + post("/echo?9", b"z" * size)[:size])
            proc.wait_until(lambda: ended(s).count("SEGV") >= 2, "crashes")
            s.kill(signal.SIGTERM)
            for c in clients:
                assert c.receive(15).status == 500
                c.close()
            assert s.wait_exit() == 0


def test_start_without_a_process_for_the_proof_is_no_mistake_of_the_configuration():
    """So that the service manager tries again."""
    needs_program("strace")
    wrap = ["strace", "-D", "-o", "/dev/null", "-e", "trace=clone,clone3,fork,vfork",
            "-e", "inject=clone,clone3,fork,vfork:error=EAGAIN"]
    with crash_server(1, fds=False, wrap=wrap, start=False, wait_ready=False) as s:
        s.exit_code = 1
        s.errors.append("cannot be started")
        s.start()
        assert s.wait_exit() == 1
        assert s.log.find("cannot be started: fork")


for test in list(globals().values()):
    if callable(test) and getattr(test, "__name__", "").startswith("test_no_room"):
        test.long = True
