# SPDX-License-Identifier: MIT
"""What reloads, upgrades and crashes of a worker cost the clients of whitecap, nginx and HAProxy, and what moving a connection
costs whitecap: scripts/bench mobility."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from load import HERE, Idle
from processes import (Server, Trouble, affinity, descendants, free_port, pause, read_file,
                       stat_fields, wait_for)
from report import number, table
from scenarios import SCENARIOS
from servers import (HAPROXY, NGINX, WHITECAP, set_up_haproxy, set_up_nginx, set_up_whitecap, whitecap_command,
                     whitecap_config)

SERVER_CPUS, LOAD_CPUS = {0}, {1}
BUSY, IDLE, RELOADS, WORKERS = 64, 1000, 10, 2
EVERY = 1.0          # seconds from one event to the next
EVENT_SECONDS = 0.5  # what counts as during an event
MOVED = (5000, 15000)
COST_RELOADS = 5


class Busy:
    """A process of busy.py."""

    def __init__(self, port, count, cpus):
        with affinity(cpus):
            self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "busy.py"), str(port), str(count)],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise Trouble(f"could not open {count} connections to port {port}")

    def result(self, spans):
        output = self.process.communicate(json.dumps(spans) + "\n", timeout=60)[0]
        return json.loads(output)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def signal_master(server, which):
    os.kill(server.process.pid, which)


def reload_by(which):
    return lambda server, folder: signal_master(server, which)


def set_up_haproxy_master(*arguments):
    return ["haproxy", "-W", *set_up_haproxy(*arguments)[1:]]


def crash_worker(server, folder):
    """The kernel's way of ending a process that reads from nowhere."""
    os.kill(descendants(server.process.pid)[-1], signal.SIGSEGV)


def set_up_nginx_daemon(*arguments):
    """nginx ignores USR2 unless it has daemonized."""
    return [sys.executable, os.path.join(HERE, "adopt.py"), *set_up_nginx(*arguments, daemon="on")]


def read_pid(path, other_than=None):
    return int(wait_for(lambda: {read_file(path).strip()} - {"", str(other_than)}, f"{path}, by nginx", 5).pop())


def upgrade_nginx(server, folder):
    """As its manual says: USR2 starts the new binary beside the old one, QUIT ends that."""
    path = os.path.join(folder, "nginx.pid")
    old = read_pid(path)
    os.kill(old, signal.SIGUSR2)
    read_pid(path, other_than=old)
    os.kill(old, signal.SIGQUIT)


# HAProxy executes the binary on disk at each reload.
SUBJECTS = (
    (WHITECAP, set_up_whitecap, reload_by(signal.SIGHUP), set_up_whitecap, reload_by(signal.SIGUSR2)),
    (NGINX, set_up_nginx, reload_by(signal.SIGHUP), set_up_nginx_daemon, upgrade_nginx),
    (HAPROXY, set_up_haproxy_master, reload_by(signal.SIGUSR2), set_up_haproxy_master, reload_by(signal.SIGUSR2)),
)


@contextlib.contextmanager
def running(tools, set_up, workers=WORKERS):
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        os.chmod(folder, 0o755)
        port = free_port()
        command = set_up(tools, SCENARIOS[0], folder, port, workers)
        with Server(command, port, SERVER_CPUS, os.path.join(folder, "log")) as server:
            yield server, folder


def play(server, folder, act, times):
    """The spans of time of the events."""
    spans = []
    pause(2 * EVERY)
    for _ in range(times):
        begin = time.monotonic()
        act(server, folder)
        pause(max(0.0, begin + EVERY - time.monotonic()))
        spans.append([begin, begin + EVENT_SECONDS])
    pause(EVERY)
    return spans


def measure_events(tools, set_up, act, times):
    with running(tools, set_up) as (server, folder):
        idle = Idle(server.port, IDLE, LOAD_CPUS)
        with idle, Busy(server.port, BUSY, LOAD_CPUS) as busy:
            result = busy.result(play(server, folder, act, times))
        result["idle_closed"] = idle.closed
    return result


def set_up_mover(tools, _, folder, port, workers):
    config = whitecap_config(tools.whitecap, port, workers, {"/": ("hello", {})})
    config["stats"] = {"file": os.path.join(folder, "stats.json")}
    return whitecap_command(tools.whitecap, folder, config)


def read_stats(server, folder):
    path = os.path.join(folder, "stats.json")
    with contextlib.suppress(OSError):
        os.remove(path)
    signal_master(server, signal.SIGUSR1)
    wait_for(lambda: os.path.exists(path), "statistics, by whitecap", 5)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def reload_and_wait(server, folder, count):
    """ms that it took to move `count` connections."""
    before = read_stats(server, folder)
    signal_master(server, signal.SIGHUP)
    stats = wait_for_stats(server, folder, lambda stats: stats["generation"] > before["generation"] and (
        stats["total"]["moved"]["in"] >= before["total"]["moved"]["in"] + count), f"all of {count} connections moved")
    return stats["last_move"]["ms"] if count else 0


def move_all(tools, count, reloads):
    """(ms of each move, CPU µs of the whole server, connections closed)"""
    times = []
    with running(tools, set_up_mover) as (server, folder):
        idle = Idle(server.port, count, LOAD_CPUS)
        with idle:
            for _ in range(reloads):
                pause(1.2)  # then it is a move of its own
                times.append(reload_and_wait(server, folder, count))
            cpu = usage_of(server)
    return times, cpu, idle.closed


