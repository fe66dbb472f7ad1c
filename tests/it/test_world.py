# SPDX-License-Identifier: MIT
"""The world around a server: clocks that are set, links with segments."""
import concurrent.futures
import ctypes
import json
import os
import struct
import subprocess
import tempfile
import threading
import time

from whitecap_it import Server, Skip, build, get, kit_route, needs_plain, needs_program, needs_root, proc

CLONE_NEWNET = 0x40000000


class Clock:
    """The clock of the day of a server and its workers: handlers/step_clock.c."""

    def __init__(self):
        self.ahead = tempfile.NamedTemporaryFile()
        self.set(0)
        os.chmod(self.ahead.name, 0o644)
        self.env = {"LD_PRELOAD": build.compile_shared("step_clock.c", "step_clock"), "STEP_CLOCK": self.ahead.name}

    def set(self, seconds):
        os.pwrite(self.ahead.fileno(), struct.pack("q", seconds), 0)
        self.seconds = seconds


def read_stats(s):
    done = subprocess.run([build.binary(), "stats", "-c", s.path, "-j"], stdout=subprocess.PIPE, check=True, cwd=s.folder)
    return json.loads(done.stdout)


def test_setting_the_clock_ends_nothing_and_changes_no_interval():
    """B22: an hour forward, two back; connections, requests, workers and timeouts do not notice, the Date does."""
    needs_plain()
    clock, keepalive = Clock(), 2.0
    with Server({"workers": 2, "routes": [{"path": "/", "handler": "hello"}, kit_route("/later", "later", n=1200)],
                 "timeouts": {"keepalive": "%ds" % keepalive, "handler": "5s"}, "admin": {"listen": "unix:admin"}},
                env=clock.env) as s:
        workers = s.workers()
        for seconds in (3600, -3600):
            slow, idle = s.client(), [s.client() for _ in range(40)]
            for c in idle:
                assert c.get().status == 200
            opened = time.monotonic()
            slow.send(get("/later"))
            uptime = read_stats(s)["uptime_s"]
            clock.set(seconds)
            with s.client() as c:
                proc.wait_until(lambda: abs(c.age_of_date(c.get()) + clock.seconds) < 2.5, "the Date follows the clock", 4)
            assert slow.receive().text == "later"
            assert time.monotonic() - opened >= 1.15
            if time.monotonic() - opened < keepalive - 0.3:
                assert not [c for c in idle if c.is_closed()], "closed when the clock was set"
            for c in idle:
                c.expect_closed(keepalive + 2)
            took = time.monotonic() - opened
            assert keepalive - 0.3 < took < keepalive + 2 * proc.scale() + 1, "closed after %.1f s" % took
            passed = read_stats(s)["uptime_s"] - uptime
            assert 0 <= passed < time.monotonic() - opened + 2, passed
            assert s.workers() == workers
        clock.set(3600)
        s.kill_worker(workers[0])
        clock.set(-3600)
        s.kill_worker(workers[1])
        s.reload()
        assert s.get().status == 200


def run_ip(*words):
    done = subprocess.run([needs_program("ip"), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Skip("needs the right to make a link: ip %s: %s" % (" ".join(words), done.stdout.strip()))


def new_network():
    """For this thread and what it starts."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise Skip("needs the right to make a network: %s" % os.strerror(ctypes.get_errno()))


def make_link(far):
    """Two networks with a link between them: this thread is at one end, the thread of far at the other."""
    new_network()
    far.submit(new_network).result()
    run_ip("link", "add", "near", "mtu", "1500", "type", "veth", "peer", "name", "far", "mtu", "1500")
    run_ip("link", "set", "far", "netns", str(far.submit(threading.get_native_id).result()))
    run_ip("address", "add", "198.18.0.1/30", "dev", "near")
    run_ip("link", "set", "near", "up")
    far.submit(run_ip, "address", "add", "198.18.0.2/30", "dev", "far").result()
    far.submit(run_ip, "link", "set", "far", "up").result()


def test_no_size_of_answer_waits_for_an_acknowledgement():
    """B37: over a link with segments of 1500; no cluster at 40 ms."""
    needs_root()
    with concurrent.futures.ThreadPoolExecutor(1) as far:
        make_link(far)
        with Server({"listen": ["198.18.0.1:0"], "routes": [kit_route("/big", "big", n=10)]}) as s:
            c = far.submit(s.client).result()
            times = []
            for size in (0, 5, 1400, 1500, 3000, 20000) * 80:
                start = time.monotonic()
                assert len(c.get("/big?n=%d" % size).body) == size
                times.append(time.monotonic() - start)
            c.close()
            slow = [t for t in times if t > 0.03 * proc.scale()]
            print("p50 %.2f ms, p99 %.2f ms, %d of %d over 30 ms" % (
                1e3 * sorted(times)[len(times) // 2], 1e3 * sorted(times)[len(times) * 99 // 100], len(slow), len(times)))
            assert len(slow) < len(times) / 50, "%d of %d took over 30 ms" % (len(slow), len(times))
