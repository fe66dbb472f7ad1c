# SPDX-License-Identifier: MIT
"""Server processes: start them on chosen CPUs, read their clocks and memory, stop them by pid."""
import contextlib
import os
import resource
import signal
import socket
import subprocess
import time
from typing import NamedTuple

TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")
START_SECONDS = 15
STOP_SECONDS = 5


class Trouble(Exception):
    """Something that the person at the terminal should read; no traceback."""


class Cpu(NamedTuple):
    """CPU time of a process tree in µs: exact in total, the split by the kernel's ticks."""
    total: float
    user: float
    system: float

    def __add__(self, other):
        return Cpu(*(a + b for a, b in zip(self, other)))

    def __sub__(self, other):
        return Cpu(*(a - b for a, b in zip(self, other)))


NO_TIME = Cpu(0, 0, 0)
HELLO = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n"


def raise_file_limit():
    """Children inherit it: 10,000 connections need as many fds, and some."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


@contextlib.contextmanager
def affinity(cpus):
    """What is started inside runs on these CPUs; cheaper and quicker than taskset(1)."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def read_file(path):
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def descendants(pid):
    """The process and all below it."""
    found, todo = [], [pid]
    while todo:
        pid = todo.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                todo += map(int, read_file(f"/proc/{pid}/task/{task}/children").split())
    return found


def stat_fields(pid):
    """Fields of /proc/PID/stat from the third (the state) on; empty for a process that is gone."""
    return read_file(f"/proc/{pid}/stat").rpartition(")")[2].split()


def run_time_us(pid):
    """From the scheduler, in ns per thread: far finer than ticks."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0
    fields = (read_file(f"/proc/{pid}/task/{task}/schedstat").split() for task in tasks)
    return sum(int(field[0]) for field in fields if field) / 1000


def cpu_of(pid):
    fields = stat_fields(pid)
    return fields and Cpu(run_time_us(pid), int(fields[11]) * TICK_US, int(fields[12]) * TICK_US)


def pause(seconds):
    """Lets time pass that is part of what is measured, or the pace of a load."""
    time.sleep(seconds)


def wait_for(condition, what, seconds=20, step=0.01):
    """The first true value of condition()."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Trouble(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(step)


class Server:
    """One started server.  A context manager: leaving it stops the whole process tree."""

    def __init__(self, command, port, cpus=None, log=None, probe=HELLO, start_seconds=START_SECONDS):
        self.command, self.port, self.cpus, self.log, self.probe = command, port, cpus, log, probe
        self.start_seconds = start_seconds
        self.process = None

    def __enter__(self):
        self.spawn()
        try:
            self.wait_until_served()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def spawn(self):
        output = open(self.log, "ab") if self.log else subprocess.DEVNULL
        try:
            with affinity(self.cpus):
                self.process = subprocess.Popen(
                    self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        except OSError as error:
            raise Trouble(f"{self.command[0]}: {error.strerror}") from None
        finally:
            if self.log:
                output.close()

    def wait_until_served(self, pause=0.002):
        """Returns once the probe, a request, is answered: what counts as started."""
        deadline = time.monotonic() + self.start_seconds
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Trouble(f"did not start: {' '.join(self.command)}\n{self.last_words()}")
            time.sleep(pause)

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), START_SECONDS) as client:
                client.sendall(self.probe)
                return bool(client.recv(65536))
        except OSError:
            return False

    def last_words(self):
        return read_file(self.log)[-2000:] if self.log else ""

    def cpu(self):
        """Clocks of all processes, by pid."""
        return {pid: cpu_of(pid) for pid in descendants(self.process.pid)}

    def cpu_since(self, before):
        """What the tree has used since.  A process that has died took its time with it."""
        used = NO_TIME
        now = self.cpu()
        if not before.keys() <= now.keys() or not all(now.values()):
            raise Trouble(f"a process of {self.command[0]} died\n{self.last_words()}")
        for pid, clock in now.items():
            used += clock - before.get(pid, NO_TIME)
        return used

    def memory(self):
        """Proportional share of memory of the tree, in bytes."""
        total = 0
        for pid in descendants(self.process.pid):
            for line in read_file(f"/proc/{pid}/smaps_rollup").splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
        return total

    def stop(self):
        if not self.process:
            return
        pids = descendants(self.process.pid)
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
        self.process = None
