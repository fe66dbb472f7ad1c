#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A soak: two servers under mixed load, with connections that come and go all the time.  One is left alone; the other is
reloaded, and has crashes, hangs, and workers that are killed.  What they hold is looked at every few seconds, and must not grow.

    soak.py [SECONDS] [SEED]        1800 s unless told; with WHITECAP_BUILD_DIR, as run.py

Prints a line of JSON per look, then a table: the mean of the first third, that of the last, and the slope.  Exit status 1 when
something grew by more than LIMITS allow, or a client saw what must not be.
"""
import json
import os
import random
import signal
import sys
import threading
import time

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import crashes
from storm import Others
from whitecap_it import Client, build, get, pause, post, proc

CROWD = {"idle": 100, "paced": 4, "pipelining": 1, "trickling": 4, "half_body": 4, "half_chunked": 4, "continued": 2}
WORKERS = 2
CONFIG = {"timeouts": {"handler": "2s", "request": "2h", "keepalive": "2h", "send": "10s"},
          "admin": {"listen": "unix:admin"}, "access_log": {"path": "/dev/null"}}
# How much the mean of the last third may be above that of the first: share of it, plus so many (kB, descriptors, ms).
LIMITS = {"master_kb": (0, 300), "admin_kb": (0, 300), "worker_kb": (.05, 1024), "master_fds": (0, 2), "worker_fds": (0, 8),
          "p99_ms": (1, 5)}


class Churn:
    """Connections that open, ask something and go, in every manner."""

    def __init__(self, address, rng, every=0.05):
        self.address, self.rng, self.every = address, rng, every
        self.over, self.made, self.trouble = False, 0, []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def polite(self, c):
        for _ in range(self.rng.randint(1, 5)):
            assert c.get("/?1").status == 200

    def bodies(self, c):
        for size in (10, 3000, self.rng.randint(0, 300000)):
            assert c.post("/echo?1", b"b" * size).status == 200

    def reset(self, c):
        c.send(get("/?1") * 20)
        c.reset()

    def half(self, c):
        c.send(post("/echo?1", b"b" * 5000)[:-self.rng.randint(1, 4999)])

    def unread(self, c):
        c.send(get("/big?1") * 2)
        c.s.recv(1000)
        c.reset()

    def broken(self, c):
        c.send(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n")
        assert c.receive().status == 400

    def run(self):
        manners = (self.polite, self.polite, self.bodies, self.reset, self.half, self.unread, self.broken)
        while not self.over:
            manner = self.rng.choice(manners)
            try:
                with Client(self.address, timeout=30) as c:
                    manner(c)
                self.made += 1
            except (AssertionError, OSError) as e:
                self.trouble.append("%s: %r" % (manner.__name__, e))
            pause(self.every)

    def finish(self):
        self.over = True
        self.thread.join()


class Disturber:
    """One after the other, whatever else a server must bear; only a SIGKILL may cost connections."""

    def __init__(self, server, rng):
        self.s, self.rng, self.done = server, rng, 0
        self.kinds = crashes.kinds()

    def crash(self):
        with self.s.client(timeout=30) as c:
            assert c.get("/c?%s@handle" % self.rng.choice(self.kinds)).status == 500

    def hang(self):
        with self.s.client(timeout=30) as c:
            assert c.get("/c?loop").status in (500, 504)

    def reload(self):
        self.s.reload(60)

    def refused(self):
        self.s.write_config(workers="many")
        try:
            self.s.reload_refused("workers: .*many", 60)
        finally:
            self.s.write_config(workers=WORKERS)

    ACTS = (crash, reload, refused, crash, reload, hang)

    def act(self):
        self.ACTS[self.done % len(self.ACTS)](self)
        self.done += 1
        proc.wait_until(lambda: len(self.s.workers()) == WORKERS, "all workers", 30)


class Soaked:
    """A server with its clients."""

    def __init__(self, name, rng):
        self.name = name
        self.server = crashes.crash_server(WORKERS, config=dict(CONFIG), fds=False)
        self.server.errors += ["reload", "ended before it served"]
        self.server.wait_set_up()
        self.admin = self.server.admin
        self.others = Others(self.server.address, CROWD)
        self.churn = Churn(self.server.address, rng)
        self.first_workers = self.server.workers()

    def look(self):
        s, workers = self.server, self.server.workers()
        return {"master_kb": rss(s.pid), "admin_kb": rss(s.admin()), "worker_kb": max(map(rss, workers)),
                "master_fds": len(proc.fd_targets(s.pid)), "worker_fds": sum(len(proc.fd_targets(p)) for p in workers)}


def rss(pid):
    try:
        return int(proc.status(pid)["VmRSS"].split()[0])
    except (OSError, KeyError):
        return 0


def third(rows, name, which):
    part = [row[name] for row in rows[:len(rows) // 3] or rows] if which == 0 else \
           [row[name] for row in rows[-(len(rows) // 3):] or rows]
    return sum(part) / len(part)


def slope(rows, name):
    """Per minute, by least squares."""
    count = len(rows)
    at = sum(row["at"] for row in rows) / count
    mean = sum(row[name] for row in rows) / count
    spread = sum((row["at"] - at) ** 2 for row in rows)
    return 60 * sum((row["at"] - at) * (row[name] - mean) for row in rows) / spread if spread else 0.0


def add_latencies(rows, latencies, start):
    """The p99 of the time since the look before, to each."""
    before, by = 0.0, sorted(latencies)
    for row in rows:
        part = sorted(took for at, took in by if before <= at - start < row["at"])
        row["p99_ms"] = 1e3 * part[int(.99 * (len(part) - 1))] if part else 0.0
        before = row["at"]


def judge(name, rows):
    """Prints the table; what has grown."""
    grown = []
    for what, (share, more) in LIMITS.items():
        first, last = third(rows, what, 0), third(rows, what, 1)
        flat = last <= first * (1 + share) + more
        print("%-10s %-10s first third %10.1f, last third %10.1f, slope %+9.3f/min  %s" % (
            name, what, first, last, slope(rows, what), "flat" if flat else "GROWN"))
        if not flat:
            grown.append("%s %s" % (name, what))
    return grown


def finish(soaked, rows, start, disturber):
    soaked.churn.finish()
    seen = soaked.others.result()
    add_latencies(rows, seen["latencies"], start)
    wrong = judge(soaked.name, rows) + seen["trouble"][:5] + soaked.churn.trouble[:5]
    total = crashes.stats(soaked.server)["total"]
    if not disturber and soaked.server.workers() != soaked.first_workers:
        wrong.append("%s: its workers have changed" % soaked.name)
    if total["lost"]:
        wrong.append("%s: %d connections lost" % (soaked.name, total["lost"]))
    print(json.dumps({"server": soaked.name, "answers": seen["answers"], "came_and_went": soaked.churn.made,
                      "disturbed": disturber.done if disturber else 0,
                      **{k: total[k] for k in ("requests", "responses", "crash", "hang", "lost", "moved", "send_error")}}))
    soaked.server.errors.append("workers: ")
    soaked.server.stop()
    soaked.server.check_log()
    soaked.server.cleanup()
    return wrong


def run(seconds, seed):
    rng = random.Random(seed)
    every = min(5.0, seconds / 30)
    both = [Soaked(name, random.Random(rng.random())) for name in ("steady", "disturbed")]
    disturber = Disturber(both[1].server, rng)
    try:
        pause(min(20, seconds / 10))  # what is made once is made
        start = time.monotonic()
        rows = [[], []]
        while time.monotonic() < start + seconds:
            pause(every)
            for soaked, part in zip(both, rows):
                part.append(dict(soaked.look(), at=round(time.monotonic() - start, 1)))
                print(json.dumps({"server": soaked.name, **part[-1]}), flush=True)
            disturber.act()
        return [wrong for n, soaked in enumerate(both) for wrong in finish(soaked, rows[n], start, disturber if n else None)]
    finally:
        for soaked in both:
            soaked.server.cleanup()


def main(arguments):
    os.environ["WHITECAP_BUILD_DIR"] = build.build_dir()
    proc.become_subreaper()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    seconds = float(arguments[0]) if arguments else 1800.0
    seed = int(arguments[1]) if len(arguments) > 1 else int(time.time())
    print("%.0f s with seed %d" % (seconds, seed), flush=True)
    wrong = run(seconds, seed)
    print("\n".join(wrong) or "flat")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
