# SPDX-License-Identifier: MIT
"""What slow and greedy clients cost the others, and what memory they take: scripts/bench hostile.

In each round well-behaved clients (openloop) ask at a constant rate, first alone, then while the attack goes on,
SETTLE_SECONDS after all of its connections have begun: the burst of work with which some begin is not part of it.
The attackers are those of attack.py and of slowhttptest; they run with less priority on the CPU of those clients.
"""
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from typing import NamedTuple

import build
from mobility import read_stats
from overload import LOAD_CPUS, SERVER_CPUS, run_openloop
from processes import Server, Trouble, affinity, descendants, free_port, pause, read_file, wait_for
from report import number, table
from servers import HERE, handler_path, whitecap_command

RATE, CONNECTIONS = 1000, 64
READY_SECONDS, SETTLE_SECONDS = 60, 2

# The formula of whitecap(8), MEMORY.
CONNECTION, REQUEST, FIELD, FIRST = 256, 12288, 16, 4096
ANNOUNCED, NOT_TAKEN, READ = 32768, 262144, 65536
HEAD_SIZE, FIELDS, BODY_SIZE = 16384, 100, 1 << 20


def most(octets=0, announced=0, not_taken=0):
    """Octets that a connection inside a request may take, with so many of it read."""
    return CONNECTION + REQUEST + FIELD * FIELDS + max(FIRST, announced, 2 * octets + 2048) + not_taken


class Attack(NamedTuple):
    title: str
    command: tuple    # of attack.py; or options of slowhttptest, and what it asks for
    connections: int
    most: int         # octets for each
    path: str = ""    # of slowhttptest


def slow(title, options, connections, limit, path=""):
    return Attack(title, tuple(options.split()), connections, limit, path)


ATTACKS = {
    "slowloris": slow("slowhttptest -H: heads without end", "-H -i 1", 2000, most(HEAD_SIZE)),
    "slow-body": slow("slowhttptest -B: bodies without end", "-B -i 1 -s 65536", 2000, most(8192, ANNOUNCED), "echo"),
    "slow-read": slow("slowhttptest -X: answers read slowly", "-X -w 512 -y 1024 -n 1 -z 32 -k 8", 1000,
                      most(READ, not_taken=NOT_TAKEN), "big"),
    "range": slow("slowhttptest -R: long Range fields", "-R -a 10 -b 3000", 1000, most(HEAD_SIZE)),
    "trickle": Attack("5,000 heads, an octet a second each", ("trickle", "5000"), 5000, most(1000)),
    "heads": Attack("heads of 16 KiB but for an octet", ("heads",), 5000, most(HEAD_SIZE)),
    "bodies": Attack("bodies of 1 MiB but for an octet", ("bodies",), 100, most(HEAD_SIZE + BODY_SIZE)),
    "announced": Attack("bodies of 1 MiB, one octet of them", ("announced",), 2000, most(100, ANNOUNCED)),
    "unread": Attack("2,000 answers of 64 KiB each, none read", ("unread",), 1000,
                     most(READ, not_taken=NOT_TAKEN)),
    "chunks": Attack("a million chunks of an octet", ("chunks",), 4, most(HEAD_SIZE + BODY_SIZE)),
    "pipeline": Attack("100,000 requests in one write", ("pipeline",), 4, most(READ, not_taken=NOT_TAKEN)),
}


def attack_command(attack, port, seconds):
    if attack.command[0].startswith("-"):
        return ["slowhttptest", *attack.command, "-c", str(attack.connections), "-r", "1000", "-p", "5", "-l",
                str(int(seconds)), "-u", f"http://127.0.0.1:{port}/{attack.path}"]
    mode, *pace = attack.command
    return [sys.executable, os.path.join(HERE, "attack.py"), mode, str(port), str(attack.connections), *pace]


