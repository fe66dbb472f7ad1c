# SPDX-License-Identifier: MIT
"""What slow and greedy clients cost the others, and what memory they take: scripts/bench hostile.

In each round well-behaved clients (openloop) ask at a constant rate: alone, in the attack's first BURST_SECONDS,
and while it goes on, SETTLE_SECONDS after all of its connections have begun.  The same burst against another server
of the same CPU shows what of it is the machine's.
The attackers are those of attack.py and of slowhttptest; they run with less priority on the CPU of those clients.
"""
import contextlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

import build
from mobility import read_stats
from overload import LOAD_CPUS, SERVER_CPUS, openloop_command, run_openloop
from processes import Server, Trouble, affinity, descendants, free_port, pause, read_file, wait_for
from report import number, table
from servers import HERE, handler_path, whitecap_command

RATE, CONNECTIONS = 1000, 64
READY_SECONDS, SETTLE_SECONDS, BURST_SECONDS = 60, 2, 1

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
    "huge": Attack("answers of 2 MiB each, not read", ("huge",), 1000, most(READ, not_taken=NOT_TAKEN)),
    "chunks": Attack("a million chunks of an octet", ("chunks",), 4, most(HEAD_SIZE + BODY_SIZE)),
    "pipeline": Attack("100,000 requests in one write", ("pipeline",), 4, most(READ, not_taken=NOT_TAKEN)),
}


def attack_command(attack, port, seconds):
    if attack.command[0].startswith("-"):
        return ["slowhttptest", *attack.command, "-c", str(attack.connections), "-r", "1000", "-p", "5", "-l",
                str(int(seconds)), "-u", f"http://127.0.0.1:{port}/{attack.path}"]
    mode, *pace = attack.command
    return [sys.executable, os.path.join(HERE, "attack.py"), mode, str(port), str(attack.connections), *pace]


class Attacker:
    """A context manager: begin() begins the attack, which then goes on while this is open."""

    def __init__(self, attack, server, folder, seconds):
        self.attack, self.server, self.folder = attack, server, folder
        self.command = attack_command(attack, server.port, seconds)
        self.tool = attack.command[0].startswith("-")
        self.process, self.before = None, 0

    def spawn(self):
        with affinity(LOAD_CPUS):
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, preexec_fn=lambda: os.nice(5))

    def __enter__(self):
        if not self.tool:
            self.spawn()
            self.read_line("waits")
        return self

    def begin(self):
        """When that was, by the monotonic clock."""
        if self.tool:
            self.before = self.accepted()
            self.spawn()
            return time.monotonic()
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return float(self.read_line("begins"))

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.communicate()

    def read_line(self, word):
        timer = threading.Timer(READY_SECONDS, self.process.kill)
        timer.start()
        line = self.process.stdout.readline().decode(errors="replace")
        timer.cancel()
        if not line.startswith(word):
            raise Trouble(f"the attack did not begin: {line}")
        return line[len(word):]

    def wait_until_settled(self):
        if self.tool:
            threading.Thread(target=self.process.stdout.read, daemon=True).start()
            wait_for(lambda: self.accepted() >= self.before + self.attack.connections,
                     "all of the attack's connections", READY_SECONDS, step=0.1)
        else:
            self.read_line("ready")
        pause(SETTLE_SECONDS)

    def accepted(self):
        return read_stats(self.server, self.folder)["total"]["accept"]


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
                                             ("/big", "hello", {"text": "b" * 65536}),
                                             ("/huge", "hello", {"text": "h" * 2097152}))]
    return whitecap_command(tools.whitecap, folder, {
        "workers": 1, "listen": [f"127.0.0.1:{port}"], "admin": {"listen": None}, "routes": routes,
        "log": {"level": "error"}, "stats": {"file": os.path.join(folder, "stats.json")}})


def percentile_us(answers, begin, end):
    """The 99th of those that were due in between; without any answer, infinity."""
    latencies = sorted(us for due, us in answers if begin <= due < end)
    return latencies[int(len(latencies) * 0.99)] if latencies else math.inf


