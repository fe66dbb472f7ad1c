#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A storm: clients send the request that crashes its worker again and again, each time on another connection, as soon as
the answer is there or a pause later.  Prints what that costs the others, beside what they see before.

    storm.py [SECONDS] [WORKERS] [PAUSE_MS] [ATTACKERS] [QUARANTINE_S] [REQUEST]     with WHITECAP_BUILD_DIR, as run.py

Without a quarantine it is as if each request were another one.  With a harmless REQUEST ("/c?x") it shows what so many
requests cost anyhow.
"""
import json
import os
import sys
import threading
import time

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import crashes
from move_client import Crowd
from whitecap_it import build, pause, proc

OTHERS = {"paced": 30, "idle": 40}


class Newcomer:
    """Opens one connection after the other, and asks once on each; every one must be answered."""

    def __init__(self, server):
        self.server, self.over, self.answered, self.failure = server, False, 0, None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while not self.over:
                assert self.server.get("/c?x", timeout=15).text == "ok"
                self.answered += 1
                pause(0.02)
        except Exception as e:  # pylint: disable=broad-except
            self.failure = e

    def finish(self):
        self.over = True
        self.thread.join()
        assert not self.failure, self.failure
        return self.answered


class Others:
    """A crowd in a process of its own, so that whoever attacks does not hold it up."""

    def __init__(self, address, counts):
        self.report, report = os.pipe()
        finish, self.finish = os.pipe()
        ready, go = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                with Crowd(address, **counts) as crowd:
                    os.write(go, b"x")
                    os.read(finish, 1)
                    seen = crowd.finish()
                with os.fdopen(report, "w") as f:
                    json.dump({"latencies": seen.latencies, "trouble": seen.trouble, "answers": seen.answers}, f)
            finally:
                os._exit(0)
        for fd in (report, finish, go):
            os.close(fd)
        assert os.read(ready, 1), "the crowd is not in place"
        os.close(ready)

    def result(self):
        os.write(self.finish, b"x")
        os.close(self.finish)
        with os.fdopen(self.report) as f:
            seen = json.load(f)
        os.waitpid(self.pid, 0)
        return seen


class Attacker:
    """Sends the request that crashes, each time on another connection, as soon as the one before is answered."""

    def __init__(self, server, until, pause_s, request):
        self.server, self.until, self.pause_s, self.request = server, until, pause_s, request
        self.connections, self.failure = [], None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while time.monotonic() < self.until:
                c = self.server.client(timeout=15)
                self.connections.append(c)
                r = c.get(self.request)
                assert r.status in (200, 500) and not r.closes, r
                pause(self.pause_s)
        except Exception as e:  # pylint: disable=broad-except
            self.failure = e


def attack(s, seconds, pause_s, count, request="/c?null"):
    """The connections that asked for a crash; each was answered 500, and goes on."""
    until = time.monotonic() + seconds
    attackers = [Attacker(s, until, pause_s, request) for _ in range(count)]
    for a in attackers:
        a.thread.join()
        assert not a.failure, a.failure
    return [c for a in attackers for c in a.connections]


def summary(latencies, since, until):
    part = sorted(took for at, took in latencies if since <= at < until)
    return {"requests": len(part), **{name: round(1e3 * part[min(len(part) - 1, int(len(part) * share))], 2)
                                      for name, share in (("p50_ms", .5), ("p99_ms", .99), ("max_ms", 1.))}}


def run(s, seconds, pause_s=0, count=1, request="/c?null"):
    """Half of the time without the attackers, half with them."""
    others = Others(s.address, OTHERS)
    times = [time.monotonic()]
    pause(seconds)
    times.append(time.monotonic())
    newcomer = Newcomer(s)
    attackers = attack(s, seconds, pause_s, count, request)
    times.append(time.monotonic())
    newcomers = newcomer.finish()
    seen = others.result()
    for c in attackers:
        assert c.get("/c?x", seconds=15).status == 200
    before, during = (summary(seen["latencies"], *times[n:n + 2]) for n in (0, 1))
    return {"attacks": len(attackers), "per_second": round(len(attackers) / (times[2] - times[1]), 1),
            "newcomers": newcomers, "trouble": seen["trouble"], "answers": seen["answers"], "undisturbed": before,
            "during": during, "ratio": round(during["p99_ms"] / before["p99_ms"], 1)}


def main(arguments):
    os.environ["WHITECAP_BUILD_DIR"] = build.build_dir()
    proc.become_subreaper()
    words = arguments + ["5", "4", "0", "1", "10", "/c?null"][len(arguments):]
    seconds, workers, pause_ms, count, quarantine = (float(w) for w in words[:5])
    config = {"timeouts": {"quarantine": round(1e3 * quarantine)}}
    with crashes.crash_server(int(workers), config=config, fds=False) as s:
        s.errors.append("twice in a row")
        print(json.dumps(run(s, seconds, pause_ms / 1e3, int(count), words[5])))


if __name__ == "__main__":
    main(sys.argv[1:])
