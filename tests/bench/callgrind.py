# SPDX-License-Identifier: MIT
"""Instructions per request in user space, exact and repeatable: a worker under callgrind.

One connection asks, waits for the answer and asks again, so that nothing hangs on timing.  A base
run plays a fixed number of requests of every kind; a kind's own run plays more of it at the end:
the difference is what the additional requests cost, without start, loading and warming up.
"""
import collections
import contextlib
import os
import re
import socket
import tempfile
from typing import NamedTuple

from build import build_seed
from processes import Server, Trouble, descendants, free_port, read_file, wait_for
from scenarios import bid_request, get
from servers import bidder_options, whitecap_command, whitecap_config
from symbols import HandlerSymbols, readable

WARM, COUNTED = 64, 960
START_SECONDS = 60  # fifty times slower, on a machine that does other things too
ROUTES = {"/": ("hello", {}), "/echo": ("echo", {}), "/bid": ("bidder", bidder_options())}


class Kind(NamedTuple):
    """A kind of request, sent `depth` at a time."""
    title: str
    request: bytes
    depth: int = 1


KINDS = {
    "get": Kind("GET, 12 bytes", get()),
    "echo": Kind("POST, bid request to echo", bid_request("/echo")),
    "bidder": Kind("POST, bid request to bidder", bid_request("/bid")),
    "pipelined": Kind("GET, 12 bytes, pipelined 16 deep", get(), 16),
}


class Client:
    """One keep-alive connection that asks in lock step."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.data = b""

    def close(self):
        self.socket.close()

    def play(self, kind, count):
        for _ in range(count // kind.depth):
            self.socket.sendall(kind.request * kind.depth)
            for _ in range(kind.depth):
                self.skip_answer()

    def skip_answer(self):
        while b"\r\n\r\n" not in self.data:
            self.receive()
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise Trouble(f"unexpected answer: {head.decode(errors='replace')}")
        length = int(re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)[1])
        while len(self.data) < length:
            self.receive()
        self.data = self.data[length:]

    def receive(self):
        got = self.socket.recv(65536)
        if not got:
            raise Trouble("connection closed in place of an answer")
        self.data += got


def read_costs(path, handlers):
    """Function → its own instructions, from a file of callgrind's."""
    costs = collections.Counter()
    function = thing = ""
    of_called = False
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("ob="):
                thing = line[3:].strip()
            elif line.startswith("fn="):
                function = readable(line[3:].strip(), thing)
            elif line.startswith("calls="):
                of_called = True  # the next line is what the called function cost
            elif line.startswith("0x"):
                if not of_called:
                    address, _, cost = line.split()
                    name = thing == "???" and handlers.find(int(address, 16))
                    costs[name or function] += int(cost)
                of_called = False
    return costs


def worker_of(server):
    """The one beside the master, once the proving child has gone."""
    def children():
        return [pid for pid in descendants(server.process.pid) if pid != server.process.pid]

    wait_for(lambda: len(children()) == 1, lambda: f"one worker beside the master, found {len(children())}", 60)
    return children()[0]


def count_run(directory, plan, timeouts=None):
    """Costs of the worker's whole life, in which it answers plan's requests: (kind, count)."""
    with tempfile.TemporaryDirectory(prefix="profile-") as folder:
        port = free_port()
        config = whitecap_config(directory, port, 1, ROUTES)
        config["timeouts"].update(timeouts or {})
        seed = build_seed(folder)
        command = ["env", f"LD_PRELOAD={seed}", "valgrind", "--tool=callgrind", "--quiet", "--dump-instr=yes",
                   "--compress-pos=no", "--compress-strings=no",
                   f"--callgrind-out-file={folder}/out.%p",
                   *whitecap_command(directory, folder, config)]
        with Server(command, port, log=os.path.join(folder, "log"), start_seconds=START_SECONDS) as server:
            worker = worker_of(server)
            handlers = HandlerSymbols(worker, directory)
            with contextlib.closing(Client(port)) as client:
                for kind, count in plan:
                    client.play(kind, count)
            server.stop()
        output = os.path.join(folder, f"out.{worker}")
        if not os.path.exists(output):
            raise Trouble(f"callgrind left no figures:\n{read_file(server.log)[-2000:]}")
        return read_costs(output, handlers)


def count_instructions(directory, kinds=KINDS):
    """Name of the kind → function → instructions per request."""
    base_plan = [(kind, WARM) for kind in KINDS.values()]
    base = count_run(directory, base_plan)
    return {name: per_request(count_run(directory, base_plan + [(kind, COUNTED)]), base)
            for name, kind in kinds.items()}


def count_handler_timeout(directory):
    """(instructions of a GET without timeouts.handler, with it): it is what hangs are watched for by."""
    kind, totals = KINDS["get"], []
    for timeouts in ({}, {"handler": "10s"}):
        base, more = (count_run(directory, [(kind, WARM + n)], timeouts) for n in (0, COUNTED))
        totals.append((sum(more.values()) - sum(base.values())) / COUNTED)
    return totals


def per_request(costs, base):
    """Largest first; what did not grow with the requests is left out."""
    grown = {function: (cost - base[function]) / COUNTED for function, cost in costs.items()}
    return {function: cost for function, cost in sorted(grown.items(), key=lambda item: -item[1])
            if cost >= 0.05}