def watch_burst(openloop, attacker, port, folder, seconds):
    """The attack begins while openloop has its clients ask."""
    log = os.path.join(folder, "answers")
    command = openloop_command(openloop, port, RATE, seconds + BURST_SECONDS + 1, CONNECTIONS) + ["-l", log]
    with affinity(LOAD_CPUS):
        load = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    pause(seconds + 0.5)
    begun = attacker.begin()
    if load.wait(3 * seconds + 60):
        raise Trouble("openloop failed")
    answers = [(int(due) / 1e6, int(us)) for due, us in map(str.split, read_file(log).splitlines())]
    return {"quiet_p99_us": percentile_us(answers, 0, begun),
            "burst_p99_us": percentile_us(answers, begun, begun + BURST_SECONDS)}


@contextlib.contextmanager
def serving(tools):
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        port = free_port()
        with Server(set_up(tools, folder, port), port, SERVER_CPUS, os.path.join(folder, "log")) as server:
            yield server, folder


def measure_once(tools, openloop, attack, seconds):
    with serving(tools) as (server, folder), Attacker(attack, server, folder, seconds + 30) as attacker:
        memory = Memory(descendants(server.process.pid)[-1])
        run_openloop(openloop, server.port, RATE, 0.2, CONNECTIONS)
        before = memory.now()
        with memory:
            result = watch_burst(openloop, attacker, server.port, folder, seconds)
            attacker.wait_until_settled()
            busy = run_openloop(openloop, server.port, RATE, seconds, CONNECTIONS)
    return dict(result, p99_us=busy["all"]["p99_us"], closed=busy["closed"],
                ratio=busy["all"]["p99_us"] / result["quiet_p99_us"],
                burst_ratio=result["burst_p99_us"] / result["quiet_p99_us"],
                unanswered=busy["due"] - busy["status"].get("200", 0),
                octets=max(0, memory.most - before) / attack.connections)


def measure_elsewhere(tools, openloop, attack, seconds):
    """The same burst against another server of the same CPU: what it costs the machine, whoever is attacked."""
    with serving(tools) as (server, folder), serving(tools) as (other, its_folder), \
            Attacker(attack, other, its_folder, seconds + 30) as attacker:
        result = watch_burst(openloop, attacker, server.port, folder, seconds)
    return {"elsewhere_p99_us": result["burst_p99_us"],
            "elsewhere_ratio": result["burst_p99_us"] / result["quiet_p99_us"]}


def summarize(attack, samples):
    summary = {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}
    return dict(summary, connections=attack.connections, most=attack.most, rounds=samples)


COLUMNS = (
    ("connections", "connections", 1, 0),
    ("octets each", "octets", 1, 0),
    ("at most", "most", 1, 0),
    ("p99 ms alone", "quiet_p99_us", 1000, 1),
    ("attacked", "p99_us", 1000, 1),
    ("×", "ratio", 1, 1),
    ("first second", "burst_p99_us", 1000, 1),
    ("×", "burst_ratio", 1, 1),
    ("of an attack elsewhere", "elsewhere_p99_us", 1000, 1),
    ("×", "elsewhere_ratio", 1, 1),
    ("not answered", "unanswered", 1, 0),
    ("closed", "closed", 1, 0),
)


def results_table(results):
    rows = [["attack", *(title for title, *_ in COLUMNS)]]
    rows += [[ATTACKS[name].title, *(number(digits)(result[figure] / unit) for _, figure, unit, digits in COLUMNS)]
             for name, result in results.items()]
    return f"### {RATE:,} requests a second of {CONNECTIONS} well-behaved connections, one worker\n\n{table(rows)}"


class Openloop(NamedTuple):
    openloop: str


def measure_hostile(tools, folder, rounds, seconds, only):
    build.install("hostile")
    openloop = Openloop(build.build_program(folder, "openloop"))
    results = {}
    for name, attack in ATTACKS.items():
        if not only or name in only:
            results[name] = summarize(attack, [dict(measure_once(tools, openloop, attack, seconds),
                                                    **measure_elsewhere(tools, openloop, attack, seconds))
                                               for _ in range(rounds)])
            print(results_table({name: results[name]}).splitlines()[-1], flush=True)
    print("\n" + results_table(results), flush=True)
    return {"attacks": results}
