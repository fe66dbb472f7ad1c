# SPDX-License-Identifier: MIT
"""Load: wrk for the busy connections, a process of idle.py for those that rest."""
import json
import os
import subprocess
import sys

from processes import Trouble, affinity

HERE = os.path.dirname(os.path.abspath(__file__))
ERRORS = ("connect", "read", "write", "timeout", "status")


def run_wrk(port, request_file, depth, connections, seconds, cpus):
    """One run.  Returns wrk's figures; latencies in µs, with pipelining of a whole batch."""
    environment = dict(os.environ, BENCH_REQUEST=request_file, BENCH_DEPTH=str(depth),
                       BENCH_CONNECTIONS=str(connections))
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency",
               "-s", os.path.join(HERE, "request.lua"), f"http://127.0.0.1:{port}/"]
    with affinity(cpus):
        wrk = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    try:
        output = wrk.communicate(timeout=seconds + 30)[0]
    except BaseException:
        wrk.kill()
        wrk.wait()
        raise
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if wrk.returncode or not lines:
        raise Trouble(f"wrk failed:\n{output}")
    figures = json.loads(lines[-1])
    figures["errors"] = sum(figures[kind] for kind in ERRORS)
    return figures


class Idle:
    """Connections that rest.  A context manager; `closed` afterwards tells how many were lost."""

    def __init__(self, port, count, cpus=None):
        self.port, self.count, self.cpus = port, count, cpus
        self.process, self.closed = None, 0

    def __enter__(self):
        if self.count:
            command = [sys.executable, os.path.join(HERE, "idle.py"), str(self.port),
                       str(self.count)]
            with affinity(self.cpus):
                self.process = subprocess.Popen(command, stdin=subprocess.PIPE,
                                                stdout=subprocess.PIPE, text=True)
            if self.process.stdout.readline() != "ready\n":
                self.process.kill()
                raise Trouble(f"could not open {self.count} connections to port {self.port}")
        return self

    def __exit__(self, *_):
        if not self.process:
            return
        try:
            self.closed = int(self.process.communicate(timeout=30)[0])
        except (ValueError, subprocess.TimeoutExpired):
            self.closed = self.count
        finally:
            self.process.kill()
            self.process.wait()
