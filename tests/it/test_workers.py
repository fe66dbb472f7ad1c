# SPDX-License-Identifier: MIT
"""Master and workers: start, deaths, stops, the master's death, limits of descriptors, spread."""
import collections
import ctypes
import os
import random
import signal
import socket
import stat
import subprocess
import threading
import time

from whitecap_it import (Client, Server, build, get, kit_route, needs_plain, needs_program, needs_root, pause, post,
                         run)
from whitecap_it import proc
from whitecap_it.server import DEFAULTS
from whitecap_it.trace import Strace


def two_routes(*more):
    return [{"path": "/", "handler": "hello"}, *more]


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


def test_stop_signals_end_everything_with_exit_code_0():
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT):
        with Server({"workers": 2}) as s:
            idle = s.client()
            assert idle.get().status == 200
            start = time.monotonic()
            s.stop(number)
            assert time.monotonic() - start < 3 * proc.scale()
            idle.expect_closed(reset_allowed=number == signal.SIGINT)
            assert not listening(s.address)


def listening(address):
    try:
        Client(address).close()
    except ConnectionRefusedError:
        return False
    return True


def test_graceful_stop_finishes_what_is_in_flight():
    for number in (signal.SIGTERM, signal.SIGQUIT):
        with Server({"workers": 2, "routes": two_routes(kit_route("/later", "later", n=700))}) as s:
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


def test_stop_waits_for_requests_not_for_connections():
    """B05: idle and busy keep-alive clients do not prolong it."""
    with Server({"workers": 2, "timeouts": {"drain": "20s"}, "routes": two_routes(kit_route("/later", "later", n=600))}) as s:
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


def kill_master(s):
    workers = s.workers()
    s.process.kill()
    s.process.wait()
    return workers


def gone(pids):
    """All gone; what became a child of this process is reaped on the way."""
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
    return not any(proc.alive(p) for p in pids)


def test_idle_workers_go_at_once_when_the_master_is_killed():
    with Server({"workers": 4}) as s:
        idle = s.client()
        idle.get()
        workers = kill_master(s)
        start = time.monotonic()
        proc.wait_until(lambda: gone(workers), "workers gone", 3)
        assert time.monotonic() - start < 2 * proc.scale()
        idle.expect_closed()
        assert not listening(s.address)


