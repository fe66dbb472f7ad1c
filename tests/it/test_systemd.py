# SPDX-License-Identifier: MIT
"""What a service manager sees of the server, and what its variables do to it."""
import os
import re
import signal
import socket
import tempfile
import time

from whitecap_it import Client, Server, build, get, kit_route, needs_root, pause, proc
from whitecap_it.manager import Activated, Manager, RealManager

LEAK = ("NOTIFY_SOCKET", "LISTEN_", "WATCHDOG_", "FDSTORE")


def life(abstract):
    with Manager(abstract) as m, Server({"workers": 2}, env=m.environment()) as s:
        ready = m.wait("READY")
        assert len(s.workers()) == 2 and not m.find("RELOADING")
        assert "2 workers" in ready[0]["STATUS"], ready
        assert s.get().status == 200
        before = time.monotonic_ns() // 1000
        s.reload()
        reloading, ready = m.wait("RELOADING"), m.wait("READY", 2)
        assert before <= int(reloading[0]["MONOTONIC_USEC"]) <= reloading[2]
        assert m.messages.index(reloading) < m.messages.index(ready)
        assert "generation 2" in ready[0]["STATUS"]
        s.stop()
        m.wait("STOPPING")
        assert m.senders() == {s.process.pid}


def test_the_manager_is_told_of_start_reload_and_stop():
    """B33."""
    life(abstract=False)


def test_the_manager_may_listen_on_an_abstract_name():
    """B33."""
    life(abstract=True)


def test_a_refused_reload_is_ready_again_and_says_why():
    """B33."""
    with Manager() as m, Server({"workers": 1}, env=m.environment()) as s:
        m.wait("READY")
        s.write_text("{broken")
        s.reload_refused("whitecap.json")
        ready = m.wait("READY", 2)
        assert len(m.find("RELOADING")) == 1
        assert "reload failed" in ready[0]["STATUS"] and "whitecap.json" in ready[0]["STATUS"], ready
        s.write_config()
        s.reload()
        assert "failed" not in m.wait("READY", 3)[0]["STATUS"]


def test_reloads_close_together_and_a_stop_in_one_leave_nothing_open():
    """B33."""
    with Manager() as m, Server({"workers": 1}, env=m.environment()) as s:
        m.wait("READY")
        s.kill(signal.SIGHUP)
        m.wait("RELOADING")
        s.kill(signal.SIGHUP)
        m.wait("READY", 3)
        assert len(m.find("RELOADING")) == 2
        s.kill(signal.SIGHUP)
        m.wait("RELOADING", 3)
        s.kill(signal.SIGTERM)
        s.wait_exit()
        assert s.process.returncode == 0
        m.wait("STOPPING")
        last = [k for f, _, _ in m.messages for k in f if k in ("READY", "STOPPING")][-1]
        assert last == "STOPPING"


def test_an_upgrade_keeps_the_manager():
    with Manager() as m, Server({"workers": 1}, env=m.environment(), fds=False) as s:
        m.wait("READY")
        s.kill(signal.SIGUSR2)
        s.log.wait("upgraded: ")
        m.wait("READY", 2)
        s.stop()
        m.wait("STOPPING")
        assert m.senders() == {s.process.pid}


def test_signs_of_life_and_the_status_come_in_time():
    env = {"WATCHDOG_USEC": "300000"}
    with Manager() as m, Server({"workers": 1}, env=m.environment(**env)):
        m.wait("WATCHDOG", 4)
        gaps = [b[2] - a[2] for a, b in zip(m.find("WATCHDOG"), m.find("WATCHDOG")[1:])]
        assert min(gaps) < 300000, gaps
    with Manager() as m, Server({"workers": 1}, env=m.environment(WATCHDOG_PID="1", **env)) as s:
        m.wait("READY")
        with s.client() as c:
            for _ in range(200):
                c.get("/")
        text = m.wait("STATUS", 2)[0]["STATUS"]
        assert re.search(r"1 of 1 workers, generation 1, [1-9]\d* requests/s, p99 \S+ ms", text), text
        assert not m.find("WATCHDOG")


def signs_of_life(manager, seconds):
    """How many come in that time."""
    since = len(manager.messages)
    pause(seconds)
    return len(manager.find("WATCHDOG", since))


def test_signs_of_life_cease_while_no_worker_answers():
    """The admin process, which still does, is no worker."""
    config = {"workers": 2, "admin": {"listen": "127.0.0.1:0"}}
    env = {"WATCHDOG_USEC": "600000"}  # a look each 200 ms
    with Manager() as m, Server(config, env=m.environment(**env), errors=["no worker has answered"]) as s:
        m.wait("WATCHDOG", 2)
        one, other = s.workers()
        os.kill(one, signal.SIGSTOP)
        assert signs_of_life(m, 1.0) >= 2
        os.kill(other, signal.SIGSTOP)
        s.log.wait("no worker has answered for")
        assert signs_of_life(m, 1.0) == 0
        os.kill(one, signal.SIGCONT)
        m.wait("WATCHDOG", 3, since=len(m.messages))
        os.kill(other, signal.SIGCONT)
        assert s.get().status == 200


