# SPDX-License-Identifier: MIT
"""Service managers: one that notes what it is told, and a real one."""
import array
import fcntl
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time

from . import build, proc
from .build import Skip, needs_program, needs_root
from .server import Server


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


class RealManager:
    """
    A systemd of the user's own, with the unit as it is shipped but for the part of its sandbox
    that needs the system's.  It believes to be where systemd is the init: its /run/systemd is its own.
    """

    SCRIPT = """mkdir -p /run/systemd && mount -t tmpfs none /run/systemd && mkdir -p /run/systemd/system || exit 77
        exec /lib/systemd/systemd --user --unit=basic.target"""
    ABOVE = "User|RuntimeDirectory|LogsDirectory|AmbientCap|CapabilityBound|Private|Protect"

    def __init__(self, config, **unit):
        """unit: directives in the place of those shipped; empty: none."""
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
        self.write_unit(unit)
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

    def write_unit(self, changes):
        with open(os.path.join(build.build_dir(), "conf", "whitecap.service"), encoding="utf-8") as f:
            text = re.sub(r"\\\n\s*", "", f.read())
        text = re.sub(r"(?<==)\S+/whitecap(?= )", build.binary(), text)
        text = re.sub(r"(?<=-c )\S+/whitecap\.json", self.server.path, text)
        text = text.replace("systemctl list-jobs", "env XDG_RUNTIME_DIR=%s systemctl --user list-jobs" % self.folder)
        text = text.replace("ExecStop=+", "ExecStop=")
        text = text.replace("[Service]", "[Service]\nStandardError=append:%s/server" % self.folder)
        for name, value in build.sanitizer_options().items():  # the unit's filters allow no leak checker
            text = text.replace("[Service]", "[Service]\nEnvironment=%s=%s" % (name, value))
        text = re.sub(r"(?m)^(%s).*$" % "|".join([self.ABOVE, *changes]), "", text)
        text = text.replace("[Service]", "\n".join(["[Service]", *("%s=%s" % c for c in changes.items() if c[1])]))
        os.makedirs(os.path.join(self.folder, "config", "systemd", "user"))
        with open(os.path.join(self.folder, "config", "systemd", "user", self.unit), "w", encoding="utf-8") as f:
            f.write(text)

    def begin(self, *words):
        """The same without waiting for the end; that is the process's."""
        return subprocess.Popen(["systemctl", "--user", *words], env=self.env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ctl(self, *words, check=True):
        done = subprocess.run(["systemctl", "--user", *words], env=self.env, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60 * proc.scale())
        assert not check or done.returncode == 0, "systemctl %s: %s\n%s" % (" ".join(words), done.stdout, self.tail())
        return done

    def show(self, name):
        return self.ctl("show", "-P", name, self.unit).stdout.strip()

    def pid(self):
        return int(self.show("MainPID"))

    def wait_next(self, before):
        """Until another instance than that one serves."""
        proc.wait_until(lambda: self.show("ActiveState") == "active" and self.pid() not in (0, before), self.tail, 30)

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
