#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Runs the integration tests: every function test_* of every test_*.py in this folder.

    run.py [--build-dir DIR] [-k PATTERN] [-j N] [--list]

Each test runs in a process of its own, which is the reaper of all that it starts.  One line per
test; at the end "failed NAME: why" for each that did, and "N passed, N failed, N skipped".  Exit
status 1 when one failed.
"""
import argparse
import glob
import importlib
import os
import re
import signal
import sys
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
TIME_LIMIT = 90
WHY_SIZE = 300
NOTED = {"fail": "failed", "skip": "skipped"}


def collect(pattern):
    tests = []
    for path in sorted(glob.glob(os.path.join(HERE, "test_*.py"))):
        module = importlib.import_module(os.path.basename(path)[:-3])
        for name, value in vars(module).items():
            if name.startswith("test_") and callable(value) and value.__module__ == module.__name__:
                full = "%s.%s" % (module.__name__[5:], name[5:])
                if not pattern or re.search(pattern, full):
                    tests.append((full, value))
    return tests


def why(error):
    """One line: the last line of the test's own module that was reached, and what was said there."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if os.path.basename(f.filename).startswith("test_")] or frames
    said = " ".join("".join(traceback.format_exception_only(type(error), error)).split())
    return "%s:%d: %s: %s" % (os.path.basename(own[-1].filename), own[-1].lineno, own[-1].line, said[:WHY_SIZE])


def run_test(function, out):
    """In the child: runs the test, writes "pass", "skip reason" or "fail why" and more lines; never returns."""
    from whitecap_it import Skip, proc
    os.setpgid(0, 0)
    proc.become_subreaper()

    def on_alarm(*_):
        raise AssertionError("not done within the time limit")

    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(int(TIME_LIMIT * proc.scale()))
    try:
        function()
        strays = proc.reap_strays()
        verdict = "fail left running: %s" % "; ".join(strays) if strays else "pass"
    except Skip as reason:
        verdict = "skip %s" % reason
    except BaseException as error:
        verdict = "fail %s\n%s" % (why(error), traceback.format_exc())
    proc.reap_strays()
    with os.fdopen(out, "w") as f:
        f.write(verdict)
    sys.stdout.flush()
    os._exit(0)


class Runner:
    def __init__(self, jobs):
        self.jobs, self.running = jobs, {}
        self.counts = {"pass": 0, "fail": 0, "skip": 0}
        self.slowest = []
        self.notes = []

    def start(self, name, function):
        reader, writer = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            run_test(function, writer)
        os.close(writer)
        self.running[pid] = (name, reader, time.monotonic())

    def finish_one(self):
        """Waits for the end of a test.  Other children are strays of one that was killed."""
        while True:
            pid, _ = os.wait()
            if pid in self.running:
                break
        name, reader, start = self.running.pop(pid)
        with os.fdopen(reader) as f:
            verdict = f.read() or "fail the test's process died"
        kind, _, text = verdict.partition(" ")
        took = time.monotonic() - start
        self.counts[kind] += 1
        self.slowest.append((took, name))
        if kind != "pass":
            self.notes.append("%s %s: %s" % (NOTED[kind], name, text.split("\n", 1)[0][:WHY_SIZE]))
        print("%-4s %s (%.1f s)%s" % (kind, name, took, "" if kind == "pass" else ": " + text.rstrip()))
        sys.stdout.flush()

    def run(self, tests):
        """Tests marked alone measure: they run after the others, one by one."""
        together = [t for t in tests if not getattr(t[1], "alone", False)]
        together.sort(key=lambda t: not getattr(t[1], "long", False))
        for jobs, part in ((self.jobs, together), (1, [t for t in tests if t not in together])):
            for name, function in part:
                while len(self.running) >= jobs:
                    self.finish_one()
                self.start(name, function)
            while self.running:
                self.finish_one()


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    ap.add_argument("--build-dir", help="where src/whitecap is (default: here, or the source tree)")
    ap.add_argument("-k", dest="pattern", help="only tests whose name this regular expression finds")
    ap.add_argument("-j", dest="jobs", type=int, default=len(os.sched_getaffinity(0)),
                    help="so many tests at a time (default: as many as there are processors)")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--slowest", type=int, default=0, help="also print the N slowest")
    a = ap.parse_args()
    if a.build_dir:
        os.environ["WHITECAP_BUILD_DIR"] = os.path.abspath(a.build_dir)
    tests = collect(a.pattern)
    if a.list:
        print("\n".join(name for name, _ in tests))
        return 0
    from whitecap_it import build, proc
    os.environ["WHITECAP_BUILD_DIR"] = build.build_dir()
    if build.sanitized():
        os.environ.setdefault("WHITECAP_IT_SCALE", "4")
    proc.become_subreaper()
    runner = Runner(a.jobs)
    runner.run(tests)
    proc.reap_strays()
    for took, name in sorted(runner.slowest, reverse=True)[:a.slowest]:
        print("%6.1f s %s" % (took, name))
    for line in sorted(runner.notes, reverse=True):
        print(line)
    print("%(pass)d passed, %(fail)d failed, %(skip)d skipped" % runner.counts)
    return 1 if runner.counts["fail"] or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