def test_busy_workers_finish_when_the_master_is_killed():
    with Server({"workers": 2, "routes": two_routes(kit_route("/later", "later", n=600))}) as s:
        clients = [s.client() for _ in range(8)]
        for c in clients:
            c.send(get("/later"))
        clients[0].expect_silence(0.1)
        workers = kill_master(s)
        for c in clients:
            r = c.receive()
            assert r.text == "later" and r.closes, r
        proc.wait_until(lambda: gone(workers), "workers gone", 3)


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
    with Server({"workers": 2, "routes": two_routes(kit_route("/later", "later", n=500), kit_route("/who", "who"))},
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


def test_out_of_descriptors_neither_spins_nor_hurts():
    """B18."""
    with Server({"routes": two_routes(kit_route("/who", "who"))}, errors=["accept", "descriptor"]) as s:
        early = s.client()
        assert early.get().status == 200
        worker = s.worker
        subprocess.run([needs_program("prlimit"), "--pid", str(worker), "--nofile=40"], check=True)
        held = [s.client() for _ in range(120)]
        for c in held:
            c.send(get())
        assert early.get().status == 200
        lines, cpu, start = len(s.log.lines), proc.cpu_seconds(worker), time.monotonic()
        slowest = 0.0
        while time.monotonic() - start < 2.0:
            before = time.monotonic()
            assert early.get().status == 200
            slowest = max(slowest, time.monotonic() - before)
            pause(0.02)
        took = time.monotonic() - start
        used, said = proc.cpu_seconds(worker) - cpu, len(s.log.lines) - lines
        assert used < 0.10 * took * proc.scale(), "%.2f s of CPU in %.1f s" % (used, took)
        assert said < 10 * took, "%d lines in %.1f s" % (said, took)
        assert slowest < 0.05 * proc.scale() + 0.05, slowest
        for c in held:
            c.close()
        start = time.monotonic()
        assert s.get().status == 200
        assert time.monotonic() - start < 1.5 * proc.scale()
        assert s.worker == worker


def spread(s, clients):
    count = collections.Counter()
    for c in clients:
        count[c.get("/who").text] += 1
    return count


def test_connections_are_spread_fairly():
    """B20: in a burst and one by one, and after the death of a worker."""
    with Server({"workers": 4, "routes": two_routes(kit_route("/who", "who"))}) as s:
        for _ in range(2):
            clients = [s.client() for _ in range(400)]
            count = spread(s, clients)
            assert len(count) == 4 and max(count.values()) <= 200, count
            for c in clients:
                c.close()
            clients = []
            for _ in range(200):
                clients.append(s.client())
                clients[-1].get("/who")
            count = spread(s, clients)
            assert len(count) == 4 and max(count.values()) <= 100, count
            for c in clients:
                c.close()
            s.kill_worker(s.workers()[0])


def test_few_accepts_find_nothing():
    """B20: one new connection at a time wakes at most all, who each find nothing once."""
    with Server({"workers": 4}) as s:
        traces = [Strace(p, "accept4,accept") for p in s.workers()]
        for t in traces:
            t.__enter__()
        for _ in range(20):
            assert s.get().status == 200
        for t in traces:
            t.__exit__()
        calls = sum(sum(t.calls.values()) for t in traces)
        nothing = sum("EAGAIN" in line for t in traces for line in t.lines)
        assert nothing <= 4 * 20 and calls - nothing >= 20, (calls, nothing)


def test_every_worker_answers():
    with Server({"workers": 4, "routes": [kit_route("/", "who")]}) as s:
        held, seen = [], set()
        while len(seen) < 4 and len(held) < 400:
            held.append(s.client())
            seen.add(held[-1].get().text)
        assert len(seen) == 4, seen


def test_restarts_slow_down_while_another_worker_serves():
    """B26: at once, then after 100 ms doubled each time; TERM is obeyed meanwhile."""
    with Server({"workers": 2, "routes": two_routes(kit_route("/who", "who"))}, errors=["ended"]) as s:
        kept, start, deaths = s.workers()[0], time.monotonic(), 0
        while time.monotonic() - start < 3.5 * proc.scale():
            for pid in s.workers():
                if pid != kept:
                    os.kill(pid, signal.SIGKILL)
                    proc.wait_until(lambda: pid not in s.workers(), "the death seen")
                    deaths += 1
            assert s.get().status == 200
        assert 3 <= deaths <= 10, "%d deaths" % deaths
        assert proc.cpu_seconds(s.pid) < 0.5 * proc.scale()
        begin = time.monotonic()
        s.kill(signal.SIGTERM)
        assert s.wait_exit() == 0
        assert time.monotonic() - begin < 1.5 * proc.scale()


def test_the_last_worker_is_never_kept_waiting():
    """While no other is ready a restart waits 100 ms at most."""
    with Server({"workers": 1, "routes": two_routes(kit_route("/crash", "exit", n=3))}, errors=["ended"]) as s:
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


def test_unix_sockets_with_their_mode():
    with Server({"listen": ["127.0.0.1:0"]}, start=False) as s:
        path, other = os.path.join(s.folder, "http.sock"), os.path.join(s.folder, "other.sock")
        s.write_config(listen=[{"address": "unix:" + path, "mode": "0600"}, "unix:" + other, "127.0.0.1:0"],
                       routes=two_routes(kit_route("/facts", "facts")))
        s.start()
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(other).st_mode) == 0o666
        for p in (path, other):
            with Client("unix:" + p) as c:
                assert c.get().text == "hello world!"
                assert "\npeer=unix:" in c.get("/facts").text
                c.send(get())
                c.half_close()
                assert c.receive().status == 200
                c.expect_closed()
        s.stop()
        assert not os.path.exists(path) and not os.path.exists(other)


