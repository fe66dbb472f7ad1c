# SPDX-License-Identifier: MIT
"""Limits and timeouts: what each answers with, and when."""
import time

from whitecap_it import Server, Timeout, get, kit_route, pause
from whitecap_it import proc


def refused(server, data, status, head=False):
    """The answer to data has that status, says close, and then comes EOF, no reset."""
    with server.client() as c:
        c.send(data)
        r = c.receive(head=head)
        assert r.status == status, (r, data[:80])
        assert r.closes, r
        c.expect_closed()


def test_each_kind_of_bad_request_has_its_status_and_closes():
    with Server({"limits": {"header_size": "4k", "headers": 10, "target_size": 1000, "body_size": 5000}}) as s:
        host = "Host: x\r\n"
        for status, text in [
            (400, "GET / HTTP/1.1\r\n\r\n"),
            (400, "GET / HTTP/1.1\r\n%s%s\r\n" % (host, host)),
            (400, "GET  / HTTP/1.1\r\n%s\r\n" % host),
            (400, "\0garbage\r\n\r\n"),
            (400, "POST /echo HTTP/1.1\r\n%sContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello" % host),
            (400, "POST /echo HTTP/1.1\r\n%sContent-Length: -1\r\n\r\n" % host),
            (400, "POST /echo HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\nzz\r\n" % host),
            (413, "POST /echo HTTP/1.1\r\n%sContent-Length: 5001\r\n\r\n" % host),
            (413, "POST /echo HTTP/1.1\r\n%sContent-Length: 99999999999\r\n\r\n" % host),
            (413, "POST /echo HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n1389\r\n" % host),
            (413, "POST /echo HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n" % host
             + "3e8\r\n%s\r\n" % ("a" * 1000) * 5 + "1\r\na\r\n"),
            (414, "GET /%s HTTP/1.1\r\n%s\r\n" % ("a" * 1000, host)),
            (417, "POST /echo HTTP/1.1\r\n%sExpect: 200-ok\r\nContent-Length: 5\r\n\r\n" % host),
            (431, "GET / HTTP/1.1\r\n%sX: %s\r\n\r\n" % (host, "a" * 5000)),
            (431, "GET / HTTP/1.1\r\n%s%s\r\n" % (host, "".join("X%d: 1\r\n" % i for i in range(10)))),
            (501, "BREW / HTTP/1.1\r\n%s\r\n" % host),
            (501, "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),
            (501, "POST /echo HTTP/1.1\r\n%sTransfer-Encoding: gzip, chunked\r\n\r\n" % host),
            (505, "GET / HTTP/2.0\r\n%s\r\n" % host),
            (505, "GET / HTTP/3.1\r\n%s\r\n" % host),
        ]:
            refused(s, text.encode("latin-1"), status)
        assert s.get().status == 200


def test_what_is_exactly_at_a_limit_is_served():
    with Server({"limits": {"header_size": "4k", "headers": 10, "target_size": 1000, "body_size": 5000},
                 "routes": [{"path": "/", "handler": "hello"}, {"path": "/echo", "handler": "echo"},
                            kit_route("/facts", "facts")]}) as s:
        with s.client() as c:
            assert c.get("/facts?" + "a" * 993).status == 200
            assert c.post("/echo", b"b" * 5000).body == b"b" * 5000
            assert c.get("/", [("X%d" % i, "1") for i in range(9)]).status == 200
            empty = len(get("/", [("X", "")]))
            r = c.get("/", [("X", "a" * (4096 - empty))])
            assert r.status == 200, r
            assert c.get("/", [("X", "a" * (4096 - empty + 1))]).status == 431


def test_request_timeout_counts_from_the_first_byte_whatever_the_pace():
    """B49: a byte now and then does not prolong it; heads, bodies and chunks alike."""
    with Server({"timeouts": {"request": "600ms"}}) as s:
        slow = [b"GET / HTTP/1.1\r\nX-Slow: " + b"a" * 1000,
                b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n" + b"a" * 1000,
                b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 300]
        clients = [s.client() for _ in slow * 5]
        other = s.client()
        start = time.monotonic()
        answers = {}
        position = 0
        while len(answers) < len(clients) and time.monotonic() < start + 5 * proc.scale():
            for i, c in enumerate(clients):
                if i in answers:
                    continue
                try:
                    c.send(slow[i % len(slow)][position:position + 1])
                    c.fill(time.monotonic() + 0.001)
                except OSError:
                    pass
                if c.buf or c.eof:
                    answers[i] = time.monotonic() - start
            position += 1
            assert other.get().status == 200
            pause(0.02)
        assert len(answers) == len(clients), "only %d of %d timed out" % (len(answers), len(clients))
        for i, c in enumerate(clients):
            r = c.receive()
            assert r.status == 408 and r.closes, r
            assert 0.55 <= answers[i] <= 0.6 + 1.0 * proc.scale(), "answered 408 after %.2f s" % answers[i]
            c.expect_closed()
            c.close()  # else a stop waits for what it might still send
        assert other.get().status == 200


def test_each_request_of_a_pipeline_has_its_own_time():
    """Each read ends inside a request: it is not the first one's time that counts for the next."""
    with Server({"timeouts": {"request": "600ms"}}) as s, s.client() as c:
        request = get("/")
        half = len(request) // 2
        c.send(request[:half])
        for _ in range(10):
            pause(0.15)  # the client's pace
            c.send(request[half:] + request[:half])
            assert c.receive().status == 200


def test_request_timeout_begins_anew_with_each_request():
    with Server({"timeouts": {"request": "500ms"}}) as s, s.client() as c:
        for _ in range(3):
            c.send(b"GET / HTTP/1.1\r\n")
            pause(0.3)
            assert c.ask(b"Host: x\r\n\r\n").status == 200
            pause(0.3)


def test_silent_connections_are_closed_silently_after_the_keepalive_timeout():
    with Server({"timeouts": {"keepalive": "400ms", "request": "10s"}}) as s:
        with s.client() as fresh, s.client() as used:
            assert used.get().status == 200
            start = time.monotonic()
            used.expect_closed(3)
            took = time.monotonic() - start
            assert took > 0.3, took
            fresh.expect_closed(3)
        with s.client() as kept:
            for _ in range(4):
                assert kept.get().status == 200
                pause(0.25)


def test_pending_request_is_not_subject_to_the_keepalive_timeout():
    with Server({"timeouts": {"keepalive": "200ms", "request": "200ms", "send": "200ms"},
                 "routes": [kit_route("/", "later", n=700)]}) as s, s.client() as c:
        assert c.get("/").text == "later"


def test_client_that_does_not_read_its_answer_is_closed_after_the_send_timeout():
    with Server({"timeouts": {"send": "500ms"}, "routes": [kit_route("/", "big", n=20 << 20)]}) as s:
        with s.client(receive_buffer=8192) as stuck, s.client() as other:
            worker = s.worker
            assert other.get("/?n=10").status == 200
            stuck.send(get("/"))
            stuck.s.recv(1)
            sockets = len(proc.fd_targets(worker))
            proc.wait_until(lambda: len(proc.fd_targets(worker)) < sockets, "the stuck connection closed", 6)
            assert other.get("/?n=10").status == 200
            got = 0
            try:
                while True:
                    data = stuck.s.recv(1 << 20)
                    got += len(data)
                    if not data:
                        break
            except ConnectionResetError:
                pass
            assert got < 20 << 20


def test_client_that_reads_slowly_but_steadily_gets_its_answer_whole():
    with Server({"timeouts": {"send": "500ms"}, "routes": [kit_route("/", "big", n=4 << 20)]}) as s:
        with s.client(receive_buffer=16384, timeout=60) as c:
            c.send(get("/"))
            start, got = time.monotonic(), 0
            while got < 4 << 20:
                data = c.s.recv(65536)
                assert data, "closed after %d octets, %.1f s" % (got, time.monotonic() - start)
                got += len(data)
                if time.monotonic() - start < 1.5:
                    pause(0.05)
            assert time.monotonic() - start > 1.0


def test_keepalive_requests_ends_a_connection_politely():
    with Server({"limits": {"keepalive_requests": 3}}) as s, s.client() as c:
        assert not c.get().closes
        assert not c.get().closes
        assert c.get().closes
        c.expect_closed()
        with s.client() as again:
            again.send(get() * 5)
            assert [again.receive().closes for _ in range(3)] == [False, False, True]
            again.expect_closed()


def test_connections_past_the_limit_are_closed_unanswered_and_given_back():
    with Server({"workers": 2, "limits": {"connections": 10}}) as s:
        held = [s.client() for _ in range(10)]
        for c in held:
            assert c.get().status == 200
        for _ in range(5):
            with s.client() as extra:
                try:
                    extra.send(get())
                except OSError:
                    pass
                extra.expect_closed(reset_allowed=True)
        for c in held:
            assert c.get().status == 200
        held.pop().close()
        proc.wait_until(lambda: serves(s), "a place given back by a close")
        for c in held:
            c.close()


def serves(server):
    """Whether a new connection is answered."""
    try:
        with server.client() as c:
            return c.get().status == 200
    except (AssertionError, OSError):
        return False


def test_a_killed_workers_connections_are_given_back():
    with Server({"workers": 2, "limits": {"connections": 10}}) as s:
        held = [s.client() for _ in range(10)]
        for c in held:
            assert c.get().status == 200
        for pid in s.workers():
            s.kill_worker(pid)
        again = []

        def filled():
            try:
                c = s.client()
                assert c.get().status == 200
                again.append(c)
            except (AssertionError, OSError):
                c.close()
            return len(again) == 10

        proc.wait_until(filled, "ten places free again")
        with s.client() as extra:
            extra.expect_closed(reset_allowed=True)


def test_handler_timeout_answers_504_for_a_pending_request():
    with Server({"timeouts": {"handler": "300ms"},
                 "routes": [kit_route("/server", "later", n=5000),
                            kit_route("/route", "later", n=5000, route_timeout="100ms"),
                            kit_route("/longer", "later", n=600, route_timeout="5s"),
                            kit_route("/never", "later-uncancelled", n=400, route_timeout="100ms")]}) as s:
        with s.client() as c:
            start = time.monotonic()
            assert c.get("/server").status == 504
            first = time.monotonic() - start
            assert c.get("/route").status == 504
            second = time.monotonic() - start - first
            assert 0.25 < first < 0.3 + proc.scale(), first
            assert 0.05 < second < 0.1 + proc.scale(), second
            assert c.get("/longer").text == "later"
            assert c.get("/never").status == 504
            # The handler's answer comes after the 504, and must not come out here.
            c.expect_silence(0.6)
            assert c.get("/longer?n=1").text == "later"
        s.log.wait("cancelled", count=2)


def test_endless_senders_of_refused_bodies_are_cut():
    """B39: after an early answer the rest is read and dropped, but not for ever."""
    with Server({"limits": {"body_size": 1000}}) as s:
        clients = [s.client() for _ in range(20)]
        for c in clients:
            c.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000000\r\n\r\n")
        deadline = time.monotonic() + 40 * proc.scale()
        open_ones, piece = list(clients), b"x" * 65536
        while open_ones:
            assert time.monotonic() < deadline, "%d endless senders still there" % len(open_ones)
            for c in list(open_ones):
                try:
                    c.s.settimeout(0.001)
                    c.s.send(piece)
                except TimeoutError:
                    pass
                except OSError:
                    open_ones.remove(c)
            pause(0.01)  # their pace
        worker = s.worker
        proc.wait_until(lambda: "sockets" and serves(s), "still serving")
        assert proc.alive(worker)


def test_early_answers_are_never_lost_to_a_reset():
    """B39: the client writes everything before it reads."""
    with Server({"limits": {"body_size": "64k"}, "timeouts": {"request": "30s"}}) as s:
        big = b"x" * (8 << 20)
        wanted = [(413, b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(big) + big),
                  (413, b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(big) + big),
                  (431, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"h" * 200000 + b"\r\n\r\n"),
                  (400, b"GET / HTTP/1.1\r\nHost : x\r\n\r\n" + big[:1 << 20])]
        for _ in range(5):
            for status, data in wanted:
                with s.client() as c:
                    send_all_or_until_cut(c, data)
                    r = c.receive()
                    assert r.status == status and r.closes, r
                    c.half_close()
                    c.expect_closed(10)


def send_all_or_until_cut(client, data):
    """Blocking: the server may stop reading only after a generous amount."""
    try:
        client.send(data)
    except OSError as e:
        raise AssertionError("cut while sending %d octets: %s" % (len(data), e)) from None


def test_half_sent_request_then_end_of_input_is_answered_400_or_closed_at_once():
    with Server() as s:
        for part in [b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab"]:
            with s.client() as c:
                c.send(part)
                c.half_close()
                start = time.monotonic()
                try:
                    r = c.receive(seconds=2)
                    assert r.status == 400, r
                except AssertionError as e:
                    if isinstance(e, Timeout) or "closed before" not in str(e) or c.buf:
                        raise
                c.eof or c.expect_closed(2)
                assert time.monotonic() - start < 2
