# SPDX-License-Identifier: MIT
"""Handlers that do not come to an end: 504, and a report of where."""
import os
import re
import signal
import time

from crashes import POPULATION, crash_handler, crash_server, ended, forgive, stats, wait_replaced
from move_client import Crowd
from whitecap_it import get, proc


def test_signal_from_outside_shows_where_a_handler_hangs():
    with crash_server(1) as s, s.client() as c:
        c.send(get("/c?sleep"))
        c.expect_silence(0.1)
        os.kill(s.worker, signal.SIGABRT)
        assert c.receive().status == 500
        s.log.wait(r"fault: SIGABRT sent by process %d in handler crash" % os.getpid())
        s.log.wait(r"fault: #0 ")


def test_hangs_are_answered_504():
    with crash_server(2, config={"timeouts": {"handler": "200ms"}}) as s:
        with Crowd(s.address, **dict(POPULATION, busy=0, idle=20)) as crowd:
            for n, query in enumerate(("loop", "sleep", "read", "lock", "loop@signal", "sleep@callback"), 1):
                with s.client() as c:
                    start = time.monotonic()
                    c.send(get("/c?" + query))
                    r = c.receive()
                    took = time.monotonic() - start
                    # A pending one's own time may be over first.
                    assert r.status in ((504,) if "callback" not in query else (500, 504)), (query, r)
                    assert 0.19 < took < 1.5 * proc.scale(), (query, took)
                    assert c.get("/c?x").status == 200
                wait_replaced(s, n, 2)
                forgive(s, n, 2)
            report = crowd.finish()
        report.check()
        total = stats(s)["total"]
        assert total["hang"] == 6 and total["crash"] == 0 and total["lost"] == 0 and ended(s) == ["ABRT"] * 6, total


def test_route_has_its_own_time():
    routes = [{"path": "/slow", "handler": crash_handler(), "timeout": "100ms"}]
    with crash_server(1, routes) as s, s.client() as c:
        assert c.get("/c?slow=400").status == 200
        start = time.monotonic()
        assert c.get("/slow?sleep").status == 504
        assert time.monotonic() - start < 0.6 * proc.scale()
        assert c.get("/slow?slow=50").status == 200


def test_slow_handlers_that_finish_are_no_hang():
    with crash_server(1, config={"timeouts": {"handler": "200ms"}}) as s, s.client() as c:
        worker = s.worker
        c.send(get("/c?slow=100") * 20)
        assert [c.receive().status for _ in range(20)] == [200] * 20
        assert s.worker == worker and stats(s)["total"]["hang"] == 0


def test_hang_with_signals_blocked_is_killed_and_its_losses_counted():
    with crash_server(1, config={"timeouts": {"handler": "100ms"}}, fds=True) as s:
        s.errors.append("does not react: killed|ended: killed by SIGKILL")
        others = [s.client() for _ in range(7)]
        for c in others:
            assert c.get("/c?x").status == 200
        with s.client() as c:
            c.send(get("/c?deaf"))
            c.expect_closed(5, reset_allowed=True)
        for c in others:
            c.expect_closed(reset_allowed=True)
        wait_replaced(s, 1, 1)
        assert s.get("/c?x").status == 200
        total = stats(s)["total"]
        assert total["lost"] == 8 and total["hang"] == 1, total


def test_report_of_a_hang_shows_where():
    with crash_server(1, config={"timeouts": {"handler": "100ms"}}) as s:
        with s.client() as c:
            assert c.get("/c?loop").status == 504
        wait_replaced(s, 1, 1)
        assert stats(s)["workers"][0]["last_exit"].endswith(": hang in handler crash (route /c), GET /c?loop")
        s.log.wait(r"fault: #0 0x[0-9a-f]+ %s\+0x" % re.escape(crash_handler()))