def test_stale_socket_files_are_told_from_live_ones():
    """B16."""
    with Server(start=False) as s:
        path = os.path.join(s.folder, "http.sock")
        s.write_config(listen=["unix:" + path])
        s.start()
        s.process.kill()
        s.process.wait()
        proc.wait_until(lambda: not proc.children(os.getpid()) or proc.reap_strays() is None, "workers gone")
        assert os.path.exists(path)
        s.start()
        with Client("unix:" + path) as c:
            assert c.get().status == 200
        done = run(["-c", "{config}"], dict(s.config))
        assert done.returncode == 3 and path in done.stderr, (done.returncode, done.stderr)
        with Client("unix:" + path) as c:
            assert c.get().status == 200
        s.stop()
        with open(path, "w") as f:
            f.write("precious")
        done = run(["-c", "{config}"], dict(s.config))
        assert done.returncode == 3 and path in done.stderr, (done.returncode, done.stderr)
        with open(path) as f:
            assert f.read() == "precious"


def test_tcp_restart_after_a_kill_with_open_connections_works_at_once():
    """B16."""
    with Server() as s:
        held = [s.client() for _ in range(50)]
        for c in held:
            c.get()
        s.write_config(listen=[s.address])
        workers = s.workers()
        for pid in [s.process.pid] + workers:
            proc.kill_quietly(pid)
        s.process.wait()
        proc.wait_until(lambda: gone(workers), "all gone")
        s.start()
        assert s.get().status == 200


def test_ipv6_and_several_listeners():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        raise build.Skip("no IPv6 here") from None
    with Server({"workers": 2, "listen": ["127.0.0.1:0", "[::1]:0", {"address": "127.0.0.2:0", "backlog": 16}],
                 "routes": two_routes(kit_route("/facts", "facts"))}) as s:
        assert len(s.addresses) == 3, s.addresses
        for address in s.addresses:
            with Client(address) as c:
                assert c.get().status == 200
                if address.startswith("["):
                    assert "\npeer=[::1]:%d\n" % c.s.getsockname()[1] in c.get("/facts").text


def test_rights_are_dropped_for_good():
    """B55: started as root with more groups; workers are nobody and nothing else, also later ones."""
    needs_root()
    setpriv = needs_program("setpriv")
    with Server({"workers": 2, "user": "nobody", "routes": two_routes(
            kit_route("/shadow", "run", command="cat /etc/shadow 2>&1; id -u"))},
            wrap=[setpriv, "--groups", "0,4,6", "--"]) as s:
        import grp
        import pwd
        nobody = pwd.getpwnam("nobody")
        groups = sorted({g.gr_gid for g in grp.getgrall() if "nobody" in g.gr_mem} | {nobody.pw_gid})
        for _ in range(2):
            for pid in s.workers():
                facts = proc.status(pid)
                assert facts["Uid"].split() == [str(nobody.pw_uid)] * 4, facts["Uid"]
                assert facts["Gid"].split() == [str(nobody.pw_gid)] * 4, facts["Gid"]
                assert sorted(map(int, facts["Groups"].split())) == groups, facts["Groups"]
                assert int(facts["CapEff"].strip(), 16) == 0 and int(facts["CapPrm"].strip(), 16) == 0
            text = s.get("/shadow").text
            assert "root:" not in text and text.endswith("%d\n=0" % nobody.pw_uid), text
            s.kill_worker(s.workers()[0])


def test_a_failing_step_of_dropping_rights_means_no_start():
    """B55."""
    needs_root()
    strace = needs_program("strace")
    config = dict(DEFAULTS, handler_dir=build.handler_dir(), user="nobody")
    for call in ("setgroups", "setresgid", "setresuid"):
        done = run(["-c", "{config}"], config, wrap=[strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call,
                                                     "-e", "inject=%s:error=EPERM" % call])
        assert done.returncode not in (0, 64) and "serving" not in done.stderr, (call, done.returncode, done.stderr)
        assert "nobody" in done.stderr or "Operation not permitted" in done.stderr, (call, done.stderr)


def test_unknown_users_and_groups_are_refused():
    base = dict(DEFAULTS, handler_dir=build.handler_dir())
    for change in ({"user": "nosuchuser"}, {"group": "nosuchgroup"}):
        done = run(["-c", "{config}"], dict(base, **change))
        assert done.returncode == 2 and list(change.values())[0] in done.stderr, (done.returncode, done.stderr)


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
