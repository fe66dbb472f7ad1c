# SPDX-License-Identifier: MIT
"""Where a busy worker's CPU time goes, by perf's samples or, without perf, by callgrind."""
import collections
import contextlib
import os
import re
import subprocess
import tempfile
from typing import NamedTuple

import callgrind
from load import run_wrk
from measure import LOAD_CPUS, SERVER_CPUS
from processes import Server, Trouble, free_port, raise_file_limit
from scenarios import BUSY
from servers import whitecap_command, whitecap_config, write_file
from symbols import HandlerSymbols, readable

FREQUENCY = 4999
KERNEL = "system calls"
# The C library's wrappers: a few instructions around the system call, and where samples of the way
# into the kernel and back land.
WRAPPER = re.compile(r"_*(libc_)?(GI_)?_*(send|recv|sendto|recvfrom|sendmsg|recvmsg|readv?|"
                     r"writev?|epoll_p?wait2?|epoll_ctl|accept4?|close)$")
SAMPLE = re.compile(r"\s*([0-9a-f]+) (.*) \((.*)\)$")


class Profile(NamedTuple):
    source: str
    requests: int
    cpu_us: float     # per request
    user_share: float
    functions: dict   # outside system calls: function → share of all CPU time


def perf_event():
    """Cycles where the machine counts them, else the kernel's clock; None without perf."""
    with contextlib.suppress(OSError):
        counted = subprocess.run(["perf", "stat", "-e", "instructions", "true"],
                                 capture_output=True, text=True, check=False)
        if counted.returncode == 0 and "not supported" not in counted.stderr:
            return "cycles"
        with tempfile.TemporaryDirectory(prefix="profile-") as folder:
            clock = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-o",
                                    f"{folder}/data", "true"], capture_output=True, check=False)
            if clock.returncode == 0:
                return "cpu-clock"
    return None


def read_samples(path, handlers):
    """Function → samples; all of the kernel's and of the way there is one."""
    script = subprocess.run(["perf", "script", "-i", path, "-F", "ip,sym,dso"], text=True,
                            capture_output=True, errors="replace", check=False)
    samples = collections.Counter()
    for match in map(SAMPLE.match, script.stdout.splitlines()):
        if match:
            address, symbol, thing = match.groups()
            samples[function_name(int(address, 16), symbol, thing, handlers)] += 1
    if not samples:
        raise Trouble(f"perf took no samples:\n{script.stderr}")
    return samples


def function_name(address, symbol, thing, handlers):
    if address >> 63 or WRAPPER.match(symbol):
        return KERNEL
    return handlers.find(address) or readable(symbol, thing)


@contextlib.contextmanager
def recording(event, pid, path):
    perf = subprocess.Popen(["perf", "record", "-q", "-e", event, "-F", str(FREQUENCY), "-p",
                             str(pid), "-o", path], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        perf.terminate()  # it writes its file and ends
        perf.wait(30)


def profile(build, kind, seconds):
    """One worker on CPU 0 under 64 connections from CPU 1."""
    raise_file_limit()
    event = perf_event()
    with tempfile.TemporaryDirectory(prefix="profile-") as folder:
        port = free_port()
        config = whitecap_config(build, port, 1, callgrind.ROUTES)
        command = whitecap_command(build, folder, config)
        with Server(command, port, SERVER_CPUS, os.path.join(folder, "log")) as server:
            requests, cpu, samples = load_and_sample(server, build, kind, seconds, event, folder)
    functions = shares_by_samples(samples) if event else \
        shares_by_instructions(build, kind, cpu.user / (cpu.user + cpu.system))
    return Profile(f"perf, {event}" if event else "callgrind; the sum by the kernel's ticks",
                   requests, cpu.total / requests, sum(functions.values()), functions)


def load_and_sample(server, build, kind, seconds, event, folder):
    """Requests, CPU time and, where perf works, samples by function."""
    request = write_file(folder, "request", kind.request)
    path = os.path.join(folder, "samples")
    worker = callgrind.worker_of(server)
    run_wrk(server.port, request, kind.depth, BUSY, 1, LOAD_CPUS)  # warm
    before = server.cpu()
    with recording(event, worker, path) if event else contextlib.nullcontext():
        figures = run_wrk(server.port, request, kind.depth, BUSY, seconds, LOAD_CPUS)
    cpu = server.cpu_since(before)
    samples = read_samples(path, HandlerSymbols(worker, build)) if event else None
    return figures["requests"], cpu, samples


def shares_by_samples(samples):
    total = sum(samples.values())
    return {name: count / total for name, count in samples.most_common() if name != KERNEL}


def shares_by_instructions(build, kind, user_share):
    costs = callgrind.count_instructions(build, {"profile": kind})["profile"]
    total = sum(costs.values())
    return {name: cost / total * user_share for name, cost in costs.items()
            if not WRAPPER.match(name)}
