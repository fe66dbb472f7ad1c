# SPDX-License-Identifier: MIT
"""Master and workers: start, deaths and replacements, signals, the master's death, descriptors."""
import collections
import ctypes
import os
import random
import signal
import subprocess
import threading
import time

from whitecap_it import (Server, build, get, hello_and, kit_route, needs_plain, needs_program, pause, proc,
                         refused, run)
from whitecap_it.trace import Strace


def test_ready_means_serving_with_all_workers():
    with Server({"workers": 4}) as s:
        assert len(s.workers()) == 4
        (line,) = s.log.find(r"serving: (\d+) workers?, generation (\d+)")
        assert line.groups() == ("4", "1"), line
        assert s.get().status == 200


def test_killed_workers_are_replaced_and_their_deaths_logged():
    with Server({"workers": 3}, crashes=True) as s:
        for number, name in ((signal.SIGKILL, "SIGKILL"), (signal.SIGSEGV, "SIGSEGV"), (signal.SIGABRT, "SIGABRT")):
            pid = s.workers()[0]
            s.errors.append(r"\(%d\): %s" % (pid, name))
            since = s.kill_worker(pid, number)
            s.log.wait(r"%d.*%s" % (pid, name), since=since)
            assert s.get().status == 200


def test_first_replacement_comes_at_once():
    with Server({"workers": 1}) as s:
        pid = s.worker
        s.expect_end(pid)
        start = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        with s.client() as c:
            assert c.get().status == 200
        assert time.monotonic() - start < 0.5 * proc.scale()


def kill_master(s):
    workers = s.workers()
    s.process.kill()
    s.process.wait()
    return workers


def test_idle_workers_go_at_once_when_the_master_is_killed():
    with Server({"workers": 4}) as s:
        idle = s.client()
        idle.get()
        workers = kill_master(s)
        start = time.monotonic()
        proc.wait_until(lambda: proc.gone(workers), "workers gone", 3)
        assert time.monotonic() - start < 2 * proc.scale()
        idle.expect_closed()
        assert refused(s.address)


def test_busy_workers_finish_when_the_master_is_killed():
    with Server({"workers": 2, "routes": hello_and(kit_route("/later", "later", n=600))}) as s:
        clients = [s.client() for _ in range(8)]
        for c in clients:
            c.send(get("/later"))
        clients[0].expect_silence(0.1)
        workers = kill_master(s)
        for c in clients:
            r = c.receive()
            assert r.text == "later" and r.closes, r
        proc.wait_until(lambda: proc.gone(workers), "workers gone", 3)


def test_workers_ignore_signals_meant_for_the_master():
    """B08."""
    with Server({"workers": 2}) as s:
        workers = s.workers()
        with s.client() as c:
            c.get()
            for pid in workers:
                for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTTIN,
                               signal.SIGTTOU, signal.SIGPIPE):
                    os.kill(pid, number)
            c.expect_silence(0.2)
            assert c.get().status == 200
        assert s.workers() == workers


def test_terminated_worker_drains_and_is_replaced():
    with Server({"workers": 2, "routes": hello_and(kit_route("/later", "later", n=500), kit_route("/who", "who"))},
                errors=["ended"]) as s:
        busy = s.client()
        pid = int(busy.get("/who").text.split()[1])
        busy.send(get("/later"))
        busy.expect_silence(0.1)
        os.kill(pid, signal.SIGTERM)
        r = busy.receive()
        assert r.text == "later", r
        if not r.closes:
            assert busy.get().status == 200
        proc.wait_until(lambda: len(s.workers()) == 2 and pid not in s.workers(), "replaced")


def test_term_at_any_moment_of_the_start_leaves_nothing():
    """B06: TERM after a random 0-60 ms."""
    rng = random.Random(6)
    with Server({"workers": 3}, start=False, wait_ready=False) as s:
        for i in range(60):
            s.start()
            pause(rng.uniform(0, 0.06 * proc.scale()))
            s.process.terminate()
            code = s.wait_exit(10)
            # Before main the default action ends it: nothing was started yet.
            assert code in (0, -signal.SIGTERM), "run %d: exit code %d:\n%s" % (i, code, s.log.tail())
            assert code == 0 or not s.log.lines, s.log.tail()
            assert not proc.children(os.getpid()), "survivors in run %d" % i


def test_term_between_fork_and_handlers_leaves_nothing():
    """B06: the window made wide by strace."""
    needs_plain()
    strace = needs_program("strace")
    rng = random.Random(16)
    wrap = [strace, "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=rt_sigaction,rt_sigprocmask",
            "-e", "inject=rt_sigaction,rt_sigprocmask:delay_enter=20000"]
    with Server({"workers": 2}, start=False, wait_ready=False, wrap=wrap) as s:
        for i in range(6):
            s.start()
            proc.wait_until(lambda: Server.is_server(s.process.pid), "exec done")
            pause(rng.uniform(0.05, 0.6))
            s.process.terminate()
            code = s.wait_exit(15)
            assert code in (0, -signal.SIGTERM), "run %d: %d\n%s" % (i, code, s.log.tail())
            proc.wait_until(lambda: not proc.children(os.getpid()), "no survivor in run %d" % i)


