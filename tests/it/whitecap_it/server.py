# SPDX-License-Identifier: MIT
"""The real binary, started, watched and stopped; what it leaves behind is a failure."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from . import build, proc
from .client import Client

LISTENING = re.compile(r"listening on (\S+)")
SERVING = re.compile(r"serving: (\d+) workers?, generation (\d+)")
LINE = re.compile(r"^\S+Z \d+ (error|warn|info|debug) ")
SANITIZER = re.compile(r"AddressSanitizer|LeakSanitizer|UndefinedBehavior|runtime error:|Assertion .* failed")
CRASHES = [r" fault: ", r"worker \d+ \(\d+\): (SIG|hang)"]
DEFAULTS = {
    "workers": 1,
    "listen": ["127.0.0.1:0"],
    "admin": {"listen": None},
    "routes": [{"path": "/", "handler": "hello"}, {"path": "/echo", "handler": "echo"}],
}


def kit_route(path, do, **options):
    """A route to the test handler; `route_` options belong to the route itself."""
    route = {"path": path, "handler": build.kit(), "options": {"do": do}}
    for key, value in options.items():
        if key.startswith("route_"):
            route[key[6:]] = value
        else:
            route["options"][key] = value
    return route


def hello_and(*routes):
    return [{"path": "/", "handler": "hello"}, *routes]


class Log:
    """The server's log, read by a thread so that its pipe never fills."""

    def __init__(self, stream):
        self.lines = []
        self.stream = stream
        self.thread = threading.Thread(target=self.drain, daemon=True)
        self.thread.start()

    def drain(self):
        for line in self.stream:
            self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))

    def find(self, pattern, since=0):
        expression = re.compile(pattern)
        return [m for m in map(expression.search, self.lines[since:]) if m]

    def wait(self, pattern, count=1, since=0, seconds=10.0):
        """The count-th match of the pattern."""
        return proc.wait_until(lambda: len(self.find(pattern, since)) >= count and self.find(pattern, since),
                               lambda: "%d x /%s/ in the log:\n%s" % (count, pattern, self.tail()), seconds)[count - 1]

    def tail(self, count=30):
        return "\n".join(self.lines[-count:])


