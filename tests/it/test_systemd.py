# SPDX-License-Identifier: MIT
"""What a service manager sees of the server, and what its variables do to it."""
import array
import fcntl
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

from move_client import Crowd
from whitecap_it import Client, Server, Skip, build, get, kit_route, needs_program, needs_root, proc

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


class RealManager:
    """
    A systemd of the user's own, with the unit as it is shipped but for the part of its sandbox
    that needs the system's.  It believes to be where systemd is the init: its /run/systemd is its own.
    """

    SCRIPT = """mkdir -p /run/systemd && mount -t tmpfs none /run/systemd && mkdir -p /run/systemd/system || exit 77
        exec /lib/systemd/systemd --user --unit=basic.target"""
    ABOVE = "User|RuntimeDirectory|LogsDirectory|AmbientCap|CapabilityBound|Private|Protect"

    def __init__(self, config):
        for name in ("unshare", "systemctl"):
            needs_program(name)
        if not os.path.exists("/lib/systemd/systemd"):
            raise Skip("needs systemd")
        needs_root()
        self.folder = tempfile.mkdtemp(prefix="whitecap-it-")
        self.server = Server(config, start=False)
        # Managers side by side have one tree of control groups: the unit is theirs by its name.
        self.unit = "whitecap-%d.service" % os.getpid()
        self.env = dict(os.environ, XDG_RUNTIME_DIR=self.folder, XDG_CONFIG_HOME=self.folder + "/config",
                        HOME=self.folder,
                        SYSTEMD_LOG_TARGET="console")
        for name in ("DBUS_SESSION_BUS_ADDRESS", "NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS"):
            self.env.pop(name, None)
        self.write_unit()
        self.log = open(os.path.join(self.folder, "log"), "wb")
        self.process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", self.SCRIPT],
                                        env=self.env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            proc.wait_until(lambda: self.process.poll() is not None or self.is_running(), self.tail, 15)
            if self.process.poll() is not None:
                raise Skip("systemd --user does not run here: " + self.tail()[-200:])
        except BaseException:
            self.close()
            raise

    def is_running(self):
        return self.ctl("show", "-P", "SystemState", check=False).stdout.strip() in ("running", "degraded")

    def tail(self):
        """Of the logs of systemd and of the server."""
        text = ""
        for name in (self.log.name, os.path.join(self.folder, "server")):
            if os.path.exists(name):
                with open(name, encoding="utf-8", errors="replace") as f:
                    text += f.read()[-3000:]
        return text

    def write_unit(self):
        with open(os.path.join(build.build_dir(), "conf", "whitecap.service"), encoding="utf-8") as f:
            text = re.sub(r"\\\n\s*", "", f.read())
        text = re.sub(r"(?<==)\S+/whitecap(?= )", build.binary(), text)
        text = re.sub(r"(?<=-c )\S+/whitecap\.json", self.server.path, text)
        text = text.replace("systemctl list-jobs", "env XDG_RUNTIME_DIR=%s systemctl --user list-jobs" % self.folder)
        text = text.replace("ExecStop=+", "ExecStop=")
        text = text.replace("[Service]", "[Service]\nStandardError=append:%s/server" % self.folder)
        for name, value in build.sanitizer_options().items():  # the unit's filters allow no leak checker
            text = text.replace("[Service]", "[Service]\nEnvironment=%s=%s" % (name, value))
        text = re.sub(r"(?m)^(%s).*$" % self.ABOVE, "", text)
        os.makedirs(os.path.join(self.folder, "config", "systemd", "user"))
        with open(os.path.join(self.folder, "config", "systemd", "user", self.unit), "w", encoding="utf-8") as f:
            f.write(text)

    def ctl(self, *words, check=True):
        done = subprocess.run(["systemctl", "--user", *words], env=self.env, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60 * proc.scale())
        assert not check or done.returncode == 0, "systemctl %s: %s\n%s" % (" ".join(words), done.stdout, self.tail())
        return done

    def show(self, name):
        return self.ctl("show", "-P", name, self.unit).stdout.strip()

    def pid(self):
        return int(self.show("MainPID"))

    def close(self):
        if self.process.poll() is None:
            self.ctl("stop", self.unit, check=False)
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.server.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None and os.environ.get("WHITECAP_IT_VERBOSE"):
            print(self.tail())
        self.close()


def stored_config(**more):
    """A port that no client is given by the kernel."""
    return dict({"workers": 2, "listen": ["127.0.0.1:%d" % (20000 + os.getpid() % 10000)],
                 "routes": [{"path": "/*", "handler": build.move_handler("v1")}],
                 "timeouts": {"request": "120s", "send": "120s", "drain": "20s"}}, **more)


def crowd_of(manager, idle=1000, busy=64):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    return Crowd(manager.server.config["listen"][0], idle=idle, busy=busy)


def wait_next(manager, before):
    proc.wait_until(lambda: manager.show("ActiveState") == "active" and manager.pid() not in (0, before),
                    manager.tail, 30)


def test_no_restart_closes_a_connection():
    with RealManager(stored_config()) as m:
        m.ctl("start", m.unit)
        with crowd_of(m) as crowd:
            for _ in range(2):
                before = m.pid()
                m.ctl("restart", m.unit)
                assert m.pid() != before
            assert int(m.show("NFileDescriptorStore")) == 3
            crowd.finish().check()


def test_no_killed_master_closes_a_connection():
    with RealManager(stored_config()) as m:
        m.ctl("start", m.unit)
        with crowd_of(m) as crowd:
            before = m.pid()
            os.kill(before, signal.SIGKILL)
            wait_next(m, before)
            crowd.finish().check()


def test_a_stop_closes_politely():
    """What is in progress is answered, and its client told; a restart would not close it."""
    config = stored_config()
    config["routes"] = [{"path": "/slow", "handler": build.version_handler("v1")},
                        {"path": "/*", "handler": build.move_handler("v1")}]
    with RealManager(config) as m:
        m.ctl("start", m.unit)
        with crowd_of(m, idle=100, busy=0) as crowd, Client(config["listen"][0]) as slow:
            crowd.closing_allowed = True
            slow.send(get("/slow?n=1500"))
            slow.expect_silence(0.2)
            m.ctl("stop", m.unit)
            assert slow.receive().closes
            slow.expect_closed()
            report = crowd.finish()
            assert report.closed == 100 and not report.trouble, report.trouble
        proc.wait_until(lambda: m.show("ActiveState") == "inactive" and m.show("NFileDescriptorStore") == "0",
                        lambda: "%s, %s descriptors" % (m.show("ActiveState"), m.show("NFileDescriptorStore")))


def test_systemctl_reload_fails_with_the_mistakes():
    with RealManager(stored_config()) as m:
        m.server.write_config(stats={"file": os.path.join(m.folder, "stats.json")})
        m.ctl("start", m.unit)
        before = m.pid()
        m.ctl("reload", m.unit)
        m.server.write_text("{broken")
        assert m.ctl("reload", m.unit, check=False).returncode != 0
        assert m.show("ActiveState") == "active" and m.pid() == before
        assert "Serving" in m.show("StatusText")
