# SPDX-License-Identifier: MIT
"""Servers with a handler that crashes on request, and how their workers end."""
import json
import os
import signal

from whitecap_it import Server, build, proc

FAULTS = {"null": "SEGV", "wild": "SEGV", "wilder": "SEGV", "overflow": "SEGV", "divide": "FPE", "illegal": "ILL",
          "abort": "ABRT", "assert": "ABRT", "double-free": "ABRT", "heap": "ABRT", "stack": "ABRT",
          "malloc": "SEGV"}
# Those that the sanitizer's allocator and its build of the handler make into something else.
ALLOCATOR = ("double-free", "heap", "malloc")
PLACES = ("handle", "callback", "timer", "signal", "thread", "deaf-thread")
# All but clients with pending requests, who may be answered 500: see
# test_pending_requests_are_answered_500_or_run_again.
POPULATION = {"idle": 60, "busy": 4, "paced": 4, "half_head": 8, "half_body": 4, "half_large": 1, "half_chunked": 6,
              "continued": 2, "slow": 1, "pipelining": 4, "trickling": 6}


def crash_handler(replay=False):
    flags = ["-fstack-protector-all", "-U_FORTIFY_SOURCE", "-pthread", "-DREPLAY=%d" % replay]
    return build.compile_shared("crash.c", "crash-%d" % replay, flags)


def crash_server(workers=1, routes=(), **options):
    config = {"workers": workers, "stats": {"file": "stats.json"}, "routes": [
        {"path": "/*", "handler": build.move_handler()},
        {"path": "/c", "handler": crash_handler()},
        {"path": "/r", "handler": crash_handler(True)}, *routes]}
    config.update(options.pop("config", {}))
    config["timeouts"] = {"quarantine": 0, **config.get("timeouts", {})}
    return Server(config, crashes=True, errors=[r"ended: killed by SIG(SEGV|BUS|FPE|ILL|ABRT)", "handler has not returned", r"exit\(\) called",
                                                     r"crash\.c:\d+: assertion: Assertion `zero' failed"],
                  **options)


def kinds():
    return [k for k in FAULTS if not (build.sanitized() and k in ALLOCATOR)]


def ended(s, since=0):
    """How workers have ended, from the log."""
    return [m.group(1) for m in s.log.find(r"worker \d+ \(\d+\) ended: killed by SIG(\w+)", since)]


def stats(s):
    """The statistics, written now."""
    path = os.path.join(s.folder, "stats.json")
    if os.path.exists(path):
        os.remove(path)
    s.kill(signal.SIGUSR1)

    def read():
        try:
            with open(path, encoding="utf-8") as f:
                return json.load(f)
        except (OSError, ValueError):
            return None
    return proc.wait_until(read, "stats file")


def wait_replaced(s, count, workers):
    """Until so many workers have ended, and all are there again."""
    proc.wait_until(lambda: len(ended(s)) >= count and len(s.workers()) == workers,
                    lambda: "%d ends, %d workers:\n%s" % (count, workers, s.log.tail()), 20)


def forgive(s, count, workers):
    """After some crashes each a reload, which begins anew with the pauses between restarts."""
    if workers > 1 and count % (2 * workers) == 0:
        s.reload()


def culprit(s, query, seconds=15.0):
    """A connection that crashes its worker: 500, and it stays open."""
    with s.client(timeout=seconds) as c:
        r = c.get("/c?" + query)
        if query.endswith("@timer"):
            assert r.text == "armed", r
        else:
            assert r.status == 500 and not r.closes, (query, r)
        count = c.get("/c?x")
        assert count.status == 200 and count.text == "ok", (query, count)
