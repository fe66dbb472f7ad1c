# SPDX-License-Identifier: MIT
"""
Wire cases, many connections at a time, cut wherever wanted.

Two writes are two reads of the server: between them a barrier makes sure that the worker has
read the first.  A barrier is two answered requests on a connection of its own; the worker turns
once through its loop between them, and so through everything that was there before the first.
That needs a server with one worker.
"""
import json
import os
import socket
import struct
import time

from . import build, proc
from .client import connect, get, rules


def load_cases():
    with open(os.path.join(build.SOURCE, "tests", "http", "given.json"), encoding="utf-8") as f:
        return json.load(f)


class Barrier:
    def __init__(self, address, target="/"):
        self.s = connect(address)
        self.request = get(target)
        self.answer_size = None

    def turn(self):
        self.s.sendall(self.request)
        got = self.s.recv(4096)
        self.answer_size = self.answer_size or len(got)
        assert len(got) == self.answer_size, "the barrier's answer: %r" % got

    def wait(self):
        self.turn()
        self.turn()

    def close(self):
        self.s.close()


class Talk:
    """A case on a connection of its own: pieces written one by one, what comes back judged."""

    def __init__(self, address, case, pieces, label):
        self.case, self.pieces, self.label = case, pieces, label
        self.next = 0
        self.buf = bytearray()
        self.eof = False
        self.s = connect(address)
        self.s.setblocking(False)

    @property
    def done(self):
        return self.next >= len(self.pieces)

    def write_next(self):
        """Writes the next piece; what is too much for the socket goes when there is room."""
        piece = self.pieces[self.next]
        self.next += 1
        try:
            sent = self.s.send(piece) if piece else 0
            if sent < len(piece):
                self.pieces[self.next:self.next] = [piece[sent:]]
        except BlockingIOError:
            self.next -= 1
        except OSError:
            self.next = len(self.pieces)
        if self.done and self.case.get("half_close"):
            try:
                self.s.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def read(self):
        while not self.eof:
            try:
                data = self.s.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self.buf += data
            self.eof = not data

    def judge(self):
        """(verdict, final): verdict None is fine; not final: more octets may change it."""
        pos, allow_1xx = 0, self.case.get("allow_1xx", False)
        for expected in self.case["expect"]:
            while True:
                if pos == len(self.buf) and self.eof and 0 in expected["status"]:
                    break
                if pos == len(self.buf):
                    return "a response is missing", self.eof
                try:
                    response, pos = rules.parse_response(self.buf, pos, self.eof, expected.get("head", False))
                except rules.More:
                    return "truncated: %s" % rules.short(bytes(self.buf[pos:])), self.eof
                except rules.Bad as e:
                    return "malformed response: %s" % e, True
                interim = 100 <= response["status"] < 200 and response["status"] != 101
                if interim and allow_1xx and response["status"] not in expected["status"]:
                    continue
                why = rules.check(expected, response)
                if why:
                    return why, True
                break
        rest = bytes(self.buf[pos:])
        if rest and not (allow_1xx and rest.startswith(b"HTTP/1.1 10")):
            return "unexpected octets: %s" % rules.short(rest), True
        if self.case["then"] == "closed" and not self.eof:
            return "still open, wanted closed", False
        if self.case["then"] == "open" and self.eof:
            return "closed, wanted open", True
        return None, self.case["then"] != "any" or self.eof

    def close(self):
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.s.close()


def batch(address, barrier, talks, failures, seconds=2.0):
    """Drives the talks in step, then judges each."""
    while not all(t.done for t in talks):
        for talk in talks:
            if not talk.done:
                talk.write_next()
        barrier.wait()
        for talk in talks:
            talk.read()
    deadline = time.monotonic() + seconds * proc.scale()
    waiting = list(talks)
    while waiting and time.monotonic() < deadline:
        barrier.wait()
        waiting = [t for t in waiting if not settled(t)]
    for talk in talks:
        verdict, _ = talk.judge()
        if verdict:
            failures.append("%s (%s): %s" % (talk.case["id"], talk.label, verdict))
        talk.close()


def settled(talk):
    """After a barrier: nothing that the worker still has to say about what it has read."""
    talk.read()
    verdict, final = talk.judge()
    return verdict is None or final


def play(address, scripts, size=150):
    """scripts: (case, pieces, label).  The failures, as text."""
    barrier, failures, pending = Barrier(address), [], []
    for case, pieces, label in scripts:
        pending.append((case, pieces, label))
        if len(pending) == size:
            batch(address, barrier, [Talk(address, *one) for one in pending], failures)
            pending = []
    batch(address, barrier, [Talk(address, *one) for one in pending], failures)
    barrier.close()
    return failures


def cut(pieces, at):
    """The pieces, with one more cut at that octet of the whole."""
    out, start = [], 0
    for piece in pieces:
        if start < at < start + len(piece):
            out += [piece[:at - start], piece[at - start:]]
        else:
            out.append(piece)
        start += len(piece)
    return out


def offsets(length, whole=3000, edge=300, stride=997):
    """Every offset; of huge cases both ends and samples of the middle."""
    if length <= whole:
        return range(1, length)
    return sorted(set(range(1, edge)) | set(range(edge, length - edge, stride)) | set(range(length - edge, length)))


def cut_scripts(cases):
    for case in cases:
        pieces = [p.encode("latin-1") for p in case["send"]]
        for at in offsets(sum(map(len, pieces))):
            yield case, cut(pieces, at), "cut at %d" % at


def single_scripts(cases, edge=300):
    """Byte by byte; of huge cases both ends so, the middle in pieces."""
    for case in cases:
        data = "".join(case["send"]).encode("latin-1")
        points = [0, *offsets(len(data), edge=edge), len(data)]
        yield case, [data[a:b] for a, b in zip(points, points[1:])], "byte by byte"


def whole_scripts(cases):
    for case in cases:
        yield case, [p.encode("latin-1") for p in case["send"]], "as given"
