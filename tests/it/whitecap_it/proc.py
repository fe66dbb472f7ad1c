# SPDX-License-Identifier: MIT
"""What /proc says of processes, and waiting for a condition with a deadline."""
import collections
import ctypes
import os
import re
import select
import signal
import socket
import time

PR_SET_CHILD_SUBREAPER = 36
PIDFD_GETFD = 438  # Linux 5.6; the same on all machines


class Timeout(AssertionError):
    """A condition did not come true in time."""


def scale():
    """How much slower than a plain build the binary under test may be."""
    return float(os.environ.get("WHITECAP_IT_SCALE", "1"))


def pause(seconds):
    """Lets time pass where the passing of time is the matter of the test."""
    select.select([], [], [], seconds)


def wait_until(condition, what, seconds=10.0):
    """The first true value of condition(); Timeout when there is none in time.  what: text, or a call that gives it."""
    deadline = time.monotonic() + seconds * scale()
    step = 0.001
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise Timeout("not within %.1f s: %s" % (seconds * scale(), what() if callable(what) else what))
        pause(step)
        step = min(step * 1.5, 0.03)


def become_subreaper():
    """Orphans among the descendants become children of this process."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def stat_fields(pid):
    """Fields of /proc/PID/stat from the state on, or None."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            text = f.read()
    except OSError:
        return None
    return text[text.rindex(")") + 2:].split()


def state(pid):
    fields = stat_fields(pid)
    return fields[0] if fields else None


def alive(pid):
    return state(pid) not in (None, "Z", "X")


def gone(pids):
    """All gone; what became a child of this process is reaped on the way."""
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
    return not any(alive(p) for p in pids)


def title(pid):
    """What ps shows as the command."""
    try:
        with open("/proc/%d/cmdline" % pid) as f:
            return f.read().replace("\0", " ").strip()
    except OSError:
        return ""


def children(pid, zombies=False):
    """The children of pid, sorted: oldest first where numbers do not wrap."""
    out = []
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task)) as f:
                out += [int(word) for word in f.read().split()]
    except OSError:
        return []
    return sorted(p for p in out if zombies or alive(p))


def tree(pid):
    out, todo = [], [pid]
    while todo:
        one = todo.pop()
        out.append(one)
        todo += children(one)
    return out


def status(pid):
    with open("/proc/%d/status" % pid) as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def cpu_seconds(pid):
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def memory_kb(pids, key="Pss"):
    total = 0
    for pid in pids:
        with open("/proc/%d/smaps_rollup" % pid) as f:
            total += sum(int(line.split()[1]) for line in f if line.startswith(key + ":"))
    return total


def fd_targets(pid):
    """Number -> target of each open descriptor."""
    out = {}
    folder = "/proc/%d/fd" % pid
    try:
        for name in os.listdir(folder):
            try:
                out[int(name)] = os.readlink(os.path.join(folder, name))
            except OSError:
                pass
    except OSError:
        pass
    return out


def fd_kinds(pid):
    """
    How many descriptors of each kind: numbers of inodes and names of handlers left out, paths kept.  A statistics file
    that is being written and a time zone that is being read come and go.
    """
    return collections.Counter(re.sub(r":\[\d+\]$|(?<=^/memfd:).*\.so", "", t) for t in fd_targets(pid).values()
                               if "/.whitecap-" not in t and "/zoneinfo/" not in t)


def kill_quietly(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def set_send_buffers(pid, kind, size):
    """Of all sockets of that kind that a process holds; how many there are."""
    libc, count = ctypes.CDLL(None, use_errno=True), 0
    process = os.pidfd_open(pid)
    for number, target in fd_targets(pid).items():
        fd = libc.syscall(PIDFD_GETFD, process, number, 0) if target.startswith("socket:") else -1
        if fd < 0:
            continue
        with socket.socket(fileno=fd) as s:
            if s.type == kind:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
                count += 1
    os.close(process)
    return count


def reap_strays(known=()):
    """Kills and reaps children of this process but for the known; their command lines."""
    found = []
    for pid in children(os.getpid(), zombies=True):
        if pid in known:
            continue
        if alive(pid):
            try:
                with open("/proc/%d/cmdline" % pid) as f:
                    words = f.read().replace("\0", " ").strip()
                if words:  # else it is about to end: its memory is gone already
                    found.append("%d: %s" % (pid, words))
            except OSError:
                pass
            kill_quietly(pid)
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass
    return found