def test_the_manager_ends_a_server_whose_workers_stand_still():
    config = {"workers": 2, "listen": ["127.0.0.1:%d" % (20000 + os.getpid() % 10000)]}
    with RealManager(config, WatchdogSec="1") as m:
        m.ctl("start", m.unit)
        before = m.pid()
        for pid in proc.children(before):
            os.kill(pid, signal.SIGSTOP)
        m.wait_next(before)
        assert m.show("NRestarts") == "1"
        with Client(config["listen"][0]) as c:
            assert c.get("/").status == 200


def test_a_drain_asks_for_more_time():
    config = {"workers": 1, "routes": [{"path": "/", "handler": build.version_handler("v1")}]}
    with Manager() as m, Server(config, env=m.environment()) as s:
        m.wait("READY")
        with s.client() as c:
            c.send(get("/?n=2500"))
            c.expect_silence(0.2)
            since = len(m.messages)
            s.kill(signal.SIGTERM)
            assert int(m.wait("EXTEND_TIMEOUT_USEC", since=since)[0]["EXTEND_TIMEOUT_USEC"]) > 1000000
            assert c.receive().text == "v1"
        s.wait_exit()


def test_a_drain_may_take_longer_than_the_manager_waits():
    config = {"workers": 1, "listen": ["127.0.0.1:%d" % (20000 + os.getpid() % 10000)],
              "routes": [{"path": "/", "handler": build.version_handler("v1")}]}
    with RealManager(config, TimeoutStopSec="2") as m:
        m.ctl("start", m.unit)
        with Client(config["listen"][0]) as c:
            c.send(get("/?n=3000"))
            c.expect_silence(0.2)
            m.ctl("stop", m.unit)
            assert c.receive().text == "v1"
        assert m.show("Result") == "success"


def test_workers_and_commands_of_handlers_know_nothing_of_the_manager():
    """B34."""
    needs_root()
    env = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x", "WATCHDOG_USEC": "60000000",
           "WHITECAP_FDSTORE": "1"}
    config = {"workers": 2, "routes": [kit_route("/", "run", command="env")]}
    with Manager() as m, Server(config, env=m.environment(**env), fds=False) as s:
        m.wait("READY")
        for _ in range(3):
            s.reload()
            s.kill_worker(s.workers()[0])
        for pid in s.workers() + [s.pid]:
            with open("/proc/%d/environ" % pid, encoding="utf-8") as f:
                assert not any(name in f.read() for name in LEAK)
        text = s.get().text
        assert "PATH=" in text and not any(name in text for name in LEAK), text
        s.stop()
        assert m.senders() == {s.process.pid}


def listening(address):
    s = socket.socket(socket.AF_UNIX if address.startswith("/") else socket.AF_INET)
    s.bind(address if address.startswith("/") else (address, 0))
    s.listen(64)
    return s


def test_passed_sockets_are_used_and_kept():
    """B34."""
    with tempfile.TemporaryDirectory(prefix="whitecap-it-") as folder:
        path = os.path.join(folder, "socket")
        sockets = {"other": listening("127.0.0.1"), "web": listening("127.0.0.1"), "local": listening(path)}
        ports = {name: "127.0.0.1:%d" % s.getsockname()[1] for name, s in sockets.items() if name != "local"}
        config = {"workers": 2, "listen": ["fd:web", "fd:local", "127.0.0.1:0"],
                  "routes": [kit_route("/", "run", command="ls /proc/self/fd; env; cat /proc/$PPID/environ")]}
        with Activated(config, sockets) as s:
            assert s.addresses[:2] == [ports["web"], "unix:" + path], s.addresses
            for _ in range(3):
                s.reload()
            for address in s.addresses:
                with Client(address) as c:
                    text = c.get("/").text
                    assert "PATH=" in text and not any(name in text for name in LEAK), text
                    assert [line for line in text.split("\n") if line.isdigit()] == ["0", "1", "2", "3"], text
        assert os.path.exists(path)
        for one in sockets.values():
            one.close()


def test_sockets_for_another_process_are_left_alone():
    """B34."""
    with listening("127.0.0.1") as one:
        with Activated({"listen": ["fd:web"]}, {"web": one}, pid="1", wait_ready=False, exit_code=2,
                       errors=["no sockets were passed"]) as s:
            s.wait_exit()
            assert s.process.returncode == 2
            s.log.wait("no sockets were passed")


def test_systemctl_reload_fails_with_the_mistakes():
    with RealManager({}) as m:
        m.server.write_config(stats={"file": os.path.join(m.folder, "stats.json")})
        m.ctl("start", m.unit)
        before = m.pid()
        m.ctl("reload", m.unit)
        m.server.write_text("{broken")
        assert m.ctl("reload", m.unit, check=False).returncode != 0
        assert m.show("ActiveState") == "active" and m.pid() == before
        assert "Serving" in m.show("StatusText")