@contextlib.contextmanager
def attacking(attack, server, folder, seconds):
    before = accepted(server, folder)
    with affinity(LOAD_CPUS):
        process = subprocess.Popen(attack_command(attack, server.port, seconds), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   preexec_fn=lambda: os.nice(5))
    try:
        if attack.path or attack.command[0].startswith("-"):
            drain = threading.Thread(target=process.stdout.read, daemon=True)
            drain.start()
            wait_for(lambda: accepted(server, folder) >= before + attack.connections, "all of the attack's connections",
                     READY_SECONDS, step=0.1)
        else:
            wait_until_ready(process)
        pause(SETTLE_SECONDS)
        yield process
    finally:
        process.kill()
        process.wait()


def accepted(server, folder):
    return read_stats(server, folder)["total"]["accept"]


def wait_until_ready(process):
    timer = threading.Timer(READY_SECONDS, process.kill)
    timer.start()
    line = process.stdout.readline()
    timer.cancel()
    if line != b"ready\n":
        raise Trouble(f"the attack did not begin: {line.decode(errors='replace')}")


class Memory:
    """The most that a process has had while this was open, in octets."""

    def __init__(self, pid):
        self.pid, self.most, self.done = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def now(self):
        for line in read_file(f"/proc/{self.pid}/status").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise Trouble("the worker has died")

    def watch(self):
        while not self.done.wait(0.05):
            self.most = max(self.most, self.now())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()


def set_up(tools, folder, port):
    routes = [{"path": path, "handler": handler_path(tools.whitecap, handler), "options": options}
              for path, handler, options in (("/", "hello", {}), ("/echo", "echo", {}),
                                             ("/big", "hello", {"text": "b" * 65536}))]
    return whitecap_command(tools.whitecap, folder, {
        "workers": 1, "listen": [f"127.0.0.1:{port}"], "admin": {"listen": None}, "routes": routes,
        "log": {"level": "error"}, "stats": {"file": os.path.join(folder, "stats.json")}})


def measure_once(tools, openloop, attack, seconds):
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        port = free_port()
        with Server(set_up(tools, folder, port), port, SERVER_CPUS, os.path.join(folder, "log")) as server:
            worker = descendants(server.process.pid)[-1]
            memory = Memory(worker)
            quiet = run_openloop(openloop, port, RATE, seconds, CONNECTIONS)
            before = memory.now()
            with memory, attacking(attack, server, folder, seconds + 30):
                busy = run_openloop(openloop, port, RATE, seconds, CONNECTIONS)
            return {
                "quiet_p99_us": quiet["all"]["p99_us"], "p99_us": busy["all"]["p99_us"],
                "ratio": busy["all"]["p99_us"] / quiet["all"]["p99_us"],
                "unanswered": busy["due"] - busy["status"].get("200", 0), "closed": busy["closed"],
                "octets": max(0, memory.most - before) / attack.connections,
            }


def summarize(attack, samples):
    summary = {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}
    return dict(summary, connections=attack.connections, most=attack.most, rounds=samples)


def results_table(results):
    rows = [["attack", "connections", "octets each", "at most", "p99 ms alone", "p99 ms attacked", "×",
             "not answered", "closed"]]
    for name, result in results.items():
        rows.append([ATTACKS[name].title, number(0)(result["connections"]), number(0)(result["octets"]),
                     number(0)(result["most"]), number(1)(result["quiet_p99_us"] / 1000),
                     number(1)(result["p99_us"] / 1000), number(1)(result["ratio"]),
                     number(0)(result["unanswered"]), number(0)(result["closed"])])
    return f"### {RATE:,} requests a second of {CONNECTIONS} well-behaved connections, one worker\n\n{table(rows)}"


class Openloop(NamedTuple):
    openloop: str


def measure_hostile(tools, folder, rounds, seconds, only):
    build.install("hostile")
    openloop = Openloop(build.build_program(folder, "openloop"))
    results = {}
    for name, attack in ATTACKS.items():
        if not only or name in only:
            results[name] = summarize(attack, [measure_once(tools, openloop, attack, seconds)
                                               for _ in range(rounds)])
            print(results_table({name: results[name]}).splitlines()[-1], flush=True)
    print("\n" + results_table(results), flush=True)
    return {"attacks": results}