def crash_holder(tools, count):
    """(ms from the fault of the worker that holds all until the last connection is another one's, connections closed)"""
    def set_up(*arguments):
        return [*set_up_mover(*arguments[:-1], 1), "-o", "rebalance=false"]

    with running(tools, set_up) as (server, folder):
        with Idle(server.port, count, LOAD_CPUS) as idle:
            holder, = set(descendants(server.process.pid)) - {server.process.pid}
            signal_master(server, signal.SIGTTIN)
            wait_for_stats(server, folder, lambda stats: len(ready_workers(stats)) == 2, "a second worker")
            pause(1.2)  # then it is a move of its own
            os.kill(holder, signal.SIGSEGV)
            stats = wait_for_stats(server, folder, lambda stats: stats["total"]["moved"]["in"] >= count, "all moved")
        return stats["last_move"]["ms"], idle.closed


def ready_workers(stats):
    return [worker for worker in stats["workers"] if worker["state"] == "ready"]


def wait_for_stats(server, folder, condition, what):
    def look():
        stats = read_stats(server, folder)
        return condition(stats) and stats
    return wait_for(look, what, step=0.05)


def measure_crashes(tools, count, times):
    results = [crash_holder(tools, count) for _ in range(times)]
    return {"ms": sorted(ms for ms, _ in results), "closed": sum(closed for _, closed in results)}


def kill_worker(server):
    """ms from SIGKILL of the only worker to the first answer of its replacement."""
    worker = descendants(server.process.pid)[-1]
    begin = time.monotonic()
    os.kill(worker, signal.SIGKILL)
    server.wait_until_served()
    took = (time.monotonic() - begin) * 1000
    wait_for(lambda: not stat_fields(worker), "the end of the worker", 5)
    return took


def measure_replacements(tools, set_up, times):
    with running(tools, set_up, 1) as (server, _):
        taken = []
        for _ in range(times):
            pause(EVERY)  # quicker than that, and masters begin to wait
            taken.append(kill_worker(server))
    return sorted(taken)


def usage_of(server):
    """CPU µs of the master, its children that are gone, and those that are there."""
    total = 0.0
    for pid in descendants(server.process.pid):
        fields = read_file(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if fields:
            total += sum(map(int, fields[11:13])) * 1e6 / os.sysconf("SC_CLK_TCK")
            if pid == server.process.pid:
                total += sum(map(int, fields[13:15])) * 1e6 / os.sysconf("SC_CLK_TCK")
    return total


def measure_move(tools, count):
    base = move_all(tools, 0, COST_RELOADS)[1] - move_all(tools, 0, 0)[1]
    opened = move_all(tools, count, 0)[1]
    times, cpu, closed = move_all(tools, count, COST_RELOADS)
    return {"ms": sorted(times), "closed": closed,
            "cpu_us_per_move": (cpu - opened - base) / (count * COST_RELOADS)}


def events_table(results):
    rows = [["server", "event", "busy closed", "idle closed", "requests failed", "requests/s",
             "p99.9 µs undisturbed", "p99.9 µs during"]]
    for (name, event), result in results.items():
        rows.append([name, event, number(0)(result["closed"]), number(0)(result["idle_closed"]),
                     number(0)(result["failed"]), number(0)(result["requests"] / result["seconds"]),
                     number(0)(result["p999_us"]), number(0)(result["p999_event_us"])])
    return f"### Reloads, upgrades and crashes: {BUSY} busy and {IDLE} idle connections\n\n{table(rows)}"


def moves_table(results):
    rows = [["connections", "ms to move all (median)", "slowest", "CPU µs per move", "closed"]]
    for count, result in results.items():
        rows.append([f"{count:,}", number(1)(result["ms"][len(result["ms"]) // 2]), number(1)(result["ms"][-1]),
                     number(1)(result["cpu_us_per_move"]), number(0)(result["closed"])])
    return f"### Moving idle connections of whitecap at a reload, {WORKERS} workers\n\n{table(rows)}"


def crashes_table(results):
    rows = [["connections", "ms from the fault to the last (median)", "slowest", "closed"]]
    for count, result in results.items():
        rows.append([f"{count:,}", number(1)(result["ms"][len(result["ms"]) // 2]), number(1)(result["ms"][-1]),
                     number(0)(result["closed"])])
    return f"### A crash of the worker of whitecap that holds all connections, one other is there\n\n{table(rows)}"


def replacements_table(results):
    rows = [["server", "ms from SIGKILL to the first answer (median)", "slowest"]]
    rows += [[name, number(1)(taken[len(taken) // 2]), number(1)(taken[-1])] for name, taken in results.items()]
    return f"### The only worker is killed\n\n{table(rows)}"


def measure_mobility(tools, quick=False):
    reloads = 2 if quick else RELOADS
    events, moves, crashes = {}, {}, {}
    for kind, set_up, reload, set_up_upgrade, upgrade in SUBJECTS:
        for event, set_up_it, act, times in (("%d reloads" % reloads, set_up, reload, reloads),
                                             ("1 upgrade", set_up_upgrade, upgrade, 1),
                                             ("1 crash", set_up, crash_worker, 1)):
            result = measure_events(tools, set_up_it, act, times)
            result["seconds"] = (times + 3) * EVERY
            events[kind.name, event] = result
    print(events_table(events), flush=True)
    for count in MOVED[:1] if quick else MOVED:
        if count < tools.connections:
            moves[count] = measure_move(tools, count)
            crashes[count] = measure_crashes(tools, count, 1 if quick else 5)
    replacements = {kind.name: measure_replacements(tools, kind.set_up, 3 if quick else 15)
                    for kind in (WHITECAP, NGINX)}
    print("\n\n".join(("", moves_table(moves), crashes_table(crashes), replacements_table(replacements))), flush=True)
    return {"events": [dict(result, server=name, event=event) for (name, event), result in events.items()],
            "moves": moves, "crashes": crashes, "replacements": replacements}
