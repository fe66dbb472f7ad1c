# SPDX-License-Identifier: MIT
"""Stops: what is in flight, how long they may take, and one that is announced before (timeouts.drain_delay)."""
import os
import signal
import threading
import time

from test_admin import Admin
from whitecap_it import Server, build, get, hello_and, kit_route, pause, post, proc, refused
from whitecap_it.manager import Manager


def has_pending(pid, number):
    return int(proc.status(pid)["ShdPnd"], 16) >> (number - 1) & 1


def test_stop_signals_end_everything_with_exit_code_0():
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT):
        with Server({"workers": 2}) as s:
            idle = s.client()
            assert idle.get().status == 200
            start = time.monotonic()
            s.stop(number)
            assert time.monotonic() - start < 3 * proc.scale()
            idle.expect_closed(reset_allowed=number == signal.SIGINT)
            assert refused(s.address)


def test_graceful_stop_finishes_what_is_in_flight():
    for number in (signal.SIGTERM, signal.SIGQUIT):
        with Server({"workers": 2, "routes": hello_and(kit_route("/later", "later", n=700))}) as s:
            busy = [s.client() for _ in range(10)]
            idle = [s.client() for _ in range(10)]
            for c in idle:
                assert c.get().status == 200
            for c in busy:
                c.send(get("/later"))
            busy[0].expect_silence(0.1)
            s.kill(number)
            for c in idle:
                c.expect_closed(1)
            for c in busy:
                r = c.receive()
                assert r.text == "later" and r.closes, r
                c.expect_closed()
            assert s.wait_exit() == 0


def test_admin_process_that_dies_around_a_stop_is_not_replaced():
    """One that is due for its start at a stop, or dies after it, would find its listener closed."""
    for first in ("stop", "death"):
        with Admin({"routes": hello_and(kit_route("/later", "later", n=900))}, fds=False,
                   errors=["admin .*SIGKILL"]) as s:
            admin = s.admin()
            with s.client() as c, s.client() as idle:
                assert idle.get().status == 200
                c.send(get("/later"))
                c.expect_silence(0.1)
                if first == "death":
                    os.kill(s.pid, signal.SIGSTOP)
                    os.kill(admin, signal.SIGKILL)
                    s.kill(signal.SIGTERM)
                    os.kill(s.pid, signal.SIGCONT)
                else:
                    s.kill(signal.SIGTERM)
                    idle.expect_closed(1)
                    os.kill(admin, signal.SIGKILL)
                assert c.receive().text == "later"
            assert s.wait_exit() == 0
            assert len(s.log.find(r"admin \([0-9]+\) ended")) == 1, s.log.tail()


def test_stop_answers_a_request_whose_body_is_still_coming():
    with Server() as s, s.client() as c:
        data = post("/echo", b"x" * 1000)
        c.send(data[:500])
        assert s.get().status == 200
        s.kill(signal.SIGTERM)
        c.expect_silence(0.2)
        r = c.ask(data[500:])
        assert r.body == b"x" * 1000 and r.closes
        assert s.wait_exit() == 0


def test_stop_first_reads_what_the_kernel_already_holds():
    """B01: a request that waits in the socket when the worker is told to stop is answered."""
    with Server() as s, s.client() as c:
        assert c.get().status == 200
        worker = s.worker
        os.kill(worker, signal.SIGSTOP)
        proc.wait_until(lambda: proc.state(worker) == "T", "worker stopped")
        c.send(post("/echo", b"in the queue"))
        s.kill(signal.SIGTERM)
        c.expect_silence(0.1)
        os.kill(worker, signal.SIGCONT)
        r = c.receive()
        assert r.body == b"in the queue" and r.closes
        c.expect_closed()
        assert s.wait_exit() == 0


def test_stop_answers_who_waits_at_the_listener():
    """Connections that no worker has accepted yet, with their requests."""
    with Server({"workers": 2}) as s:
        workers = s.workers()
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        waiting = [s.client() for _ in range(100)]
        for c in waiting:
            c.send(get())
        s.kill(signal.SIGTERM)
        proc.wait_until(lambda: all(has_pending(pid, signal.SIGTERM) for pid in workers), "the workers told to stop")
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        for c in waiting:
            r = c.receive()
            assert r.status == 200 and r.closes, r
            c.expect_closed()
        assert s.wait_exit() == 0


