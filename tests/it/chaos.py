#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Chaos: reloads, upgrades, more and fewer workers, crashes of every kind, hangs, SIGKILL, SIGSTOP and SIGCONT at random,
over clients that check every octet; at the end all that went wrong must have been allowed, and be counted exactly.

    chaos.py [SECONDS] [SEED]       prints what was done; with WHITECAP_BUILD_DIR, as run.py
"""
import collections
import os
import random
import signal
import sys
import time

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import crashes
from move_client import Crowd
from whitecap_it import build, pause, proc

HANDLER_MS = 1500
CROWD = {"idle": 60, "busy": 4, "paced": 8, "pipelining": 4, "trickling": 6, "half_body": 4, "half_chunked": 4,
         "continued": 2, "dribbling": 1}  # not "slow": TCP_USER_TIMEOUT ends who reads nothing for long


class Chaos:
    def __init__(self, server, crowd, rng):
        self.s, self.crowd, self.rng = server, crowd, rng
        self.done = collections.Counter()
        self.victims = []       # connections whose worker was killed
        self.workers = len(server.workers())
        self.kinds = crashes.kinds()
        self.places = [p for p in crashes.PLACES if p != "timer"]

    def settle(self, seconds=30):
        """As many workers as there should be, all of the generation that serves."""
        self.reloads = getattr(self, "reloads", 0) + 1
        self.s.reload()         # forgives the crashes, too
        self.workers = 3
        proc.wait_until(lambda: len(self.s.workers()) == 3, lambda: "3 workers, not %s:\n%s" % (
            self.s.workers(), self.s.log.tail()), seconds)

    def hup(self):
        self.s.kill(signal.SIGHUP)

    def usr2(self):
        self.s.kill(signal.SIGUSR2)

    def ttin(self):
        self.s.kill(signal.SIGTTIN)

    def ttou(self):
        self.s.kill(signal.SIGTTOU)

    def crash(self):
        query = "%s@%s" % (self.rng.choice(self.kinds), self.rng.choice(self.places))
        with self.s.client(timeout=20) as c:
            r = c.get("/c?" + query)
            assert r.status == 500, (query, r)

    def outside(self):
        for pid in self.rng.sample(self.s.workers(), 1):
            proc.kill_quietly(pid, self.rng.choice((signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)))

    def hang(self):
        with self.s.client(timeout=20) as c:
            r = c.get("/c?" + self.rng.choice(("loop", "sleep", "read", "lock")))
            assert r.status in (500, 504), r    # 500: it was killed from outside meanwhile

    def stop(self):
        """Shorter than a hang."""
        for pid in self.rng.sample(self.s.workers(), 1):
            proc.kill_quietly(pid, signal.SIGSTOP)
            pause(self.rng.uniform(0.05, 0.3))
            proc.kill_quietly(pid, signal.SIGCONT)

    ACTS = (hup, usr2, ttin, ttou, crash, crash, crash, outside, hang, stop)

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(6):
                act = self.rng.choice(self.ACTS)
                if len(self.s.workers()) > 1 or act.__name__ not in ("outside", "stop", "ttou"):
                    act(self)
                    self.done[act.__name__] += 1
                pause(self.rng.uniform(0, 0.15))
            self.settle()


def lost_by_sigkill(s, rng, count):
    """On a quiet server: what a killed worker held is what is counted, and what clients see."""
    clients = [s.client() for _ in range(40)]
    for c in clients:
        assert c.get("/c?x").status == 200
    before = crashes.stats(s)["total"]["lost"]
    for _ in range(count):
        pid = rng.choice(s.workers())
        ends = len(s.log.lines)
        s.expect_end(pid)
        os.kill(pid, signal.SIGKILL)
        s.log.wait(r"\(%d\) ended" % pid, since=ends)
        proc.wait_until(lambda: len(s.workers()) == 3, "replaced", 30)
    closed = len([c for c in clients if proc.wait_until(lambda: True, "") and c.is_closed()])
    for c in clients:
        if not c.is_closed():
            assert c.get("/c?x").status == 200
        c.close()
    lost = crashes.stats(s)["total"]["lost"] - before
    assert lost == closed, "%d closed, %d counted as lost" % (closed, lost)
    return lost


def fd_counts(s):
    return {pid: len(proc.fd_targets(pid)) for pid in [s.pid, *s.workers()]}


def memory(s):
    return proc.memory_kb([s.pid], "Private_Dirty"), proc.memory_kb(s.workers(), "Private_Dirty")


def run(seconds, seed):
    rng = random.Random(seed)
    config = {"timeouts": {"handler": "%dms" % (HANDLER_MS * (2 if build.sanitized() else 1)), "request": "1h", "send": "1h"}}
    with crashes.crash_server(3, config=config) as s:
        s.errors.append("reload|upgrade|ended before it served")
        s.wait_set_up()
        fds = fd_counts(s)
        with Crowd(s.address, seed=seed, **CROWD) as crowd:
            chaos = Chaos(s, crowd, rng)
            chaos.run(min(5, seconds / 3))
            early = memory(s)
            chaos.run(seconds)
            report = crowd.finish(60)
        total = crashes.stats(s)["total"]
        report.check()
        assert total["lost"] == 0 and total["connections"]["active"] == 0, total
        expected = chaos.done["crash"] + chaos.done["hang"]
        assert total["responses"]["5xx"] == expected, "%d failed, not %d: %s" % (
            total["responses"]["5xx"], expected, total)
        assert report.answers == total["responses"]["2xx"], (report.answers, total)
        lost = lost_by_sigkill(s, rng, 3)
        chaos.settle()
        s.wait_set_up()
        proc.wait_until(lambda: sorted(fd_counts(s).values()) == sorted(fds.values()),
                        lambda: "fds at start %s, now %s" % (fds, fd_counts(s)))
        late = memory(s)
        assert late[0] < early[0] + 500 and late[1] < early[1] * 1.5 + 3000 * len(s.workers()), (early, late)
        return {"answers": report.answers, "done": dict(chaos.done), "settled": chaos.reloads, "sigkill_lost": lost,
                "memory_kb": [early, late],
                "total": {k: total[k] for k in ("crash", "hang", "lost", "moved", "requests", "responses")}}


def main(arguments):
    os.environ["WHITECAP_BUILD_DIR"] = build.build_dir()
    proc.become_subreaper()
    seconds = float(arguments[0] if arguments else os.environ.get("WHITECAP_CHAOS_SECONDS", "60"))
    seed = int(arguments[1]) if len(arguments) > 1 else int(time.time())
    print("%.0f s with seed %d" % (seconds, seed), flush=True)
    print(run(seconds, seed))


if __name__ == "__main__":
    main(sys.argv[1:])
