# SPDX-License-Identifier: MIT
"""System calls and allocations of a running server, counted."""
import collections
import mmap
import os
import re
import signal
import struct
import subprocess
import tempfile

from . import build, proc

CALL = re.compile(r"^(?:\d+ +)?(?:[\d.]+ +)?(\w+)\(")


class Strace:
    """with Strace(pid) as t: ...; then t.calls is a Counter, t.lines what strace wrote."""

    def __init__(self, pid, expression="all", inject=None, follow=True):
        self.program = build.needs_program("strace")
        self.pid, self.expression, self.follow = pid, expression, ["-f"] if follow else []
        self.inject = ["-e", "inject=%s:%s" % (expression, inject)] if inject else []
        self.calls, self.lines = collections.Counter(), []

    def __enter__(self):
        self.out = tempfile.NamedTemporaryFile(prefix="whitecap-it-", suffix=".strace")
        self.process = subprocess.Popen(
            [self.program, *self.follow, "-p", str(self.pid), "-e", "trace=" + self.expression, "-s", "64",
             *self.inject, "-o", self.out.name], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            proc.wait_until(lambda: self.attached(), "strace attached", 10)
        except proc.Timeout:
            self.process.kill()
            raise build.Skip("strace can't attach here") from None
        return self

    def attached(self):
        if self.process.poll() is not None:
            raise build.Skip("strace can't attach here")
        return proc.status(self.pid).get("TracerPid", "0").strip() == str(self.process.pid)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(10)
        with open(self.out.name, errors="replace") as f:
            self.lines = [line.rstrip("\n") for line in f]
        for line in self.lines:
            found = CALL.match(line)
            if found:
                self.calls[found.group(1)] += 1
        self.out.close()


class Allocations:
    """The counter of handlers/count_malloc.c: env for the server, then value()."""

    def __init__(self):
        library = build.compile_shared("count_malloc.c", "count_malloc")
        self.file = tempfile.NamedTemporaryFile(prefix="whitecap-it-", suffix=".count")
        self.file.write(bytes(mmap.PAGESIZE))
        self.file.flush()
        self.env = {"LD_PRELOAD": library, "COUNT_MALLOC": self.file.name}

    def value(self):
        return struct.unpack("Q", os.pread(self.file.fileno(), 8, 0))[0]


class Failures:
    """handlers/fail_malloc.c: env for the server; arm() says which allocation of whom fails."""

    def __init__(self):
        library = build.compile_shared("fail_malloc.c", "fail_malloc")
        self.file = tempfile.NamedTemporaryFile(prefix="whitecap-it-", suffix=".fail")
        os.chmod(self.file.name, 0o666)
        self.file.write(bytes(mmap.PAGESIZE))
        self.file.flush()
        self.page = mmap.mmap(self.file.fileno(), mmap.PAGESIZE)
        self.env = {"LD_PRELOAD": library, "FAIL_MALLOC": self.file.name}

    def arm(self, nth, pid=0, children_of=0, more=0):
        """The nth one from now on fails, and so many behind it."""
        struct.pack_into("qqqq", self.page, 0, 0, nth, more, 0)
        struct.pack_into("q", self.page, 0, pid or -children_of)

    def disarm(self):
        """How many have failed."""
        struct.pack_into("q", self.page, 0, 0)
        return struct.unpack_from("q", self.page, 24)[0]
