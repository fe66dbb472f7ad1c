#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keeps connections busy in a closed loop: busy.py PORT COUNT

The next request goes out as soon as the answer is there.  A connection that the server ends is counted and
opened anew.  Prints "ready" when all have had an answer.  Its standard input is one line of JSON, a list of
spans of time ([from, to], CLOCK_MONOTONIC in seconds); then it prints what it saw, and ends.
"""
import json
import select
import socket
import sys
import time

from idle import REQUEST, read_answer


REFUSED_MAX = 1000  # in a row, then nobody connects any more
REFUSED_PAUSE = 0.001  # seconds until the next attempt


class Busy:
    def __init__(self, port, count):
        self.port = port
        self.closed = self.failed = self.refused = self.in_a_row = 0
        self.samples = []  # (when, seconds)
        self.poll = select.epoll()
        self.clients = {}
        for _ in range(count):
            self.open()

    def connect(self):
        """None: the server is no more."""
        while self.in_a_row < REFUSED_MAX:
            client = socket.socket()
            client.settimeout(10)
            try:
                client.connect(("127.0.0.1", self.port))
            except OSError:
                self.refused += 1
                self.in_a_row += 1
                time.sleep(REFUSED_PAUSE)
            else:
                self.in_a_row = 0
                return client
        return None

    def open(self):
        client = self.connect()
        if not client:
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.clients[client.fileno()] = [client, b"", 0.0]
        self.poll.register(client, select.EPOLLIN)
        self.ask(client.fileno())

    def ask(self, number):
        entry = self.clients[number]
        entry[2] = time.monotonic()
        try:
            entry[0].send(REQUEST)
        except OSError:
            self.end(number)

    def end(self, number):
        """With a request on its way that nobody answers: it has failed, whoever is to blame."""
        client, _, _ = self.clients.pop(number)
        self.poll.unregister(client)
        client.close()
        self.closed += 1
        self.failed += 1
        self.open()

    def replace(self, number):
        """The server has said that it closes after this answer."""
        client, _, _ = self.clients.pop(number)
        self.poll.unregister(client)
        client.close()
        self.closed += 1
        self.open()

    def read(self, number):
        entry = self.clients[number]
        try:
            data = entry[0].recv(65536)
        except OSError:
            data = b""
        if not data:
            self.end(number)
            return
        entry[1] += data
        head, found, body = entry[1].partition(b"\r\n\r\n")
        if not found:
            return
        lower = head.lower()
        length = int(lower.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        now = time.monotonic()
        self.samples.append((now, now - entry[2]))
        if not head.startswith(b"HTTP/1.1 200"):
            self.failed += 1
        entry[1] = b""
        if b"\r\nconnection: close" in lower:
            self.replace(number)
        else:
            self.ask(number)

    def run_until_told(self):
        self.poll.register(sys.stdin, select.EPOLLIN)
        while True:
            for number, _ in self.poll.poll():
                if number == sys.stdin.fileno():
                    return json.loads(sys.stdin.readline())
                if number in self.clients:
                    self.read(number)


def percentile(samples, share):
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e6 if ordered else None


def main():
    port, count = map(int, sys.argv[1:])
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(REQUEST)
        read_answer(client)
    busy = Busy(port, count)
    print("ready", flush=True)
    spans = busy.run_until_told()
    inside, outside = [], []
    for when, took in busy.samples:
        # A request counts where it was under way at all.
        (inside if any(a <= when and when - took <= b for a, b in spans) else outside).append(took)
    print(json.dumps({
        "requests": len(busy.samples), "closed": busy.closed, "failed": busy.failed, "refused": busy.refused,
        "p999_event_us": percentile(inside, .999), "p999_us": percentile(outside, .999),
        "max_event_us": percentile(inside, 1), "requests_event": len(inside)}), flush=True)


if __name__ == "__main__":
    main()
