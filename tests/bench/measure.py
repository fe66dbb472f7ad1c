# SPDX-License-Identifier: MIT
"""The measurements: rounds of load over the subjects of a scenario, memory of idle connections,
time from start to the first answer."""
import contextlib
import os
import socket
import statistics
import subprocess
import tempfile
import time

from load import Idle, run_wrk
from processes import STOP_SECONDS, Server, Trouble, free_port, read_file
from scenarios import SCENARIOS

SERVER_CPUS, LOAD_CPUS = {0}, {1}
COUNTED = ("rps", "cpu_us", "user_us", "system_us", "p50_us", "p99_us", "p999_us")


def read_whole_answer(client):
    data = b""
    while b"\r\n\r\n" not in data:
        got = client.recv(65536)
        if not got:
            raise Trouble("connection closed in place of an answer")
        data += got
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n")
               if line.lower().startswith(b"content-length:")]
    while lengths and len(body) < int(lengths[0]):
        got = client.recv(65536)
        if not got:
            raise Trouble("connection closed inside an answer")
        body += got
    return head, body


class Running:
    """A subject that is up: its server and its idle connections, in a folder of its own."""

    def __init__(self, subject, tools):
        self.subject, self.tools = subject, tools
        self.samples, self.server, self.idle = [], None, None
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        subject, scenario = self.subject, self.subject.scenario
        with contextlib.ExitStack() as stack:
            self.server = start(stack, self.tools, subject.kind, scenario, subject.workers)
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
            self.request_file = os.path.join(folder, "request")
            with open(self.request_file, "wb") as file:
                file.write(scenario.request)
            self.check()
            self.idle = stack.enter_context(Idle(self.server.port, subject.idle, LOAD_CPUS))
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def check(self):
        """All must do the same work, or the figures say nothing."""
        scenario = self.subject.scenario
        with socket.create_connection(("127.0.0.1", self.server.port), 10) as client:
            client.sendall(scenario.request)
            head, body = read_whole_answer(client)
        bid = self.subject.kind.name.endswith("bidder")
        if b" 200 " not in head[:13] or not (bid or len(body) == scenario.answer):
            raise Trouble(f"{self.subject.label}: wrong answer to {scenario.name}: "
                          f"{head.decode(errors='replace')} ({len(body)} octets)")

    def load(self, seconds):
        subject = self.subject
        return run_wrk(self.server.port, self.request_file, subject.scenario.depth, subject.busy,
                       seconds, LOAD_CPUS)

    def sample(self, seconds):
        before = self.server.cpu()
        figures = self.load(seconds)
        cpu = self.server.cpu_since(before)
        requests = figures["requests"]
        if not requests:
            raise Trouble(f"{self.subject.label}: not one request answered")
        user = cpu.user / ((cpu.user + cpu.system) or 1)
        self.samples.append({
            "rps": requests / (figures["us"] / 1e6),
            "cpu_us": cpu.total / requests,
            "user_us": cpu.total / requests * user,
            "system_us": cpu.total / requests * (1 - user),
            "p50_us": figures["p50"], "p99_us": figures["p99"], "p999_us": figures["p999"],
            "errors": figures["errors"],
        })


def start(stack, tools, kind, scenario, workers):
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
    os.chmod(folder, 0o755)  # nginx's workers are another user when root runs this
    port = free_port()
    command = kind.set_up(tools, scenario, folder, port, workers)
    cpus = SERVER_CPUS if workers == 1 else None
    return stack.enter_context(Server(command, port, cpus, os.path.join(folder, "log"),
                                      scenario.request))


def ratio(samples, base, figure):
    """Median over the rounds: what disturbs a whole round disturbs both sides of its ratio."""
    return statistics.median(mine[figure] / (theirs[figure] or 1)
                             for mine, theirs in zip(samples, base))


def summarize(running, others):
    subject, samples = running.subject, running.samples
    result = {figure: statistics.median(sample[figure] for sample in samples) for figure in COUNTED}
    result["errors"] = sum(sample["errors"] for sample in samples)
    result["idle_closed"] = running.idle.closed
    for peer in ("loop", "nginx"):
        base = others.get(subject.peer(peer))
        result[f"cpu_to_{peer}"] = base and ratio(samples, base.samples, "cpu_us")
        result[f"rps_to_{peer}"] = base and ratio(samples, base.samples, "rps")
    alone = others.get((subject.kind.name, subject.workers, subject.busy))
    result["cpu_to_none_idle"] = alone and ratio(samples, alone.samples, "cpu_us")
    result.update(workers=subject.workers, connections=subject.connections, rounds=samples)
    return result


def measure_scenario(tools, subjects, rounds, seconds):
    """label → figures.  Every round gives each subject its turn, so that drift hits all alike."""
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(Running(subject, tools)) for subject in subjects]
        for _ in range(rounds):
            for each in running:
                each.sample(seconds)
    others = {each.subject.key: each for each in running}
    return {each.subject.label: summarize(each, others) for each in running}


def measure_idle_memory(tools, kind, count, warm=200):
    """Bytes of process memory per idle connection that has had one request answered."""
    with contextlib.ExitStack() as stack:
        server = start(stack, tools, kind, SCENARIOS[0], 1)
        with Idle(server.port, warm), contextlib.ExitStack() as held:
            before = settled_memory(server)
            held.enter_context(Idle(server.port, count))
            return (settled_memory(server) - before) / count


def settled_memory(server, seconds=3):
    deadline = time.monotonic() + seconds
    last, now = None, server.memory()
    while now != last and time.monotonic() < deadline:
        time.sleep(0.3)
        last, now = now, server.memory()
    return now


def measure_start(tools, kind, times):
    """ms from fork and exec to the first answer, one per start."""
    return [start_once(tools, kind) for _ in range(times)]


def start_once(tools, kind):
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        os.chmod(folder, 0o755)
        port, path = free_port(), os.path.join(folder, "log")
        command = [tools.start, str(port), *kind.set_up(tools, SCENARIOS[0], folder, port, 1)]
        with open(path, "ab") as log, \
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log) as starter:
            try:
                took_us = starter.stdout.readline()
                starter.stdin.close()  # it ends the server then
                starter.wait(STOP_SECONDS)
            finally:
                starter.kill()
        if not took_us:
            raise Trouble(f"{kind.name} did not start:\n{read_file(path)}")
        return int(took_us) / 1000