def test_hup_at_any_moment_of_the_start_does_no_harm():
    """B06."""
    rng = random.Random(7)
    with Server({"workers": 2}, start=False, wait_ready=False) as s:
        for i in range(25):
            s.start()
            proc.wait_until(lambda: Server.is_server(s.process.pid), "exec done")
            pause(rng.uniform(0, 0.06 * proc.scale()))
            s.process.send_signal(signal.SIGHUP)
            proc.wait_until(lambda: s.log.find("serving") or s.process.poll() is not None, "serving")
            if s.process.poll() == -signal.SIGHUP and not s.log.lines:
                continue
            assert s.process.poll() is None, "run %d: ended with %s\n%s" % (i, s.process.returncode, s.log.tail())
            s.process.terminate()
            assert s.wait_exit(10) == 0, s.log.tail()


def kill_all_workers(s):
    """At once, and waits for as many anew; back-off never keeps the last one from coming."""
    pids = s.workers()
    for pid in pids:
        s.expect_end(pid)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    proc.wait_until(lambda: len(s.workers()) == len(pids) and not set(pids) & set(s.workers()), "as many anew", 25)
    s.wait_set_up()


def test_no_zombies_when_many_workers_die_at_once():
    """B09."""
    with Server({"workers": 6}) as s:
        for _ in range(5):
            kill_all_workers(s)
            proc.wait_until(lambda: len(proc.children(s.pid, zombies=True)) == 6, "no zombie")
        assert s.get().status == 200


def test_descriptors_of_master_and_workers_do_not_leak():
    """B12: after 20 deaths the master holds what it held, and a new worker what the first one held."""
    with Server({"workers": 1}) as s:
        first = proc.fd_kinds(s.workers()[0])
        for _ in range(20):
            kill_all_workers(s)
        proc.wait_until(lambda: proc.fd_kinds(s.pid) == s.fds_at_start, "fds of the master as at start")
        proc.wait_until(lambda: all(proc.fd_kinds(p) == first for p in s.workers()),
                        "fds of workers as at start: %s, now %s" % (first, [proc.fd_kinds(p) for p in s.workers()]))


def test_processes_share_no_event_descriptors():
    """B10: kcmp(2) on every pair of epoll and eventfd descriptors."""
    libc = ctypes.CDLL(None, use_errno=True)
    sys_kcmp = {"x86_64": 312, "aarch64": 272}[os.uname().machine]
    with Server({"workers": 3}) as s:
        s.kill_worker(s.workers()[0])
        pids = [s.pid] + s.workers()
        events = [(p, fd) for p in pids for fd, t in proc.fd_targets(p).items()
                  if "eventpoll" in t or "eventfd" in t or "signalfd" in t or "timerfd" in t]
        assert len(events) >= len(pids), events
        for i, (p, a) in enumerate(events):
            for q, b in events[i + 1:]:
                if p != q:
                    same = libc.syscall(sys_kcmp, p, q, 0, a, b)
                    assert same != 0, "%d:%d and %d:%d are one" % (p, a, q, b)
        pipes = collections.Counter(t for p in pids for t in set(proc.fd_targets(p).values()) if t.startswith("pipe:"))
        # stderr is one pipe for all.
        assert [n for n in pipes.values() if n > 1] in ([], [len(pids)]), pipes


def test_restarts_slow_down_while_another_worker_serves():
    """B26: at once, then after 100 ms doubled each time; TERM is obeyed meanwhile."""
    with Server({"workers": 2, "routes": hello_and(kit_route("/who", "who"))}, errors=["ended"]) as s:
        kept, start, deaths = s.workers()[0], time.monotonic(), 0
        while time.monotonic() - start < 3.5 * proc.scale():
            for pid in s.workers():
                if pid != kept:
                    os.kill(pid, signal.SIGKILL)
                    proc.wait_until(lambda: pid not in s.workers(), "the death seen")
                    deaths += 1
            assert s.get().status == 200
            pause(0.005)  # the client's pace
        assert 3 <= deaths <= 10, "%d deaths" % deaths
        assert proc.cpu_seconds(s.pid) < 0.5 * proc.scale()
        begin = time.monotonic()
        s.kill(signal.SIGTERM)
        assert s.wait_exit() == 0
        assert time.monotonic() - begin < 1.5 * proc.scale()