class Server:
    """
    with Server({"workers": 2}) as s: ...

    config: keys that replace the defaults above.  errors: patterns of error lines that the test
    provokes.  fds: False where the test changes what the master holds.  wrap: words put before the
    command (strace, setpriv).  crashes: the test makes processes of the server crash.
    """

    passed = ()  # descriptors that the command inherits

    def __init__(self, config=None, *, args=(), env=None, errors=(), fds=True, wrap=(), start=True,
                 exit_code=0, wait_ready=True,
                 binary=None, crashes=False):
        self.folder = tempfile.mkdtemp(prefix="whitecap-it-")
        os.chmod(self.folder, 0o755)
        self.path = os.path.join(self.folder, "whitecap.json")
        self.config = dict(DEFAULTS, handler_dir=build.handler_dir(), **{})
        self.config.update(config or {})
        self.args, self.env, self.errors = list(args), env, list(errors) + (CRASHES if crashes else [])
        self.check_fds, self.wrap, self.exit_code = fds, list(wrap), exit_code
        self.wait_ready, self.crashes = wait_ready, crashes
        self.binary = binary or build.binary()
        self.process = self.log = self.fds_at_start = None
        self.addresses = []
        self.write_config()
        if start:
            self.start()

    def write_config(self, **changes):
        """Writes the configuration, as a rename: a reader sees the old one or the new one."""
        self.config.update(changes)
        self.write_text(json.dumps({k: v for k, v in self.config.items() if v is not None}))

    def write_text(self, text):
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(self.path + ".new", self.path)

    def environment(self):
        return dict(os.environ, **build.sanitizer_options(self.crashes), **(self.env or {}))

    def start(self):
        command = self.wrap + [self.binary, "-c", self.path] + self.args
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, env=self.environment(), cwd=self.folder,
                                        pass_fds=self.passed, start_new_session=True)
        self.log = Log(self.process.stderr)
        if self.wait_ready:
            self.ready()

    def ready(self):
        proc.wait_until(lambda: self.log.find(SERVING.pattern) or self.process.poll() is not None,
                        "server ready", 20)
        if self.process.poll() is not None:
            self.log.thread.join(5)
            code = self.process.returncode
            self.cleanup()
            raise AssertionError("exit code %d at start:\n%s" % (code, self.log.tail()))
        self.addresses = [m.group(1) for m in self.log.find(LISTENING.pattern)]
        self.fds_at_start = self.settled_fds()

    def settled_fds(self):
        """The master's descriptors once the child that proved the handlers is gone for good."""
        count = int(self.log.find(SERVING.pattern)[-1].group(1))
        seen = []

        def look():
            seen.append(proc.fd_kinds(self.pid))
            children = proc.children(self.pid, zombies=True)
            return len([p for p in children if not self.is_admin(p)]) == count and len(seen) > 1 and seen[-1] == seen[-2]

        proc.wait_until(look, "the proving child gone")
        return seen[-1]

    @property
    def pid(self):
        """The master's."""
        if not self.wrap:
            return self.process.pid
        inner = [p for p in proc.tree(self.process.pid) if self.is_server(p)]
        return min(inner) if inner else self.process.pid

    @staticmethod
    def is_server(pid):
        try:
            return os.readlink("/proc/%d/exe" % pid) == os.path.realpath(build.binary())
        except OSError:
            return False

    @property
    def address(self):
        return self.addresses[0]

    @property
    def port(self):
        return int(self.address.rpartition(":")[2])

    def workers(self):
        return [p for p in proc.children(self.pid) if not self.is_admin(p)]

    @staticmethod
    def is_admin(pid):
        return proc.title(pid).startswith("whitecap: admin")

    def admin(self):
        """The admin process, once there is one."""
        return proc.wait_until(lambda: [p for p in proc.children(self.pid) if self.is_admin(p)], "admin process")[0]

    @property
    def worker(self):
        (one,) = self.workers()
        return one

    def generation(self):
        found = self.log.find(SERVING.pattern)
        return int(found[-1].group(2)) if found else 0

    def kill(self, number, pid=None):
        os.kill(pid or self.pid, number)

    def reload(self, seconds=15.0, **changes):
        """HUP, and waits until the next generation serves and the one before it has gone."""
        if changes:
            self.write_config(**changes)
        before, old = self.generation(), set(self.workers())
        self.kill(signal.SIGHUP)
        proc.wait_until(lambda: self.generation() > before,
                        lambda: "generation after %d:\n%s" % (before, self.log.tail()), seconds)
        proc.wait_until(lambda: not old & set(self.workers()), "old workers gone", seconds)

    def reload_refused(self, pattern, seconds=15.0):
        """HUP with something broken: waits for the line that says what."""
        since = len(self.log.lines)
        self.errors.append(pattern)
        self.kill(signal.SIGHUP)
        self.log.wait(pattern, since=since, seconds=seconds)

    def client(self, **options):
        return Client(self.address, **options)

    def get(self, target="/", **options):
        """One request on a connection of its own."""
        with self.client(**options) as c:
            return c.get(target)

    def kill_worker(self, pid, number=signal.SIGKILL):
        """Kills a worker and waits until another serves in its place."""
        since, count = len(self.log.lines), len(self.workers())
        self.expect_end(pid)
        os.kill(pid, number)
        proc.wait_until(lambda: pid not in self.workers() and len(self.workers()) == count,
                        "worker %d replaced" % pid)
        self.wait_set_up()
        return since

    def wait_set_up(self):
        """Until every worker has what it was forked with behind it: a loop of its own, its rights."""
        def is_set_up(pid):
            targets = proc.fd_targets(pid).values()
            return any("eventpoll" in t for t in targets) and not any("scoreboard" in t for t in targets)

        proc.wait_until(lambda: all(map(is_set_up, self.workers())), "workers set up")

    def expect_end(self, pid):
        """The log may say at level error how this worker ended."""
        self.errors.append(r"\(%d\) ended" % pid)

    def stop(self, number=signal.SIGTERM, seconds=15.0):
        """The signal, the exit code, and the state of things left behind."""
        assert self.process.poll() is None, "the master has ended with %d:\n%s" % (
            self.process.returncode, self.log.tail())
        self.check_before_stop()
        self.kill(number)
        self.wait_exit(seconds)
        assert self.process.returncode == self.exit_code, "exit code %d:\n%s" % (
            self.process.returncode, self.log.tail())

    def check_before_stop(self):
        proc.wait_until(lambda: all(proc.state(p) != "Z" for p in proc.children(self.pid, zombies=True)),
                        "no zombie among the master's children")
        if self.check_fds and self.fds_at_start is not None:
            try:
                proc.wait_until(lambda: proc.fd_kinds(self.pid) == self.fds_at_start, "fds as at start", 5)
            except proc.Timeout:
                raise AssertionError("the master's fds: at start %s, now %s" % (
                    dict(self.fds_at_start), dict(proc.fd_kinds(self.pid)))) from None

    def wait_exit(self, seconds=15.0):
        """The master's exit code.  No process of the server may be left after it."""
        try:
            self.process.wait(seconds * proc.scale())
        except subprocess.TimeoutExpired:
            raise proc.Timeout("the master is still there after %.1f s:\n%s" % (seconds, self.log.tail())) from None
        return self.process.returncode

    def check_log(self):
        self.log.thread.join(5)
        for line in self.log.lines:
            expected = any(re.search(e, line) for e in self.errors)
            assert expected or not SANITIZER.search(line), "in the log: %s\n%s" % (line, self.log.tail())
            if LINE.match(line) and LINE.match(line).group(1) == "error":
                assert expected, "unexpected: %s" % line

    def cleanup(self):
        if self.process and self.process.poll() is None:
            for pid in proc.tree(self.process.pid)[1:]:
                proc.kill_quietly(pid)
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        try:
            if kind is None:
                if self.process and self.process.poll() is None:
                    self.stop()
                if self.log:
                    self.check_log()
            elif self.log and os.environ.get("WHITECAP_IT_VERBOSE"):
                print(self.log.tail())
            elif self.log: # what may explain it, without registers and frames
                print("\n".join([line for line in self.log.lines if re.search(r" (warn|error) (?!.*fault: (#|rip=))", line)][-40:]))
        finally:
            self.cleanup()


def run(args, config=None, text=None, seconds=20.0, wrap=()):
    """Runs the binary to its end, crashes of its children and all.  `{config}` in args stands for a file with config or text."""
    with tempfile.TemporaryDirectory(prefix="whitecap-it-") as folder:
        path = os.path.join(folder, "whitecap.json")
        if text is not None or config is not None:
            with open(path, "wb") as f:
                f.write(text if isinstance(text, bytes) else
                        (text if text is not None else json.dumps(config)).encode("utf-8"))
        words = [a.replace("{config}", path) for a in args]
        start = time.monotonic()
        done = subprocess.run([*wrap, build.binary(), *words], stdin=subprocess.DEVNULL, text=True, cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace",
                              timeout=seconds * proc.scale(),
                              env=dict(os.environ, **build.sanitizer_options(crashes=True)))
        done.seconds = time.monotonic() - start
        done.stderr = done.stderr.replace(path, "{config}")
        assert not SANITIZER.search(done.stderr), done.stderr
        return done
