# SPDX-License-Identifier: MIT
"""Runs a command that daemonizes, becomes the parent of its daemon, and ends with it.  adopt.py COMMAND...

TERM goes to whoever is its child by then.
"""
import contextlib
import ctypes
import os
import signal
import sys

PR_SET_CHILD_SUBREAPER = 36


def end_children(*_):
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        for pid in file.read().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGTERM)


def main(command):
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.fork() == 0:
        os.execvp(command[0], command)
    signal.signal(signal.SIGTERM, end_children)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
