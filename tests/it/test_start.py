# SPDX-License-Identifier: MIT
"""What a start costs, counted: a clock says little about it on a machine that others use too."""
import os
import re
import signal
import tempfile

from whitecap_it import Server, kit_route, needs_plain, proc
from whitecap_it.build import needs_program
from whitecap_it.trace import Strace

CALL = re.compile(r"^(\d+) +(\w+)\((.*)")
LOAD = re.compile(r'AT_FDCWD, "/proc/self/fd/\d+", O_RDONLY')
HELLO = {"workers": 1, "routes": [{"path": "/", "handler": "hello"}]}
MINOR_FAULTS = 7  # of proc.stat_fields()


class Calls:
    """System calls of each process, in the order in which they came, up to the first message that it sent."""

    def __init__(self, lines):
        self.count, self.forks, self.loads, self.ready = {}, 0, [], []
        for line in lines:
            found = CALL.match(line)
            if found:
                self.add(int(found.group(1)), found.group(2), found.group(3))

    def add(self, pid, name, arguments):
        self.forks += name in ("clone", "clone3", "fork", "vfork")
        if name == "openat" and LOAD.match(arguments):
            self.loads.append((pid, list(self.ready)))
        if pid in self.ready:
            return
        self.count[pid] = self.count.get(pid, 0) + 1
        if name == "sendmsg":
            self.ready.append(pid)


def trace(config, end):
    """end(server) is when a server that is started under strace has done what is to be counted."""
    with tempfile.NamedTemporaryFile(prefix="whitecap-it-", suffix=".strace") as out:
        wrap = [needs_program("strace"), "-f", "-o", out.name]
        with Server(config, wrap=wrap, start=False, wait_ready=False, fds=False,
                    errors=["told to fail", "ended"]) as s:
            s.start()
            end(s)
        with open(out.name, errors="replace") as f:
            return Calls(f)


def replace_worker(s):
    old = s.worker
    os.kill(old, signal.SIGKILL)
    proc.wait_until(lambda: s.workers() not in ([], [old]), "another worker")
    assert s.get().status == 200


def test_a_start_costs_two_forks_and_few_calls():
    needs_plain()
    calls = trace(HELLO, lambda s: s.ready())
    assert calls.forks == 2, "%d forks, of the proving child and the worker" % calls.forks
    prover, worker, master = sorted(calls.count.values())
    assert master <= 330 and prover <= 50 and worker <= 76, calls.count


def test_a_worker_waits_for_the_proof():
    calls = trace(HELLO, lambda s: s.ready())
    (prover, before), (worker, proven) = calls.loads
    assert prover != worker and not before and prover in proven, calls.loads


def test_no_worker_loads_what_is_not_proven():
    calls = trace({"workers": 2, "routes": [kit_route("/", "ok", init="fail")]},
                  lambda s: proc.wait_until(lambda: s.process.poll() is not None, "the end"))
    assert len(calls.loads) == 1, "more than the proving child: %s" % calls.loads


def test_workers_that_wait_for_a_proof_stop_at_once_and_go_with_the_master():
    config = {"workers": 2, "routes": [kit_route("/", "ok", init="hang")]}
    for number, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        with Server(config, start=False, wait_ready=False, fds=False, exit_code=code) as s:
            s.start()
            proc.wait_until(lambda: len(s.workers()) == 3, "the proving child and two workers")
            waiting = s.workers()
            s.process.send_signal(number)
            assert s.process.wait(10) == code
            proc.wait_until(lambda: not any(map(proc.alive, waiting)), "no process", 10)


def test_a_worker_in_the_place_of_another_costs_one_fork_and_few_calls():
    needs_plain()
    with Server(HELLO, errors=["SIGKILL"], fds=False) as s:
        with Strace(s.pid) as traced:
            replace_worker(s)
        calls = Calls(traced.lines)
        assert calls.forks == 1, calls.forks
        assert calls.count[s.worker] <= 76, calls.count


def test_a_worker_in_the_place_of_another_touches_few_pages():
    """Each page that is touched first is a fault, the larger part of what a start costs."""
    needs_plain()
    with Server(HELLO, errors=["SIGKILL"], fds=False) as s:
        replace_worker(s)
        faults = int(proc.stat_fields(s.worker)[MINOR_FAULTS])
        assert 0 < faults <= 125, "%d page faults" % faults
