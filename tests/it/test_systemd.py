# SPDX-License-Identifier: MIT
"""What a service manager sees of the server, and what its variables do to it."""
import array
import fcntl
import os
import signal
import socket
import struct
import tempfile
import threading
import time

from whitecap_it import Client, Server, build, get, kit_route, proc

LEAK = ("NOTIFY_SOCKET", "LISTEN_", "WATCHDOG_", "FDSTORE")


class Manager:
    """A notify socket that notes each message with its time and the sender, and keeps what is stored."""

    def __init__(self, abstract=False):
        self.folder = tempfile.TemporaryDirectory(prefix="whitecap-it-")
        self.name = ("@whitecap-it-%d" % os.getpid()) if abstract else os.path.join(self.folder.name, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(self.name.replace("@", "\0", 1) if abstract else self.name)
        self.messages = []   # (fields, pid, microseconds on CLOCK_MONOTONIC)
        self.stored = {}     # name: descriptors
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while True:
            room = socket.CMSG_SPACE(12) + socket.CMSG_SPACE(4 * 253)
            data, extra, _, _ = self.socket.recvmsg(8192, room)
            now, pid, fds = time.monotonic_ns() // 1000, 0, array.array("i")
            for _, kind, value in extra:
                if kind == socket.SCM_CREDENTIALS:
                    pid = struct.unpack("3i", value)[0]
                elif kind == socket.SCM_RIGHTS:
                    fds.frombytes(value)
            if data == b"end":
                return
            fields = dict(line.split("=", 1) for line in data.decode().split("\n"))
            self.store(fields, list(fds))
            self.messages.append((fields, pid, now))

    def store(self, fields, fds):
        name = fields.get("FDNAME")
        if "FDSTORE" in fields:
            self.stored.setdefault(name, []).extend(fds)
            return
        if "FDSTOREREMOVE" in fields:
            fds += self.stored.pop(name, [])
        for fd in fds:
            os.close(fd)

    def environment(self, **more):
        return dict({"NOTIFY_SOCKET": self.name}, **more)

    def find(self, key, since=0):
        return [m for m in self.messages[since:] if key in m[0]]

    def wait(self, key, count=1, since=0, seconds=10.0):
        return proc.wait_until(lambda: len(self.find(key, since)) >= count and self.find(key, since)[count - 1],
                               lambda: "%d x %s in %s" % (count, key, [m[0] for m in self.messages]), seconds)

    def senders(self):
        return {pid for _, pid, _ in self.messages}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(b"end", self.socket.getsockname())
        self.thread.join()
        self.socket.close()
        for fd in sum(self.stored.values(), []):
            os.close(fd)
        self.folder.cleanup()


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


def test_signs_of_life_come_in_time():
    env = {"WATCHDOG_USEC": "300000"}
    with Manager() as m, Server({"workers": 1}, env=m.environment(**env)):
        m.wait("WATCHDOG", 4)
        gaps = [b[2] - a[2] for a, b in zip(m.find("WATCHDOG"), m.find("WATCHDOG")[1:])]
        assert min(gaps) < 300000, gaps
    with Manager() as m, Server({"workers": 1}, env=m.environment(WATCHDOG_PID="1", **env)):
        m.wait("READY")
        m.wait("STATUS", 2)
        assert not m.find("WATCHDOG")


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


def test_workers_and_commands_of_handlers_know_nothing_of_the_manager():
    """B34."""
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


class Activated(Server):
    """A server to which listening sockets are passed, as a manager does it: named, from descriptor 3 on."""

    SCRIPT = 'exec %s; LISTEN_PID=%s LISTEN_FDS=%d LISTEN_FDNAMES=%s exec "$@"'

    def __init__(self, config, sockets, pid="$$", **options):
        copies = [fcntl.fcntl(s, fcntl.F_DUPFD, 100) for s in sockets.values()]
        self.passed = copies
        moves = " ".join("%d<&%d %d<&-" % (3 + i, fd, fd) for i, fd in enumerate(copies))
        script = self.SCRIPT % (moves, pid, len(sockets), ":".join(sockets))
        super().__init__(config, wrap=["bash", "-c", script, "bash"], fds=False, **options)

    @property
    def pid(self):
        return self.process.pid


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
