# SPDX-License-Identifier: MIT
"""What slow and greedy clients cost the others, and what memory they take: scripts/bench hostile.

In each round well-behaved clients (openloop) ask at a constant rate: alone, in the attack's first BURST_SECONDS,
and while it goes on, SETTLE_SECONDS after all of its connections have begun.  The same attack on another server
of the same CPU shows what of it is the machine's.
The attackers are those of attack.py and of slowhttptest; they run with less priority on the CPU of those clients.
"""
import contextlib
import json
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
from overload import LOAD_CPUS, SERVER_CPUS, openloop_command
from processes import Server, Trouble, affinity, descendants, free_port, pause, read_file, wait_for
from report import number, table
from servers import HERE, handler_path, whitecap_command

RATE, CONNECTIONS = 1000, 64
WARM_SECONDS, READY_SECONDS, SETTLE_SECONDS, BURST_SECONDS, LONGEST_SECONDS = 0.5, 60, 2, 1, 120

# The formula of whitecap(8), MEMORY.
CONNECTION, REQUEST, FIELD, FIRST = 256, 12288, 16, 4096
ANNOUNCED, NOT_TAKEN, READ = 32768, 262144, 65536
HEAD_SIZE, FIELDS, BODY_SIZE = 16384, 100, 1 << 20


def most(octets=0, announced=0, not_taken=0):
    """Octets that a connection inside a request may take, with so many of it read."""
    return CONNECTION + REQUEST + FIELD * FIELDS + max(FIRST, announced, 2 * octets + 2048) + not_taken


CRASHING = ("crash", "crashes")


class Attack(NamedTuple):
    title: str
    command: tuple    # of attack.py; or options of slowhttptest, and what it asks for
    connections: int
    most: int         # octets for each
    path: str = ""    # of slowhttptest
    workers: int = 1


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
    "connect": Attack("another connection for each request", ("connect",), 8, most(100)),
    "crash-1": Attack("the same; each crashes, one worker", ("crash",), 8, most(100)),
    "crash-2": Attack("the same; each crashes, two workers", ("crash",), 8, most(100), workers=2),
    "crashes": Attack("each crashes and is another one, two workers", ("crashes",), 8, most(100), workers=2),
}


class Tools(NamedTuple):
    whitecap: str  # its build
    openloop: str
    crash: str     # a handler


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


