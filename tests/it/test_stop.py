# SPDX-License-Identifier: MIT
"""A stop that is announced before anything is closed: timeouts.drain_delay."""
import signal

from test_admin import Admin
from whitecap_it import Server, build, get, proc
from whitecap_it.manager import Manager


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