def test_the_last_worker_is_never_kept_waiting():
    """While no other is ready a restart waits 100 ms at most."""
    with Server({"workers": 1, "routes": hello_and(kit_route("/crash", "exit", n=3))}, errors=["ended"]) as s:
        for _ in range(12):
            with s.client() as c:
                c.send(get("/crash"))
                c.expect_closed(2, reset_allowed=True)
            start = time.monotonic()
            assert s.get().status == 200
            assert time.monotonic() - start < 1.0 * proc.scale()
        assert proc.cpu_seconds(s.pid) < 1.0 * proc.scale()


def test_failing_fork_is_tried_again():
    """B26."""
    with Server({"workers": 2}, errors=["cannot be started"]) as s:
        with Strace(s.pid, "clone,clone3,fork,vfork", inject="error=EAGAIN"):
            pid = s.workers()[0]
            s.expect_end(pid)
            os.kill(pid, signal.SIGKILL)
            s.log.wait("cannot be started", count=2)
            assert len(s.workers()) == 1 and s.get().status == 200
        proc.wait_until(lambda: len(s.workers()) == 2, "two workers again")


def test_crash_loop_at_start_ends_with_exit_code_4_and_the_reason():
    """The handler is proven fine, and then fails in every worker."""
    with Server({"workers": 2}, start=False) as s:
        flag = os.path.join(s.folder, "flag")
        s.write_config(routes=[kit_route("/", "ok", init="fail", only_with=flag, touch=flag)])
        done = subprocess.run([build.binary(), "-c", s.path], stderr=subprocess.PIPE, text=True,
                              timeout=60 * proc.scale(), cwd=s.folder)
        assert done.returncode == 4, (done.returncode, done.stderr)
        assert "told to fail" in done.stderr, done.stderr


def test_init_that_fails_for_a_while_is_over_when_it_is_over():
    """B26: at run time the server stays, and is at full strength once init works again."""
    with Server({"workers": 2}, start=False, errors=["told to fail", "ended", "init", "failed"]) as s:
        flag = os.path.join(s.folder, "flag")
        s.write_config(routes=[kit_route("/", "ok", init="fail", only_with=flag)])
        s.start()
        with s.client() as c:
            assert c.get().text == "ok"
        open(flag, "w").close()
        victims = s.workers()
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        s.log.wait("told to fail", count=6)
        assert s.process.poll() is None
        os.remove(flag)
        proc.wait_until(lambda: len(s.workers()) == 2 and s.get().text == "ok", "full strength", 12)


def test_stale_pidfiles_are_harmless():
    """B14."""
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        with Server(start=False) as s:
            path = os.path.join(s.folder, "whitecap.pid")
            s.write_config(pidfile=path)
            for text in ("%d\n" % sleeper.pid, "", "0", "-1", "abc", "9" * 30, "1"):
                with open(path, "w") as f:
                    f.write(text)
                s.start()
                with open(path) as f:
                    assert f.read() == "%d\n" % s.process.pid
                if not text:
                    second = run(["-c", "{config}"], dict(s.config, listen=["127.0.0.1:0"]))
                    assert second.returncode != 0 and path in second.stderr, second.stderr
                    with open(path) as f:
                        assert f.read() == "%d\n" % s.process.pid
                s.stop()
            assert sleeper.poll() is None
            for bad in (s.folder, "/nonexistent/whitecap.pid"):
                done = run(["-c", "{config}"], dict(s.config, pidfile=bad))
                assert done.returncode != 0 and bad in done.stderr, (done.returncode, done.stderr)
    finally:
        sleeper.kill()
        sleeper.wait()


def test_new_connections_are_answered_while_workers_die():
    """B03: kills under load cost only the connections of the killed."""
    needs_plain()
    with Server({"workers": 3}, errors=["ended"]) as s:
        stop, slow, lost = threading.Event(), [], [0]

        def load():
            while not stop.is_set():
                start = time.monotonic()
                try:
                    with s.client(timeout=5) as c:
                        assert c.get().status == 200
                except (AssertionError, OSError):
                    lost[0] += 1
                if time.monotonic() - start > 1:
                    slow.append(time.monotonic() - start)

        threads = [threading.Thread(target=load) for _ in range(3)]
        for t in threads:
            t.start()
        kills = 0
        for _ in range(20):
            for pid in s.workers()[:1]:
                os.kill(pid, signal.SIGKILL)
                kills += 1
            pause(0.1)
        stop.set()
        for t in threads:
            t.join()
        assert not slow, slow
        assert lost[0] <= kills * 3, lost
        proc.wait_until(lambda: len(s.workers()) == 3, "three workers again", 12)


def test_a_stopped_worker_does_not_stop_the_others():
    """B03."""
    with Server({"workers": 3}) as s:
        pid = s.workers()[1]
        os.kill(pid, signal.SIGSTOP)
        clients = [s.client() for _ in range(30)]
        answered = 0
        for c in clients:
            c.send(get())
        for c in clients:
            try:
                answered += c.receive(seconds=1).status == 200
            except AssertionError:
                pass
        os.kill(pid, signal.SIGCONT)
        assert answered >= 25, answered
