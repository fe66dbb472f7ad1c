#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A crowd of clients that checks every octet: each request carries a number that the answer must
bring back; order, duplicates, losses and closes are counted.  Nobody reconnects, nobody retries.

    with Crowd(address, idle=1000, busy=64) as crowd:
        ...                                    # what must not hurt
        report = crowd.finish()                # everyone ends what is begun, and asks once more
        report.check()

What a client does is a generator of its own; it yields seconds to sleep, or a condition to wait for.
The server's handler is tests/it/handlers/move.c.  As a program, it prints the report as JSON:

    move_client.py ADDRESS KIND=COUNT... [--seconds S]
"""
import collections
import heapq
import json
import os
import random
import select
import socket
import sys
import threading
import time

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from whitecap_it import proc
from whitecap_it.client import connect

BIG, SHIFTS = 2000000, 256
PATTERN = bytes((i * 31 + (i >> 8) * 7) & 0xff for i in range(BIG + SHIFTS))
CHUNKED = "Transfer-Encoding: chunked\r\n"


class Broken(Exception):
    """A connection of which nothing more is to be had."""


class Report:
    """What the crowd saw.  `trouble` has a line for each thing that must not be."""

    def __init__(self):
        self.answers = self.closed = self.reset = self.unanswered = 0
        self.duplicates = self.out_of_order = self.wrong = self.announced = 0
        self.moves = 0
        self.versions = collections.Counter()
        self.latencies = []  # (when the answer was there, seconds), of busy clients
        self.trouble = []

    def note(self, kind, text):
        setattr(self, kind, getattr(self, kind) + 1)
        self.trouble.append("%s: %s" % (kind, text))

    def check(self):
        assert not self.trouble, "%d of trouble, %d answers: %s" % (
            len(self.trouble), self.answers, "; ".join(self.trouble[:8]))
        assert self.answers

    def counts(self):
        return {k: v for k, v in vars(self).items() if isinstance(v, int)}

    def percentile(self, share, since=0.0, until=float("inf")):
        """Of the latencies in that span of time, in seconds."""
        part = sorted(took for at, took in self.latencies if since <= at < until)
        return part[min(len(part) - 1, int(len(part) * share))] if part else None


class Client:
    """One connection: what is still to be sent, and the answers that are due, in order."""

    def __init__(self, crowd, kind, receive_buffer=None):
        self.crowd, self.kind = crowd, kind
        self.report = crowd.report
        self.rng = random.Random(crowd.rng.random())
        self.out, self.buf = bytearray(), bytearray()
        self.due = collections.deque()   # (number, rest of the body, when it was sent)
        self.answered = collections.deque(maxlen=32)
        self.continues = 0
        self.placed = self.done = self.dead = self.paused = self.last = False
        self.wake_at = None
        self.condition = None
        self.s = connect(crowd.address, receive_buffer=receive_buffer)
        self.s.setblocking(False)
        self.mask = select.EPOLLIN
        crowd.clients[self.s.fileno()] = self
        crowd.poll.register(self.s, self.mask)
        self.life = LIVES[kind](self)

    def __str__(self):
        return "%s client %s" % (self.kind, self.s.getsockname())

    # Asking.

    def expect(self, rest=b""):
        number = self.crowd.next_number()
        self.due.append((number, rest, time.monotonic()))
        return number

    def get(self, path="/", rest=b"", fields=""):
        number = self.expect(rest)
        return b"GET %s?%d HTTP/1.1\r\nHost: t\r\n%s\r\n" % (path.encode(), number, fields.encode())

    def body(self, size):
        return bytes(self.rng.choices(b"0123456789abcdef\r\n", k=size))

    def post(self, size, fields=""):
        body = self.body(size)
        number = self.expect(body)
        head = "POST /echo?%d HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n%s\r\n" % (number, size, fields)
        return head.encode(), body

    def post_chunked(self, size):
        body = self.body(size)
        number = self.expect(body)
        head = ("POST /echo?%d HTTP/1.1\r\nHost: t\r\n%s\r\n" % (number, CHUNKED)).encode()
        coded, at = bytearray(), 0
        while at < size:
            step = min(self.rng.randint(1, 700), size - at)
            coded += b"%x%s\r\n" % (step, self.rng.choice([b"", b";name=value"])) + body[at:at + step] + b"\r\n"
            at += step
        return head, bytes(coded) + b"0\r\n" + self.rng.choice([b"", b"Trailer: x\r\n"]) + b"\r\n"

    def send(self, data):
        self.out += data
        self.flush()

    def flush(self):
        try:
            while self.out:
                sent = self.s.send(self.out)
                del self.out[:sent]
        except BlockingIOError:
            pass
        except OSError as e:
            self.end("reset", "while sending: %s" % e)
        self.watch()

    def watch(self):
        mask = (0 if self.paused else select.EPOLLIN) | (select.EPOLLOUT if self.out else 0)
        if mask != self.mask and not self.dead:
            self.crowd.poll.modify(self.s, mask)
            self.mask = mask

    def pause(self, paused):
        self.paused = paused
        self.watch()

    # Answers.

    def read(self):
        try:
            data = self.s.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError as e:
            self.end("reset", str(e))
            return
        if not data:
            self.end("closed", "%d answers due, %d octets of one here" % (len(self.due), len(self.buf)))
            return
        self.buf += data
        try:
            while self.buf and self.take():
                pass
        except Broken as e:
            self.end("wrong", str(e))

    def take(self):
        """One answer off the buffer.  False: it is not whole yet."""
        end = self.buf.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(self.buf[:end + 2])
        if head.startswith(b"HTTP/1.1 100 "):
            del self.buf[:end + 4]
            self.continues += 1
            return True
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-1])
        whole = end + 4 + int(fields.get(b"content-length", 0))
        if len(self.buf) < whole:
            return False
        self.judge(head, bytes(self.buf[end + 4:whole]))
        if fields.get(b"connection") == b"close":
            self.report.announced += 1
            self.last = True
            if not self.crowd.closing_allowed:
                self.report.trouble.append("%s: told that it will be closed" % self)
        del self.buf[:whole]
        return True

    def judge(self, head, body):
        if not self.due:
            raise Broken("an answer that nobody asked for: %r %r" % (head, body[:80]))
        number, rest, sent = self.due[0]
        first, _, more = body.partition(b"\n")
        version, _, got = first.partition(b" ")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise Broken("%r to request %d" % (head[:40], number))
        if not got.isdigit() or int(got) != number:
            self.report.note(self.blame(got), "%s: %r where %d was due" % (self, first[:40], number))
            raise Broken("the answers are in disorder")
        if more != rest:
            raise Broken("body of %d octets differs from the %d due" % (len(more), len(rest)))
        self.due.popleft()
        self.answered.append(number)
        self.report.answers += 1
        self.report.versions[version.decode()] += 1
        if self.kind in ("busy", "paced"):
            now = time.monotonic()
            self.report.latencies.append((now, now - sent))

    def blame(self, got):
        number = int(got) if got.isdigit() else -1
        if number in self.answered:
            return "duplicates"
        return "out_of_order" if any(number == due[0] for due in self.due) else "wrong"

    def end(self, kind, text):
        if self.dead:
            return
        self.dead = True
        self.report.unanswered += len(self.due)
        if kind == "closed" and self.crowd.closing_allowed and not self.due and not self.buf:
            self.report.closed += 1
        else:
            self.report.note(kind, "%s: %s" % (self, text))
        self.crowd.remove(self)

    # Its life.

    def step(self):
        """As far as it goes now."""
        while not self.dead:
            if self.wake_at is not None and time.monotonic() < self.wake_at:
                return
            if self.condition is not None and not self.condition():
                return
            self.wake_at = self.condition = None
            try:
                wish = next(self.life)
            except StopIteration:
                self.placed = self.done = True
                return
            if callable(wish):
                self.condition = wish
            else:
                self.wake_at = time.monotonic() + wish
                heapq.heappush(self.crowd.timers, (self.wake_at, self.s.fileno()))

    def is_answered(self):
        return not self.due

    def released(self):
        return self.crowd.releasing

    def ask_and_wait(self, data):
        self.send(data)
        return self.is_answered

    def ask_again(self):
        """Once more at the end, where the server has not said that it was the last time."""
        if not self.last:
            yield self.ask_and_wait(self.get())


# The lives.  All have asked once before they count as placed, and ask once more at the end.

def held(make, cut):
    """A request of which the first part is sent, and the rest when everyone is released."""
    def life(self):
        yield self.ask_and_wait(self.get())
        parts = make(self)
        data = b"".join(parts)
        at = cut(self.rng, parts)
        self.send(data[:at])
        self.placed = True
        yield self.released
        yield self.ask_and_wait(data[at:])
        yield from self.ask_again()
    return life


def idle(self):
    yield self.ask_and_wait(self.get())
    self.placed = True
    yield self.released
    yield from self.ask_again()


def busy(self):
    while not self.released():
        yield self.ask_and_wait(self.get())
        self.placed = True
    yield from self.ask_again()


def paced(self):
    """A request every 10 to 30 ms."""
    while not self.released():
        yield self.ask_and_wait(self.get())
        self.placed = True
        yield self.rng.uniform(0.01, 0.03)
    yield from self.ask_again()


def pipelining(self):
    """Several requests at once, the last of them cut; the answers must come in order."""
    while not self.released():
        data = b"".join(self.get() if self.rng.random() < .8 else b"".join(self.post(self.rng.randint(0, 500)))
                        for _ in range(self.rng.randint(2, 12)))
        at = len(data) - self.rng.randint(0, 60)
        self.send(data[:at])
        yield self.rng.uniform(0, 0.02)
        yield self.ask_and_wait(data[at:])
        self.placed = True
    yield from self.ask_again()


def trickling(self):
    """Requests of every kind in small pieces, so that a move finds them cut everywhere."""
    while not self.released():
        kind = self.rng.randint(0, 2)
        data = [lambda: self.get(fields="X-More: %s\r\n" % ("m" * 40)),
                lambda: b"".join(self.post(200)), lambda: b"".join(self.post_chunked(60))][kind]()
        while data:
            size = self.rng.randint(1, 30)
            self.send(data[:size])
            data = data[size:]
            if not self.released():
                yield self.rng.uniform(0.002, 0.02)
        yield self.is_answered
        self.placed = True
    yield from self.ask_again()


def continued(self):
    """100 (Continue) has come, and half of the body is sent; it must not come again."""
    yield self.ask_and_wait(self.get())
    head, body = self.post(3000, "Expect: 100-continue\r\n")
    self.send(head)
    yield lambda: self.continues
    self.send(body[:1500])
    self.placed = True
    yield self.released
    yield self.ask_and_wait(body[1500:])
    if self.continues != 1:
        self.report.note("duplicates", "%s: %d times 100 (Continue)" % (self, self.continues))
    yield from self.ask_again()


def slow(self):
    """Half of 2 MB is read before the event, the rest after it, and a pipelined request waits behind."""
    number = self.crowd.number + 1
    data = self.get("/big", PATTERN[number % SHIFTS:number % SHIFTS + BIG]) + self.get()
    self.send(data)
    yield lambda: len(self.buf) > BIG // 2
    self.pause(True)
    self.placed = True
    yield self.released
    self.pause(False)
    yield self.is_answered
    yield from self.ask_again()


def dribbling(self):
    """Reads 2 MB in little pieces all the time."""
    while not self.released():
        number = self.crowd.number + 1
        self.send(self.get("/big", PATTERN[number % SHIFTS:number % SHIFTS + BIG]))
        while self.due and not self.released():
            self.pause(True)
            yield 0.005
            self.pause(False)
            size = len(self.buf)
            yield lambda: len(self.buf) != size or not self.due
            self.placed = True
        yield self.is_answered
    yield from self.ask_again()


def pending(self):
    """A handler that answers later, and a request behind it that waits for its turn."""
    while not self.released():
        self.send(self.get("/wait/%d" % self.rng.randint(100, 700)) + self.get())
        self.placed = True
        yield self.is_answered
    yield from self.ask_again()


def waiting(self):
    """One request that is answered later."""
    self.send(self.get("/wait/1000"))
    self.placed = True
    yield self.is_answered
    yield self.released
    yield from self.ask_again()


LIVES = {
    "idle": idle,
    "busy": busy,
    "paced": paced,
    "pipelining": pipelining,
    "trickling": trickling,
    "continued": continued,
    "slow": slow,
    "dribbling": dribbling,
    "pending": pending,
    "waiting": waiting,
    "half_head": held(lambda self: [self.get(fields="X-More: %s\r\n" % ("m" * 300))],
                      lambda rng, parts: rng.randint(1, len(parts[0]) - 1)),
    "half_body": held(lambda self: self.post(20000), lambda rng, parts: len(parts[0]) + rng.randint(0, 19999)),
    "half_large": held(lambda self: self.post(300000), lambda rng, parts: 250000),
    "half_chunked": held(lambda self: self.post_chunked(5000),
                         lambda rng, parts: len(parts[0]) + rng.randint(0, len(parts[1]) - 1)),
}
RECEIVE_BUFFERS = {"slow": 65536, "dribbling": 65536}

# Some of every kind in the middle of something, besides the many.
MIXED = {"half_head": 20, "half_body": 10, "half_large": 2, "half_chunked": 20, "continued": 5, "slow": 2,
         "dribbling": 1, "pending": 4, "pipelining": 8, "trickling": 16}


class Crowd:
    """Clients on a thread of their own."""

    def __init__(self, address, seed=1, closing_allowed=False, place=True, **counts):
        self.address, self.counts = address, counts
        self.rng = random.Random(seed)
        self.closing_allowed, self.place = closing_allowed, place
        self.number = 0
        self.report = Report()
        self.clients, self.timers = {}, []
        self.everyone = []
        self.poll = select.epoll()
        self.waker = socket.socketpair()
        self.poll.register(self.waker[0], select.EPOLLIN)
        self.releasing = self.over = False
        self.failure = None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def next_number(self):
        self.number += 1
        return self.number

    def remove(self, client):
        self.poll.unregister(client.s)
        self.clients.pop(client.s.fileno(), None)
        client.s.close()

    def run(self):
        try:
            for kind, count in self.counts.items():
                for _ in range(count):
                    client = Client(self, kind, RECEIVE_BUFFERS.get(kind))
                    self.everyone.append(client)
                    client.step()
            while not self.over:
                self.turn()
        except Exception as e:  # pylint: disable=broad-except
            self.failure = e

    def turn(self):
        left = self.timers[0][0] - time.monotonic() if self.timers else 0.2
        for fd, events in self.poll.poll(max(0.0, min(left, 0.2)), 1024):
            client = self.clients.get(fd)
            if fd == self.waker[0].fileno():
                self.waker[0].recv(64)
                for each in list(self.clients.values()):
                    each.step()
            if client and events & select.EPOLLOUT:
                client.flush()
            if client and not client.dead and events & ~select.EPOLLOUT:
                client.read()
            if client:
                client.step()
        now = time.monotonic()
        while self.timers and self.timers[0][0] <= now:
            client = self.clients.get(heapq.heappop(self.timers)[1])
            if client:
                client.step()

    # For the test.

    def wait(self, condition, what, seconds):
        def look():
            if self.failure:
                raise AssertionError("the crowd failed: %r" % self.failure) from self.failure
            return condition()
        proc.wait_until(look, what, seconds)

    def lacking(self, flag):
        return ["%s: %d due, %d here, %d to send" % (c, len(c.due), len(c.buf), len(c.out))
                for c in self.everyone if not getattr(c, flag) and not c.dead]

    def wait_placed(self, seconds=30.0):
        total = sum(self.counts.values())
        self.wait(lambda: len(self.everyone) == total and not self.lacking("placed"),
                  lambda: "everyone in place: %s" % self.lacking("placed")[:5], seconds)

    def release(self):
        self.releasing = True
        self.waker[1].send(b"x")

    def finish(self, seconds=30.0):
        """Lets everyone end what it has begun and ask once more.  What is not answered in time is trouble."""
        self.release()
        try:
            self.wait(lambda: not self.lacking("done"), "everyone done", seconds)
        except proc.Timeout:
            for text in self.lacking("done"):
                self.report.note("unanswered", text)
        self.close()
        return self.report

    def close(self):
        self.over = True
        self.waker[1].send(b"x")
        self.thread.join()
        for client in list(self.clients.values()):
            self.remove(client)

    def __enter__(self):
        self.thread.start()
        if self.place:
            try:
                self.wait_placed()
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(self, *_):
        if not self.over:
            self.close()
        self.poll.close()
        for s in self.waker:
            s.close()


def main(arguments):
    seconds = 5.0
    if "--seconds" in arguments:
        at = arguments.index("--seconds")
        seconds = float(arguments[at + 1])
        del arguments[at:at + 2]
    counts = {kind: int(count) for kind, _, count in (word.partition("=") for word in arguments[1:])}
    with Crowd(arguments[0], **(counts or dict(MIXED, idle=100, busy=8))) as crowd:
        proc.pause(seconds)
        report = crowd.finish()
    print(json.dumps(dict(report.counts(), versions=report.versions, p999_us=round((report.percentile(.999) or 0) * 1e6),
                          trouble=report.trouble[:20])))
    return 1 if report.trouble else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
