# SPDX-License-Identifier: MIT
"""Listening sockets: of every kind, left behind, out of descriptors; how workers share what comes."""
import collections
import os
import socket
import stat
import subprocess
import time

from whitecap_it import Client, Server, build, get, hello_and, kit_route, needs_program, pause, proc, run
from whitecap_it.trace import Strace


def test_out_of_descriptors_neither_spins_nor_hurts():
    """B18."""
    with Server({"routes": hello_and(kit_route("/who", "who"))}, errors=["accept", "descriptor"]) as s:
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
    with Server({"workers": 4, "routes": hello_and(kit_route("/who", "who"))}) as s:
        proc.wait_until(lambda: len({s.get("/who").text for _ in range(20)}) == 4, "four workers that accept")
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


def test_unix_sockets_with_their_mode():
    with Server({"listen": ["127.0.0.1:0"]}, start=False) as s:
        path, other = os.path.join(s.folder, "http.sock"), os.path.join(s.folder, "other.sock")
        s.write_config(listen=[{"address": "unix:" + path, "mode": "0600"}, "unix:" + other, "127.0.0.1:0"],
                       routes=hello_and(kit_route("/facts", "facts")))
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
        proc.wait_until(lambda: proc.gone(workers), "all gone")
        s.start()
        assert s.get().status == 200


def test_ipv6_and_several_listeners():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        raise build.Skip("no IPv6 here") from None
    with Server({"workers": 2, "listen": ["127.0.0.1:0", "[::1]:0", {"address": "127.0.0.2:0", "backlog": 16}],
                 "routes": hello_and(kit_route("/facts", "facts"))}) as s:
        assert len(s.addresses) == 3, s.addresses
        for address in s.addresses:
            with Client(address) as c:
                assert c.get().status == 200
                if address.startswith("["):
                    assert "\npeer=[::1]:%d\n" % c.s.getsockname()[1] in c.get("/facts").text
