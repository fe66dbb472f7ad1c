# SPDX-License-Identifier: MIT
"""The scenarios: what is asked, by how many connections, of whom."""
import os
from typing import NamedTuple

from servers import BIDDER, HAPROXY, LOOP, NGINX, ROOT, WHITECAP

ALL = (LOOP, WHITECAP, NGINX, HAPROXY)
BUSY = 64


def get(*fields):
    return message("GET /", fields, b"")


def post(body, *fields, path="/"):
    return message(f"POST {path}", fields + (f"Content-Length: {len(body)}",), body)


def message(method_and_path, fields, body):
    head = [f"{method_and_path} HTTP/1.1", "Host: bench.example", *fields, "", ""]
    return "\r\n".join(head).encode() + body


def bid_request(path="/"):
    with open(os.path.join(ROOT, "tests/openrtb/requests/spec-banner.json"), "rb") as file:
        body = file.read()
    return post(body, "User-Agent: exchange-client/1.0", "Accept-Encoding: gzip",
                "Content-Type: application/json", "x-openrtb-version: 2.6", path=path)


class Scenario(NamedTuple):
    name: str
    title: str
    request: bytes = get()
    answer: int = 12                # octets of the answer's body
    handler: str = "hello"          # whitecap's
    depth: int = 1                  # requests per write
    close: bool = False
    connections: tuple = (BUSY,)    # each is measured; of these at most BUSY are busy
    kinds: tuple = ALL
    workers: tuple = (1,)


SCENARIOS = (
    Scenario("get", "GET, 12 bytes, 64 keep-alive connections", workers=(1, 2)),
    Scenario("bid", "POST, 733-byte bid request, answer of 733 bytes (bidder: a bid)",
             request=bid_request(), answer=733, handler="echo",
             kinds=(LOOP, WHITECAP, BIDDER, NGINX, HAPROXY)),
    Scenario("pipelined", "GET, 12 bytes, pipelined 16 deep (latencies: of 16 answers)", depth=16),
    Scenario("connections", "GET, 12 bytes, N connections of which 64 are busy",
             connections=(1, 64, 1000, 10000)),
    Scenario("close", "GET, 12 bytes, a connection per request",
             request=get("Connection: close"), close=True),
    Scenario("big", "GET, 100 KB (nginx: a file by sendfile)", answer=102400),
    Scenario("body", "POST, 8 KB, answer of 12 bytes", request=post(b"x" * 8192)),
)


class Subject(NamedTuple):
    """One line of a scenario's table."""
    scenario: Scenario
    kind: object
    workers: int
    connections: int

    @property
    def label(self):
        several = len(self.scenario.connections) > 1
        return self.kind.name + (f" ×{self.workers}" if self.workers > 1 else "") + \
            (f", {self.connections:,}" if several else "")

    @property
    def busy(self):
        return min(self.connections, BUSY)

    @property
    def idle(self):
        return self.connections - self.busy

    def peer(self, name):
        """Key of the subject that this one is compared with."""
        return name, self.workers, self.connections

    @property
    def key(self):
        return self.peer(self.kind.name)


def subjects(scenario):
    return [Subject(scenario, kind, workers, connections)
            for workers in scenario.workers
            for connections in scenario.connections
            for kind in scenario.kinds]
