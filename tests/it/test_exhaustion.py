# SPDX-License-Identifier: MIT
"""
No memory, no descriptors, no room: every allocation and every system call that may fail does so once, while requests of
every kind are on their way.  WHITECAP_ENOMEM_EVERY: every how many allocations one is made to fail, 1 for all.
"""
import ctypes
import json
import os
import resource
import signal
import subprocess
import tempfile

from crashes import stats
from whitecap_it import Server, Skip, build, get, kit_route, needs_program, needs_root, post, proc, request
from whitecap_it.trace import Failures, Strace

EVERY = int(os.environ.get("WHITECAP_ENOMEM_EVERY", "9"))
MAY_BE_LOGGED = ["emory", "no room to watch", "reload failed", "ended", "cannot be started", "accept", "init", "cannot load"]
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
ROUTES = [{"path": "/", "handler": "hello"}, {"path": "/echo", "handler": "echo"}]


def routes():
    return [*ROUTES, kit_route("/later", "later", n=5), {"path": "/big", "handler": build.move_handler()},
            kit_route("/copy", "copy", n=20000), kit_route("/alloc", "alloc", n=10)]


# What is sent in which pieces, and how many answers are due.
EXCHANGES = [([get()], 1), ([post("/echo", b"body")], 1), ([CHUNKED + b"4\r\nbo", b"dy\r\n0\r\n\r\n"], 1),
             ([get() * 20], 20), ([get("/later") + get() + get("/later")], 3), ([get("/big?1") + get()], 2),
             ([post("/echo", b"b" * 200000)[:30], post("/echo", b"b" * 200000)[30:90000],
               post("/echo", b"b" * 200000)[90000:]], 1),
             ([get("/copy") + get("/alloc") + get()], 3), ([get()[:20], get()[20:] + get()[:9], get()[9:]], 2),
             ([request("POST", "/echo", b"", [("Expect", "100-continue")])], 1)]


