#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients as nobody wants them: attack.py MODE PORT COUNT [PACE]

COUNT connections do as MODE says, and connect again when the server ends them or MODE wants it, until this is killed;
PACE is how many of them act in a second, where that matters.  Prints "waits" and waits for a line, prints "begins" and
the monotonic clock, then "ready" when all have begun.
"""
import itertools
import select
import socket
import sys
import time

HEAD_SIZE, BODY_SIZE = 16384, 1 << 20  # limits.header_size and limits.body_size of the server
REFUSED_PAUSE = 0.01  # seconds until the second attempt, which is the last
HUGE = b"GET /huge HTTP/1.1\r\nHost: a\r\n\r\n"
BIG = b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n"
SMALL = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def post(*fields):
    return b"\r\n".join([b"POST /echo HTTP/1.1", b"Host: a", *fields, b"", b""])


def longest_head():
    """All but the last octet."""
    start, fields = b"GET / HTTP/1.1\r\nHost: a\r\n", b""
    while len(start + fields) < HEAD_SIZE - 300:
        fields += b"X: " + b"x" * 200 + b"\r\n"
    return start + fields + b"X: " + b"x" * (HEAD_SIZE - len(start + fields) - 7) + b"\r\n\r"


class Attack:
    """What a connection sends when it is new; then what it goes on with, an octet at a time."""
    start = b""
    goes_on = b""
    reads = True
    once = False  # another connection after each answer
    at_once = 1 << 30

    def __init__(self, port, count, pace):
        self.port, self.count, self.pace = port, count, pace
        self.poll = select.epoll()
        self.clients = {}  # by descriptor: socket, what it still has to send
        self.order = []

    def open(self):
        client = socket.socket()
        if not self.reads:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(5)
        client.connect(("127.0.0.1", self.port))
        client.setblocking(False)
        number = client.fileno()
        self.clients[number] = [client, memoryview(self.start)]
        self.poll.register(client, (select.EPOLLIN if self.reads else 0) | select.EPOLLOUT)
        if self.goes_on:
            self.order.append(number)

    def end(self, number):
        client, _ = self.clients.pop(number)
        self.poll.unregister(client)
        client.close()
        try:
            self.open()
        except OSError:
            time.sleep(REFUSED_PAUSE)
            self.open()

    def write(self, number):
        entry = self.clients[number]
        try:
            sent = entry[0].send(entry[1][:self.at_once])
        except BlockingIOError:
            return
        entry[1] = entry[1][sent:]
        if not entry[1]:
            self.sent_all(number)

    def sent_all(self, number):
        self.poll.modify(number, select.EPOLLIN if self.reads else 0)

    def turn(self, seconds):
        for number, events in self.poll.poll(seconds):
            try:
                if events & (select.EPOLLERR | select.EPOLLHUP):
                    self.end(number)
                    continue
                if events & select.EPOLLIN and (not self.clients[number][0].recv(1 << 20) or self.once):
                    self.end(number)
                    continue
                if events & select.EPOLLOUT:
                    self.write(number)
            except OSError:
                self.end(number)

    def trickle(self, octets):
        """The next of them go on, each with an octet."""
        for _ in range(octets):
            number = self.order.pop(0)
            if number not in self.clients:
                continue
            try:
                self.clients[number][0].send(self.goes_on)
                self.order.append(number)
            except OSError:
                self.end(number)

    def run(self):
        print("waits", flush=True)
        sys.stdin.readline()
        print("begins", time.monotonic(), flush=True)
        for i in range(self.count):
            self.open()
            if i % 50 == 0:
                self.turn(0)
        for _ in range(5):
            self.turn(0.05)
        print("ready", flush=True)
        if not self.goes_on:
            while True:
                self.turn(1)
        due = time.monotonic()
        while True:
            self.turn(max(0.0, due - time.monotonic()))
            if time.monotonic() >= due:
                self.trickle(min(len(self.order), self.pace // 100))
                due += 0.01


class Trickle(Attack):
    """Heads that never end, an octet at a time."""
    start, goes_on = b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"x"


class Heads(Attack):
    """Heads of the largest size, but for their last octet."""
    start = longest_head()


class Bodies(Attack):
    """Bodies of the largest size, but for their last octet."""
    start = post(b"Content-Length: %d" % BODY_SIZE) + b"x" * (BODY_SIZE - 1)


class Announced(Attack):
    """Bodies of the largest size, of which only the first octet comes."""
    start = post(b"Content-Length: %d" % BODY_SIZE) + b"x"


class Unread(Attack):
    """Many large answers asked for, none read."""
    start, reads = BIG * 2000, False


class Huge(Attack):
    """One answer that fits no buffer, not read."""
    start, reads = HUGE, False


class Pipeline(Attack):
    """A hundred thousand requests in one write, again and again."""
    start = SMALL * 100000

    def sent_all(self, number):
        self.clients[number][1] = memoryview(self.start)


class Chunks(Pipeline):
    """A million chunks of an octet each."""
    start = post(b"Transfer-Encoding: chunked") + b"1\r\nx\r\n" * 1000000 + b"0\r\n\r\n"


class Connect(Attack):
    """A request on each connection."""
    start, once = SMALL, True


class Crash(Connect):
    """The request that crashes its worker, on one connection after the other."""
    start = b"GET /crash HTTP/1.1\r\nHost: a\r\n\r\n"


class Crashes(Connect):
    """Requests that crash their workers, each of them another one."""
    numbers = itertools.count()

    @property
    def start(self):
        return b"GET /crash?%d HTTP/1.1\r\nHost: a\r\n\r\n" % next(self.numbers)


MODES = {each.__name__.lower(): each for each in
         (Trickle, Heads, Bodies, Announced, Unread, Huge, Pipeline, Chunks, Connect, Crash, Crashes)}


if __name__ == "__main__":
    MODES[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]), int((sys.argv[4:] or ["0"])[0])).run()