def test_stop_waits_for_requests_not_for_connections():
    """B05: idle and busy keep-alive clients do not prolong it."""
    with Server({"workers": 2, "timeouts": {"drain": "20s"}, "routes": hello_and(kit_route("/later", "later", n=600))}) as s:
        idle = [s.client() for _ in range(100)]
        for c in idle:
            assert c.get().status == 200
        over = threading.Event()

        def ask():
            try:
                with s.client() as c:
                    while not over.is_set() and not c.get().closes:
                        pause(0.02)
            except (AssertionError, OSError):
                pass

        threads = [threading.Thread(target=ask) for _ in range(10)]
        for t in threads:
            t.start()
        with s.client() as running:
            running.send(get("/later"))
            running.expect_silence(0.2)
            start = time.monotonic()
            s.kill(signal.SIGTERM)
            assert running.receive().text == "later"
        assert s.wait_exit() == 0
        took = time.monotonic() - start
        over.set()
        for t in threads:
            t.join()
        assert took < 2 * proc.scale(), took
        for c in idle:
            c.expect_closed(1)


def test_stop_is_bounded_by_the_drain_timeout():
    with Server({"timeouts": {"drain": "500ms"}, "routes": [kit_route("/", "later", n=60000)]},
                errors=["ended", "killed"]) as s, s.client() as c:
        c.send(get())
        c.expect_silence(0.1)
        start = time.monotonic()
        s.kill(signal.SIGTERM)
        s.wait_exit()
        assert 0.4 < time.monotonic() - start < 3 * proc.scale()


def test_second_stop_signal_stops_now():
    for second in (signal.SIGTERM, signal.SIGINT):
        with Server({"routes": [kit_route("/", "later", n=60000)]}, errors=["ended", "killed"]) as s, s.client() as c:
            c.send(get())
            c.expect_silence(0.1)
            s.kill(signal.SIGTERM)
            c.expect_silence(0.2)
            start = time.monotonic()
            s.kill(second)
            assert s.wait_exit() == 0
            assert time.monotonic() - start < 1 * proc.scale()


def test_interrupt_stops_now():
    with Server({"routes": [kit_route("/", "later", n=60000)]}, errors=["ended", "killed"]) as s, s.client() as c:
        c.send(get())
        c.expect_silence(0.1)
        start = time.monotonic()
        s.stop(signal.SIGINT)
        assert time.monotonic() - start < 1 * proc.scale()


def delayed(delay, **more):
    return dict({"workers": 2, "timeouts": {"drain_delay": delay}}, **more)


def test_all_is_served_during_the_delay():
    with Admin(delayed("2s"), fds=False) as s, s.client() as old, s.client() as new:
        assert old.get("/").status == 200
        assert s.ask("/readyz").status == 200
        s.kill(signal.SIGTERM)
        s.log.wait("stopping in 2 s")
        proc.wait_until(lambda: s.ask("/readyz").status == 503, "not ready")
        s.kill(signal.SIGHUP)   # too late, and no harm
        s.kill(signal.SIGUSR2)
        s.kill_worker(s.workers()[0], signal.SIGTERM)  # its connections go on
        for client in (old, new):
            answer = client.get("/")
            assert answer.status == 200 and not answer.closes
        assert s.ask("/readyz").status == 503 and s.generation() == 1 and not s.log.find("upgrade")
        proc.wait_until(lambda: new.get("/").closes, "the second half", 2)
        new.expect_closed()
        old.expect_closed(5)
        s.wait_exit()
        assert s.process.returncode == 0


def test_a_second_signal_ends_the_delay_politely():
    config = delayed("1h", routes=[{"path": "/", "handler": build.version_handler("v1")}])
    with Server(config, fds=False) as s, s.client() as c:
        c.send(get("/?n=500"))
        c.expect_silence(0.1)
        s.kill(signal.SIGQUIT)
        s.log.wait("stopping in 3600 s")
        s.kill(signal.SIGTERM)
        assert c.receive().text == "v1"
        s.wait_exit()
        assert s.process.returncode == 0


def test_int_ends_the_delay_at_once():
    with Server(delayed("1h"), fds=False) as s:
        s.kill(signal.SIGTERM)
        s.log.wait("stopping in 3600 s")
        s.kill(signal.SIGINT)
        s.wait_exit()


def test_connections_that_go_on_need_no_delay():
    """In the service manager's store."""
    with Manager() as m, Server(delayed("1h"), env=m.environment(WHITECAP_FDSTORE="1"), fds=False) as s:
        s.stop()
        assert not s.log.find("stopping in")