class Failing(Server):
    """A server whose allocations fail when told."""

    def __init__(self, config=None, **options):
        self.failures = Failures()
        super().__init__({"routes": routes(), "timeouts": {"handler": "20s", "start": "20s"}, **(config or {})},
                         env=self.failures.env, errors=MAY_BE_LOGGED, crashes=True, **options)

    def environment(self):
        """A sanitizer must bear that its allocator is behind another one."""
        env = super().environment()
        env["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
        return env


def converse(s):
    """All exchanges at once; each request is answered, or its connection is closed.  How many answers were 200."""
    clients, fine = [], 0
    for pieces, due in EXCHANGES:
        clients.append((s.client(), pieces, due))
    for n in range(3):
        for c, pieces, _ in clients:
            try:
                if n < len(pieces):
                    c.send(pieces[n])
            except OSError:
                pass  # closed already
    for c, pieces, due in clients:
        fine += count_answers(c, due, pieces[0][:40])
        c.close()
    return fine


def count_answers(c, due, what):
    fine = 0
    for _ in range(due):
        try:
            r = c.receive(interim=True)
            if r.status == 100:
                r = c.receive()
        except proc.Timeout as e:
            raise AssertionError("neither answered nor closed: %r: %s" % (what, e)) from None
        except (AssertionError, OSError):
            break  # closed
        assert r.status in (200, 500, 503), (what, r)
        fine += r.status == 200
    return fine


ALL_FINE = sum(due for _, due in EXCHANGES)


def serves(s):
    with s.client() as c:
        assert c.get().status == 200
        assert c.get("/later").status == 200


def every_failure(s, arm, act, more=0, first=1, step=EVERY):
    """act() with the nth allocation failing, for ever greater n, until it is done before that.  How many have failed."""
    nth, count = first, 0
    while True:
        arm(nth, more)
        try:
            act()
        finally:
            failed = s.failures.disarm()
        try:
            serves(s)
        except (AssertionError, OSError) as e:
            raise AssertionError("after allocation %d failed: %s\n%s" % (nth, e, s.log.tail())) from e
        if not failed:
            return count
        count += 1
        nth += step


def settle(s):
    """One worker, fresh, which has set up all it has at start."""
    s.reload()
    s.wait_set_up()


def test_no_memory_in_a_worker():
    """Each allocation of a fresh worker under requests of every kind: none hangs, and what comes after is served."""
    with Failing() as s:
        settle(s)
        fds = proc.fd_kinds(s.worker)
        for more in (0, 5):
            def act():
                converse(s)

            def arm(nth, more):
                settle(s)
                s.failures.arm(nth, pid=s.worker, more=more)

            count = every_failure(s, arm, act, more)
            assert count >= 2, count
            print("%d allocations failed, %d more behind each" % (count, more))
        settle(s)
        assert converse(s) == ALL_FINE
        proc.wait_until(lambda: proc.fd_kinds(s.worker) == fds, lambda: "fds %s, now %s" % (fds, proc.fd_kinds(s.worker)))


def reload_somehow(s):
    """HUP, and waits until it is done or refused."""
    since = len(s.log.lines)
    s.kill(signal.SIGHUP)
    s.log.wait(r"reload done|reload failed", since=since, seconds=30)


def test_no_memory_in_what_a_reload_starts():
    """In the child that proves the handlers, and in workers until they are ready: the reload fails, or works all the same."""
    with Failing() as s:
        every_failure(s, lambda nth, more: s.failures.arm(nth, children_of=s.pid, more=more), lambda: reload_somehow(s))
        s.reload()
        assert converse(s) == ALL_FINE


def test_no_memory_in_the_master_during_a_reload():
    """The reload fails, or works; the master stays, and the next reload works."""
    with Failing({"stats": {"file": "stats.json"}}) as s:
        every_failure(s, lambda nth, more: s.failures.arm(nth, pid=s.pid, more=more), lambda: reload_somehow(s))
        s.reload()
        assert converse(s) == ALL_FINE


def test_no_memory_while_the_configuration_is_loaded():
    """Ends with a message and an exit code, or works; never with a signal."""
    with Failing() as s:
        s.write_config(routes=[*ROUTES, {"path": "/b", "handler": "hello", "methods": ["GET", "POST"]}],
                       trusted_proxies=["10.0.0.0/8"],
                       listen=["127.0.0.1:0", {"address": "unix:" + s.folder + "/s", "mode": "0600"}])
        nth, count, refused = 1, 0, 0
        while True:
            s.failures.arm(nth, children_of=os.getpid())
            done = subprocess.run([build.binary(), "-c", s.path, "-t"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env=s.environment(), timeout=30 * proc.scale())
            if not s.failures.disarm():
                assert done.returncode == 0, (done.returncode, done.stderr)
                break
            count += 1
            assert done.returncode >= 0, (nth, done.returncode, done.stderr)
            if done.returncode:
                refused += 1
                assert done.returncode in (1, 2) and done.stderr.strip(), (nth, done.returncode, done.stderr)
            nth += EVERY
        assert refused > 5, (count, refused)
        serves(s)


# What the kernel may say no to in a worker, and the requests that are on their way then.
WORKER_CALLS = [("accept4", "EMFILE"), ("accept4", "ENFILE"), ("accept4", "ENOBUFS"), ("accept4", "ENOMEM"),
                ("accept4", "ECONNABORTED"), ("recvfrom,recvmsg", "ENOMEM"), ("recvfrom,recvmsg", "ENOBUFS"),
                ("sendto,sendmsg,writev", "ENOBUFS"), ("sendto,sendmsg,writev", "ENOMEM"), ("epoll_ctl", "ENOMEM"),
                ("epoll_ctl", "ENOSPC"), ("mmap,mprotect", "ENOMEM"), ("epoll_wait,epoll_pwait", "EINTR")]


def possible(calls):
    """A sanitizer can't do without memory of its own."""
    return [c for c in calls if not (build.sanitized() and c[0].startswith("mmap"))]


def check_worker_call(s, call, error, when):
    """Half of the calls fail for a while; each client has its answer or is closed, and what comes after is served."""
    before = s.worker
    with Strace(before, call, inject="error=%s:when=%s" % (error, when)) as trace:
        converse(s)
    assert any("(INJECTED)" in line for line in trace.lines) or call.startswith("mmap"), (call, error, trace.lines[:5])
    serves(s)
    assert s.worker == before, "the worker was replaced after %s: %s" % (call, error)


def test_kernel_without_room_in_a_worker():
    """No answer is late for ever, nothing leaks, and what failed is counted."""
    needs_program("strace")
    with Failing({"stats": {"file": "stats.json"}}) as s:
        settle(s)
        fds = proc.fd_kinds(s.worker)
        for call, error in possible(WORKER_CALLS):
            # Where it sleeps no call may be failing when strace goes: the kernel would answer ENOSYS.
            usual = ("1+2", "2+3") if EVERY == 1 else ("1+2",)
            for when in ("1..19+2",) if call.startswith("epoll_wait") else usual:
                check_worker_call(s, call, error, when)
        proc.wait_until(lambda: proc.fd_kinds(s.worker) == fds, lambda: "fds %s, now %s" % (fds, proc.fd_kinds(s.worker)))
        assert converse(s) == ALL_FINE
        total = stats(s)["total"]
        assert total["accept_error"] >= 4 and total["send_error"] >= 2, total
        assert total["connections"]["active"] <= 1, total


MASTER_CALLS = [("clone,clone3,fork,vfork", "EAGAIN"), ("socketpair", "EMFILE"), ("memfd_create", "EMFILE"),
                ("openat", "EMFILE"), ("sendmsg", "ENOBUFS"), ("mmap", "ENOMEM"), ("epoll_ctl", "ENOSPC"),
                ("fcntl", "ENOMEM"), ("sendfile,copy_file_range,read,pread64", "EIO")]


def test_kernel_without_room_in_the_master():
    """One call after the other fails while the master reloads: it is done or refused, and the next one is done."""
    needs_program("strace")
    with Failing({"timeouts": {"drain": "2s"}}) as s:  # for a worker that can't watch for signals
        for call, error in possible(MASTER_CALLS):
            # Not libev's own descriptor for signals, which comes later: see loop.h.
            for when in range(1, 9 if EVERY == 1 and call != "epoll_ctl" else 2):
                with Strace(s.pid, call, inject="error=%s:when=%d" % (error, when)) as trace:
                    reload_somehow(s)
                if not any("(INJECTED)" in line for line in trace.lines):
                    break
                serves(s)
                s.reload()


def test_no_room_in_epoll_while_the_master_starts():
    """Its first descriptors, that of signals among them, can't be watched: once there is room it serves and hears signals."""
    program = needs_program("strace")
    for last in range(1, 7):
        with tempfile.NamedTemporaryFile(prefix="whitecap-it-", suffix=".strace") as out:
            wrap = [program, "-D", "-o", out.name, "-e", "trace=epoll_ctl",
                    "-e", "inject=epoll_ctl:error=ENOSPC:when=1..%d" % last]
            with Server({"routes": routes()}, wrap=wrap, errors=MAY_BE_LOGGED, fds=False) as s:
                serves(s)
                s.reload()
                serves(s)
            failed = [line for line in out.read().decode().splitlines() if "(INJECTED)" in line]
            assert len(failed) == last, failed


def mount_small(folder):
    """256 KiB of its own at the folder, for this process and what it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) or \
       libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, b"size=256k,mode=755"):
        raise Skip("needs the right to mount: %s" % os.strerror(ctypes.get_errno()))


def fill(folder):
    """Until not an octet fits any more."""
    with open(os.path.join(folder, "filler"), "ab", buffering=0) as f:
        try:
            while True:
                f.write(bytes(512))
        except OSError:
            pass
    return f.name


def ask_many(s, count=100):
    with s.client() as c:
        for _ in range(count):
            assert c.get().status == 200


def read_json(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def check_full_disk(s, folder):
    """Every request is answered, workers are replaced, a reload works, and the log goes on once there is room."""
    log = os.path.join(folder, "access.log")
    ask_many(s)
    filler = fill(folder)
    size = os.path.getsize(log)
    ask_many(s, 300)
    s.kill_worker(s.worker)
    ask_many(s)
    s.kill(signal.SIGHUP)
    s.log.wait("reload (done|failed)")
    ask_many(s)
    os.remove(filler)
    proc.wait_until(lambda: read_json(folder + "/stats.json")["total"]["log_dropped"] > 0, "dropped lines counted")
    proc.wait_until(lambda: ask_many(s) or os.path.getsize(log) > size, "the log goes on")
    os.rename(log, log + ".1")
    s.kill(signal.SIGUSR1)
    proc.wait_until(lambda: os.path.exists(log), "reopened")
    proc.wait_until(lambda: ask_many(s) or os.path.getsize(log) > 0, "the new log is written")


def test_full_disk_stops_nobody():
    """B29: logs, statistics and pid file on a file system with no room left; then files that may not grow."""
    needs_root()
    with tempfile.TemporaryDirectory(prefix="whitecap-it-") as folder:
        mount_small(folder)
        config = {"access_log": {"path": folder + "/access.log"}, "pidfile": folder + "/pid",
                  "stats": {"file": folder + "/stats.json", "interval": "100ms"}}
        with Server(config, errors=["No space left"], fds=False) as s:
            check_full_disk(s, folder)
        subprocess.run(["umount", folder], check=True)
        with Server({"access_log": {"path": folder + "/access.log"}}) as s:
            before = s.worker
            subprocess.run([needs_program("prlimit"), "--pid", str(before), "--fsize=20000"], check=True)
            ask_many(s, 400)
            assert os.path.getsize(folder + "/access.log") <= 20000
            assert s.worker == before, "ended by SIGXFSZ"


def test_no_more_processes():
    """RLIMIT_NPROC of the user is reached: those that are there serve, a reload is refused; then all is as before."""
    needs_root()
    wrap = [needs_program("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
    with Server({"workers": 2}, wrap=wrap, start=False, errors=["cannot be started"]) as s:
        os.chown(s.folder, 65534, 65534)
        s.start()
        hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        limit = [*wrap, needs_program("prlimit"), "--pid", str(s.pid)]
        subprocess.run([*limit, "--nproc=1:"], check=True)
        ended = s.workers()[0]
        s.expect_end(ended)
        os.kill(ended, signal.SIGKILL)
        s.log.wait("worker . cannot be started: fork", count=2)
        s.reload_refused("reload failed: .*cannot be started: fork")
        assert len(s.workers()) == 1 and s.get().status == 200
        subprocess.run([*limit, "--nproc=%s:" % ("unlimited" if hard < 0 else hard)], check=True)
        proc.wait_until(lambda: len(s.workers()) == 2, "two workers again", 20)
        s.reload()