def resident(pid):
    for line in read_file(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


class Memory:
    """The most that a server's processes have had while this was open, in octets."""

    def __init__(self, pid):
        self.pid, self.most, self.done = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def now(self):
        return sum(map(resident, descendants(self.pid)))

    def watch(self):
        while not self.done.wait(0.05):
            self.most = max(self.most, self.now())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()


def set_up(tools, folder, port, workers):
    routes = [{"path": path, "handler": handler_path(tools.whitecap, handler), "options": options}
              for path, handler, options in (("/", "hello", {}), ("/echo", "echo", {}),
                                             ("/big", "hello", {"text": "b" * 65536}),
                                             ("/huge", "hello", {"text": "h" * 2097152}))]
    routes.append({"path": "/crash", "handler": tools.crash})
    return whitecap_command(tools.whitecap, folder, {
        "workers": workers, "listen": [f"127.0.0.1:{port}"], "admin": {"listen": None}, "routes": routes,
        "log": {"level": "error"}, "stats": {"file": os.path.join(folder, "stats.json")}})


def percentile_us(answers, begin, end):
    """The 99th of those that were due in between; without any answer, infinity."""
    latencies = sorted(us for due, us in answers if begin <= due < end)
    return latencies[int(len(latencies) * 0.99)] if latencies else math.inf


class Clients:
    """openloop while this is open; result() ends it."""

    def __init__(self, tools, port, folder):
        self.log = os.path.join(folder, "answers")
        self.command = openloop_command(tools, port, RATE, LONGEST_SECONDS, CONNECTIONS) + ["-l", self.log]
        self.process = None

    def __enter__(self):
        with affinity(LOAD_CPUS):
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def result(self):
        """Its figures, and when each request was due, in s, with its latency in µs."""
        self.process.terminate()
        figures = self.process.communicate(timeout=30)[0]
        if self.process.returncode:
            raise Trouble("openloop failed")
        lines = map(str.split, read_file(self.log).splitlines())
        return json.loads(figures), [(int(due) / 1e6, int(us)) for due, us in lines]


@contextlib.contextmanager
def serving(tools, workers=1):
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        port = free_port()
        with Server(set_up(tools, folder, port, workers), port, SERVER_CPUS, os.path.join(folder, "log")) as server:
            yield server, folder


def measure_once(tools, attack, seconds, elsewhere):
    """`elsewhere`: another server of the same CPU is attacked, which shows what that costs the machine."""
    with contextlib.ExitStack() as stack:
        server, folder = stack.enter_context(serving(tools, attack.workers))
        target = stack.enter_context(serving(tools, attack.workers)) if elsewhere else (server, folder)
        attacker = stack.enter_context(Attacker(attack, *target, seconds + 30))
        clients = stack.enter_context(Clients(tools, server.port, folder))
        pause(WARM_SECONDS)
        memory = Memory(server.process.pid)
        before = memory.now()
        with memory:
            start = time.monotonic()
            pause(seconds)
            begun = attacker.begin()
            attacker.wait_until_settled()
            settled = time.monotonic()
            pause(seconds)
            end = time.monotonic()
            figures, answers = clients.result()
    quiet, burst, later = (percentile_us(answers, *span) for span in (
        (start, begun), (begun, begun + BURST_SECONDS), (settled, end)))
    return {"quiet_p99_us": quiet, "burst_p99_us": burst, "p99_us": later, "burst_ratio": burst / quiet,
            "ratio": later / quiet, "closed": figures["closed"],
            "unanswered": figures["due"] - figures["status"].get("200", 0),
            "octets": max(0, memory.most - before) / attack.connections}


def measure_attack(tools, attack, seconds):
    control = measure_once(tools, attack, seconds, True)
    return dict(measure_once(tools, attack, seconds, False),
                **{f"elsewhere_{name}": value for name, value in control.items()})


def summarize(attack, samples):
    summary = {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}
    summary.update(connections=attack.connections, most=attack.most, rounds=samples)
    if attack.command[0] in CRASHING:  # processes that come and go say nothing of connections
        summary.update(octets=None, most=None)
    return summary


COLUMNS = (
    ("connections", "connections", 1, 0),
    ("octets each", "octets", 1, 0),
    ("at most", "most", 1, 0),
    ("p99 ms alone", "quiet_p99_us", 1000, 1),
    ("first second", "burst_p99_us", 1000, 1),
    ("×", "burst_ratio", 1, 1),
    ("× of an attack elsewhere", "elsewhere_burst_ratio", 1, 1),
    ("later", "p99_us", 1000, 1),
    ("×", "ratio", 1, 1),
    ("× of an attack elsewhere", "elsewhere_ratio", 1, 1),
    ("not answered", "unanswered", 1, 0),
    ("closed", "closed", 1, 0),
)


def results_table(results):
    rows = [["attack", *(title for title, *_ in COLUMNS)]]
    rows += [[ATTACKS[name].title, *(number(digits)(None if result[figure] is None else result[figure] / unit)
                                     for _, figure, unit, digits in COLUMNS)] for name, result in results.items()]
    return f"### {RATE:,} requests a second of {CONNECTIONS} well-behaved connections, one worker unless it says two\n\n{table(rows)}"


def measure_hostile(servers, folder, rounds, seconds, only):
    build.install("hostile")
    tools = Tools(servers.whitecap, build.build_program(folder, "openloop"), build.build_handler(folder, "crash"))
    results = {}
    for name, attack in ATTACKS.items():
        if not only or name in only:
            results[name] = summarize(attack, [measure_attack(tools, attack, seconds) for _ in range(rounds)])
            print(results_table({name: results[name]}).splitlines()[-1], flush=True)
    print("\n" + results_table(results), flush=True)
    return {"attacks": results}
