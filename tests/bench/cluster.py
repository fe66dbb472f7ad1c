# SPDX-License-Identifier: MIT
"""
HAProxy in front of three whitecaps: what restarting, upgrading and killing instances costs the clients of HAProxy.
"""
import contextlib
import csv
import os
import signal
import socket
import time
from typing import Callable, NamedTuple

from mobility import Busy
from processes import Server, Trouble, descendants, free_port, pause, read_file, wait_for
from report import number, table
from servers import fill_template, whitecap_command, whitecap_config

PROBE = b"PROXY UNKNOWN\r\nGET / HTTP/1.1\r\nHost: bench\r\n\r\n"
INSTANCES = 3


class Pace(NamedTuple):
    inter: str     # between two checks of HAProxy; two tell that an instance is not ready
    delay: str     # timeouts.drain_delay: so much longer that HAProxy has looked twice
    busy: int      # connections to HAProxy, in a closed loop
    rest: float    # seconds before, between and after what happens


FULL = Pace("250ms", "2s", 64, 3.0)
QUICK = Pace("100ms", "800ms", 16, 0.3)


class Cluster:
    """A context manager; `instances` are servers of processes.py, in the order of HAProxy's configuration."""

    def __init__(self, build, folder, pace):
        self.build, self.folder, self.pace = build, folder, pace
        self.port = free_port()
        self.stack = contextlib.ExitStack()
        self.instances = []

    def instance(self, index):
        folder = os.path.join(self.folder, str(index))
        os.mkdir(folder)
        port, admin = free_port(), free_port()
        config = whitecap_config(self.build, port, 1, {"/": ("hello", {})})
        config["listen"] = [{"address": f"127.0.0.1:{port}", "proxy_protocol": True}]
        config["admin"] = {"listen": f"127.0.0.1:{admin}"}
        config["timeouts"]["drain_delay"] = self.pace.delay
        config["log"]["level"] = "info"
        line = f"\tserver s{index} 127.0.0.1:{port} port {admin}"
        return Server(whitecap_command(self.build, folder, config), port, log=os.path.join(folder, "log"),
                      probe=PROBE), line

    def __enter__(self):
        self.instances, lines = zip(*map(self.instance, range(INSTANCES)))
        path = fill_template("cluster.cfg", self.folder, {
            "folder": self.folder, "port": self.port, "inter": self.pace.inter, "servers": "\n".join(lines)})
        with self.stack:
            for server in self.instances:
                self.stack.enter_context(server)
            self.stack.enter_context(Server(["haproxy", "-db", "-f", path], self.port,
                                            log=os.path.join(self.folder, "haproxy.log")))
            self.wait_up()
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *_):
        for server in self.instances:  # without the delay
            server.process.send_signal(signal.SIGINT)
        self.stack.close()

    def stats(self):
        """HAProxy's rows, by the server's name."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.path.join(self.folder, "haproxy.sock"))
            client.sendall(b"show stat\n")
            text = b"".join(iter(lambda: client.recv(65536), b"")).decode()
        rows = csv.DictReader(text.lstrip("# ").splitlines())
        return {row["svname"]: row for row in rows if row["pxname"] == "whitecap"}

    def wait_up(self):
        wait_for(lambda: all(self.stats()[f"s{i}"]["status"] == "UP" for i in range(INSTANCES)), "all instances up")

    def retries(self):
        total = self.stats()["BACKEND"]
        return int(total["wretr"]) + int(total["wredis"])

    def restart(self, server):
        """As a service manager without a store does it, or whoever moves it to another machine."""
        server.process.terminate()
        wait_for(lambda: server.process.poll() is not None, "the end of an instance")
        if server.process.returncode:
            raise Trouble(f"exit code {server.process.returncode}\n{server.last_words()}")
        server.spawn()
        server.wait_until_served()
        self.wait_up()

    def upgrade(self, server):
        count = read_file(server.log).count("reload done")
        os.kill(server.process.pid, signal.SIGUSR2)
        wait_for(lambda: read_file(server.log).count("reload done") > count, "the upgrade")


def restart_all(cluster):
    for server in cluster.instances:
        cluster.restart(server)


def upgrade_all(cluster):
    for server in cluster.instances:
        cluster.upgrade(server)
        pause(cluster.pace.rest / INSTANCES)


def kill_one(cluster):
    """The whole instance at once: its workers too."""
    server = cluster.instances[0]
    for pid in descendants(server.process.pid):
        os.kill(pid, signal.SIGKILL)
    server.process.wait()
    wait_for(lambda: cluster.stats()["s0"]["status"] == "DOWN", "the killed instance seen")
    server.spawn()
    server.wait_until_served()
    cluster.wait_up()


class Phase(NamedTuple):
    name: str
    act: Callable
    lossless: bool  # no request fails, and none needs to be tried again


PHASES = (
    Phase("rolling restart of all three", restart_all, True),
    Phase("upgrade of all three", upgrade_all, True),
    Phase("one instance killed", kill_one, False),
)


def play(cluster, phase):
    pace, before = cluster.pace, cluster.retries()
    with Busy(cluster.port, pace.busy, None) as busy:
        pause(pace.rest)
        begin = time.monotonic()
        phase.act(cluster)
        end = time.monotonic()
        pause(pace.rest)
        result = busy.result([[begin, end]])
    took = end - begin + 2 * pace.rest
    return dict(result, phase=phase.name, seconds=took, retries=cluster.retries() - before,
                kept=not phase.lossless or (result["failed"] == 0 and result["closed"] == 0 and result["refused"] == 0
                                            and cluster.retries() == before))


def cluster_table(results):
    rows = [["", "requests", "failed", "tried again", "requests/s", "p99.9 µs undisturbed", "p99.9 µs during", "promise"]]
    for phase, result in zip(PHASES, results):
        rows.append([result["phase"], number(0)(result["requests"]), number(0)(result["failed"]), number(0)(result["retries"]),
                     number(0)(result["requests"] / result["seconds"]), number(0)(result["p999_us"]),
                     number(0)(result["p999_event_us"]),
                     ("kept" if result["kept"] else "BROKEN") if phase.lossless else "none"])
    return table(rows)


def run(build, folder, pace):
    with Cluster(build, folder, pace) as cluster:
        results = [play(cluster, phase) for phase in PHASES]
    print(f"{pace.busy} connections to HAProxy, {INSTANCES} instances with one worker each\n\n{cluster_table(results)}")
    return results
