# SPDX-License-Identifier: MIT
"""A raw HTTP/1.1 client that takes nothing on trust: every octet received must be explained."""
import email.utils
import importlib.util
import os
import re
import socket
import struct
import time

from . import build, proc


def load_wire_rules():
    """tests/http/run.py: its parser of responses and its checks are the project's strict ones."""
    path = os.path.join(build.SOURCE, "tests", "http", "run.py")
    spec = importlib.util.spec_from_file_location("wire_rules", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rules = load_wire_rules()
DATE = re.compile(r"^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) "
                  r"\d{4} \d\d:\d\d:\d\d GMT$")


class Response:
    def __init__(self, parsed, head_bytes):
        self.status = parsed["status"]
        self.headers = parsed["headers"]
        self.body = parsed["body"]
        self.head_bytes = head_bytes
        self.reason = head_bytes.split(b"\r\n", 1)[0].partition(b" ")[2].partition(b" ")[2].decode("latin-1")

    @property
    def text(self):
        return self.body.decode("latin-1")

    @property
    def closes(self):
        return self.headers.get("connection", "").lower() == "close"

    def __repr__(self):
        return "<%d %s %s>" % (self.status, self.headers, rules.short(self.body))


def request(method, target, body=None, headers=(), version="1.1"):
    """The octets of a request; a body brings its Content-Length."""
    lines = ["%s %s HTTP/%s" % (method, target, version), "Host: test.local"]
    lines += ["%s: %s" % pair for pair in headers]
    if body is not None:
        lines.append("Content-Length: %d" % len(body))
    return "\r\n".join(lines + ["", ""]).encode("latin-1") + (body or b"")


def get(target="/", headers=(), version="1.1"):
    return request("GET", target, None, headers, version)


def post(target, body, headers=()):
    return request("POST", target, body, headers)


def connect(address, timeout=10.0, receive_buffer=None, source=None):
    """A connected socket to "1.2.3.4:80", "[::1]:80" or "unix:/path"."""
    if address.startswith("unix:"):
        s = socket.socket(socket.AF_UNIX)
        target = address[5:]
    else:
        host, _, port = address.rpartition(":")
        s = socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        target = (host.strip("[]"), int(port))
    if receive_buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    if source:
        s.bind((source, 0))
    s.settimeout(timeout * proc.scale())
    try:
        s.connect(target)
    except OSError:
        s.close()
        raise
    return s


def refused(address):
    """Whether nobody listens there."""
    try:
        connect(address).close()
    except ConnectionRefusedError:
        return True
    return False


class Client:
    """One connection.  Every wait has a deadline; what comes unasked for fails the test."""

    def __init__(self, where, timeout=10.0, **options):
        address = where if isinstance(where, str) else where.address
        self.timeout = timeout * proc.scale()
        self.s = connect(address, timeout, **options)
        self.buf = bytearray()
        self.eof = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.s.close()

    def reset(self):
        """Ends the connection with RST."""
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.s.close()

    def send(self, data):
        self.s.settimeout(self.timeout)
        self.s.sendall(data)

    def half_close(self):
        self.s.shutdown(socket.SHUT_WR)

    def fill(self, deadline, size=1 << 18):
        """Reads once.  False when the time is over."""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        self.s.settimeout(left)
        try:
            data = self.s.recv(size)
        except (TimeoutError, BlockingIOError):
            return False
        self.buf += data
        self.eof = not data
        return True

    def receive(self, head=False, interim=False, seconds=None):
        """The next response.  Interim ones fail the test but where asked for."""
        deadline = time.monotonic() + (self.timeout if seconds is None else seconds * proc.scale())
        while True:
            if self.buf:
                try:
                    parsed, end = rules.parse_response(self.buf, 0, self.eof, head)
                except rules.More:
                    pass
                else:
                    return self.checked(parsed, end, interim)
            if self.eof:
                raise AssertionError("closed before a whole response: %s" % rules.short(bytes(self.buf)))
            if not self.fill(deadline):
                raise proc.Timeout("no whole response in time; have %s" % rules.short(bytes(self.buf)))

    def checked(self, parsed, end, interim):
        response = Response(parsed, bytes(self.buf[:self.buf.find(b"\r\n\r\n") + 4]))
        del self.buf[:end]
        assert interim or response.status >= 200, "interim response unasked for: %r" % response
        if response.status >= 200:
            date = response.headers.get("date", "")
            assert DATE.match(date), "Date is %r" % date
        return response

    def ask(self, data, head=False, seconds=None):
        self.send(data)
        return self.receive(head=head, seconds=seconds)

    def get(self, target="/", headers=(), seconds=None):
        return self.ask(get(target, headers), seconds=seconds)

    def post(self, target, body, headers=(), seconds=None):
        return self.ask(post(target, body, headers), seconds=seconds)

    def expect_closed(self, seconds=5.0, reset_allowed=False):
        """EOF comes in time, with nothing before it.  Returns how long it took."""
        start = time.monotonic()
        deadline = start + seconds * proc.scale()
        try:
            while not self.eof:
                if not self.fill(deadline):
                    raise proc.Timeout("still open after %.1f s" % (seconds * proc.scale()))
        except ConnectionResetError:
            assert reset_allowed, "reset, not closed"
        assert not self.buf, "unexpected octets: %s" % rules.short(bytes(self.buf))
        return time.monotonic() - start

    def expect_silence(self, seconds):
        """Neither an octet nor EOF for so long."""
        deadline = time.monotonic() + seconds
        assert not self.buf, "unexpected octets: %s" % rules.short(bytes(self.buf))
        if self.fill(deadline):
            raise AssertionError("not silent: %s" % ("EOF" if self.eof else rules.short(bytes(self.buf))))

    def is_closed(self):
        """True when EOF or a reset is there already."""
        self.s.setblocking(False)
        try:
            return not self.s.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def age_of_date(self, response):
        return time.time() - email.utils.parsedate_to_datetime(response.headers["date"]).timestamp()
