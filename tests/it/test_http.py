# SPDX-License-Identifier: MIT
"""HTTP between a client and the handlers."""
import random
import time

from whitecap_it import Server, get, kit_route, needs_plain, pause, post, request
from whitecap_it import proc, wire

KIT = [
    {"path": "/", "handler": "hello"},
    {"path": "/echo", "handler": "echo"},
]


def routes(*more):
    return KIT + list(more)


def test_keepalive_and_connection_header():
    with Server() as s:
        with s.client() as c:
            r = c.get("/")
            assert r.status == 200 and r.text == "hello world!" and not r.closes, r
            assert c.get("/").status == 200
            assert c.get("/", [("Connection", "close")]).closes
            c.expect_closed()
        with s.client() as c:
            assert "keep-alive" not in c.get("/").headers.get("connection", "")
            assert c.ask(get("/", [("Connection", "foo, CLOSE\t")])).closes
            c.expect_closed()
        with s.client() as c:
            assert c.ask(get("/", version="1.0")).closes
            c.expect_closed()
        with s.client() as c:
            for _ in range(3):
                r = c.ask(get("/", [("Connection", "keep-alive")], version="1.0"))
                assert r.headers["connection"].lower() == "keep-alive", r


def test_date_is_one_and_right_also_after_idle():
    """B24: also in another language and zone, and after a handler that blocks."""
    with Server({"routes": routes(kit_route("/block", "block", n=1200))},
                env={"TZ": "Asia/Kolkata", "LC_ALL": "ja_JP.UTF-8"}) as s, s.client() as c:
        for wait in (0, 0, 1.2, 0, 2.1, None):
            if wait is None:
                assert c.get("/block").status == 200
            else:
                pause(wait)
            r = c.get("/")
            assert r.head_bytes.lower().count(b"\r\ndate:") == 1
            age = c.age_of_date(r)
            assert -0.1 <= age <= 1.1 + proc.scale() * 0.1, "Date is %.2f s old" % age


def test_head_answers_are_those_of_get_without_the_body():
    with Server({"routes": routes(kit_route("/big", "big", n=100000), kit_route("/later", "later", n=20),
                                  kit_route("/gone", "status", n=404, body="not there"))}) as s:
        with s.client() as c:
            for target in ("/", "/big", "/later", "/gone"):
                plain = c.get(target)
                head = c.ask(request("HEAD", target), head=True)
                assert head.status == plain.status
                assert head.headers.keys() == plain.headers.keys(), (head, plain)
                assert head.headers["content-length"] == str(len(plain.body))
            c.expect_silence(0.1)


def test_bodiless_answers_keep_the_connection():
    """B59: 204, 200, HEAD and 404 pipelined; 204 and 304 without body or length."""
    with Server({"routes": routes(kit_route("/nobid", "status", n=204), kit_route("/304", "status", n=304),
                                  kit_route("/empty", "status", n=200), kit_route("/404", "status", n=404))}) as s:
        with s.client() as c:
            for _ in range(50):
                c.send(post("/nobid", b"{}") + post("/echo", b"bid") + request("HEAD", "/")
                       + request("HEAD", "/404") + get("/304") + get("/empty") + get("/"))
                r = c.receive()
                assert r.status == 204 and "content-length" not in r.headers
                assert "transfer-encoding" not in r.headers and not r.closes
                assert c.receive().body == b"bid"
                assert c.receive(head=True).headers["content-length"] == "12"
                assert c.receive(head=True).status == 404
                r = c.receive()
                assert r.status == 304 and "transfer-encoding" not in r.headers
                assert c.receive().headers["content-length"] == "0"
                assert c.receive().text == "hello world!"
            c.expect_silence(0.1)


def test_one_connection_serves_ten_thousand_requests():
    with Server({"routes": routes(kit_route("/nobid", "status", n=204))}) as s, s.client() as c:
        nobid, bid = post("/nobid", b"x" * 300), post("/echo", b"x" * 300)
        for _ in range(100):
            c.send((nobid * 9 + bid) * 10)
            for i in range(100):
                assert c.receive().status == (200 if i % 10 == 9 else 204)


def test_expect_100_continue_on_several_connections_at_once():
    ask = b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    with Server() as s:
        clients = [s.client() for _ in range(4)]
        for c in clients:
            c.send(ask)
            assert c.receive(interim=True).status == 100
        for c in clients:
            assert c.ask(b"hello").body == b"hello"


def test_expect_100_continue():
    ask = b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\n"
    with Server({"limits": {"body_size": 100}}) as s:
        with s.client() as c:
            for _ in range(2):
                c.send(ask)
                r = c.receive(interim=True)
                assert r.status == 100, r
                c.expect_silence(0.1)
                assert c.ask(b"hello").body == b"hello"
            # A body that comes along needs no invitation, but may get one.
            c.send(ask + b"hello")
            r = c.receive(interim=True)
            assert (c.receive() if r.status == 100 else r).body == b"hello"
        with s.client() as c:
            r = c.ask(ask.replace(b"Length: 5", b"Length: 101"))
            assert r.status == 413 and r.closes, r
            c.expect_closed()
        with s.client() as c:
            assert c.ask(ask.replace(b"HTTP/1.1", b"HTTP/1.0") + b"hello").body == b"hello"


def test_chunked_bodies_are_decoded():
    with Server() as s, s.client() as c:
        head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        rng = random.Random(7)
        for _ in range(30):
            body = rng.randbytes(rng.randrange(0, 30000))
            data, pos = head, 0
            while pos < len(body):
                size = rng.choice((1, 2, 15, 16, 17, 1000, 9000))
                piece = body[pos:pos + size]
                data += b"%x;ext=\"v\"\r\n%s\r\n" % (len(piece), piece)
                pos += size
            assert c.ask(data + b"0\r\nX-Trailer: ignored\r\n\r\n").body == body


def test_pipelined_requests_are_answered_in_order_without_more_input():
    """B43: 64 GETs in one write, then silence; small and large answers; the last one closes."""
    with Server({"routes": routes(kit_route("/n", "big", n=10))}) as s:
        for size in (10, 100000):
            with s.client() as c:
                c.send(b"".join(get("/n?n=%d" % (size + i)) for i in range(63))
                       + get("/n?n=5", [("Connection", "close")]) + get("/n?n=6"))
                for i in range(63):
                    assert len(c.receive().body) == size + i
                r = c.receive()
                assert len(r.body) == 5 and r.closes
                c.expect_closed()


def test_whole_request_is_answered_before_the_rest_of_the_next_arrives():
    """B43: a complete request and a part of the next, or garbage, in one write."""
    with Server() as s:
        with s.client() as c:
            c.send(get("/") + b"GE")
            start = time.monotonic()
            assert c.receive().status == 200
            assert time.monotonic() - start < 0.05 * proc.scale() + 0.05
            c.expect_silence(0.1)
            assert c.ask(b"T /echo HTTP/1.1\r\nHost: x\r\n\r\n").status == 200
        with s.client() as c:
            c.send(get("/") + b"\0garbage\r\n\r\n" + get("/"))
            assert c.receive().status == 200
            r = c.receive()
            assert r.status == 400 and r.closes
            c.expect_closed()


def test_headers_and_body_arrive_whole_however_they_are_cut():
    """B45: a request of 20 fields in 1-byte pieces and cut in two at each offset, others in between."""
    headers = [("X-%d" % i, "value %d" % i) for i in range(17)]
    headers += [("X-Long", "l" * 4000), ("X-Empty", ""), ("X-0", "again")]
    data = post("/facts/" + "p" * 3000 + "?q=" + "r" * 40, bytes(range(256)) * 15, headers)
    with Server({"routes": routes(kit_route("/facts", "facts"))}) as s:
        with s.client() as c:
            whole = c.ask(data).text.split("\n")
        assert "header=X-Empty=" in whole and whole.count("header=X-0=again") == 1
        whole = facts_without_peer("\n".join(whole))
        points = sorted(set(range(1, 200)) | set(range(200, len(data), 41)) | set(range(len(data) - 30, len(data))))
        barrier = wire.Barrier(s.address, "/facts/other?x=1")
        barrier.s.sendall(barrier.request)
        barrier.answer_size = len(barrier.s.recv(4096))
        for first in range(0, len(points), 60):
            clients = [s.client() for _ in points[first:first + 60]]
            for c, at in zip(clients, points[first:]):
                c.send(data[:at])
            barrier.wait()
            for c, at in zip(clients, points[first:]):
                c.send(data[at:])
            for c, at in zip(clients, points[first:]):
                assert facts_without_peer(c.receive().text) == whole, "cut at %d" % at
                c.close()
        with s.client() as c:
            for at in range(len(data)):
                c.send(data[at:at + 1])
                if at % 8 == 0:
                    barrier.turn()
            assert facts_without_peer(c.receive().text) == whole
        barrier.close()


def facts_without_peer(text):
    return [line for line in text.split("\n") if not line.startswith("peer=")]


def test_hidden_requests_never_run():
    """B46: whatever is ambiguous about the length is refused, whole and in 1-byte pieces."""
    hidden = "GET /secret HTTP/1.1\r\nHost: x\r\n\r\n"
    forms = [
        "Content-Length: %d\r\nContent-Length: 0" % len(hidden),
        "Content-Length: 0\r\nContent-Length: %d" % len(hidden),
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding:\x0bchunked",
        " Transfer-Encoding: chunked",
        "Content-Length: 0\r\n X: y",
        "Content-Length: +0",
        "Content-Length: 0x0",
        "Content-Length: 0 0",
    ]
    scripts = []
    for form in forms:
        data = ("POST /echo HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % form).encode("latin-1") + hidden.encode()
        case = {"id": form, "expect": [{"status": [400, 501]}], "then": "closed"}
        scripts += [(case, [data], "whole"), (case, [data[i:i + 1] for i in range(len(data))], "bytes")]
    data = ("POST /echo HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden).encode()
    scripts.append(({"id": "1.0", "expect": [{"status": [400, 501]}], "then": "closed"}, [data], "whole"))
    with Server({"routes": routes(kit_route("/secret", "log", text="secret ran"))}) as s:
        failures = wire.play(s.address, scripts)
        assert not failures, "\n".join(failures)
        assert not s.log.find("secret ran")


def test_lenient_grammar_is_refused():
    """B47: line ends, blanks and control octets that two hops might read differently."""
    refused = [
        "GET / HTTP/1.1\nHost: x\n\n", "GET / HTTP/1.1\r\nHost: x\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\n",
        "GET / HTTP/1.1\r\nHost: x\rX: y\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nX : y\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX\x01: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nX: \0y\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX: y\x7f\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "GET http://:80/ HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /\x80 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", "GET /\t HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: x\r\n\r\n", "GET / http/1.1\r\nHost: x\r\n\r\n",
        "GET /\r\nHost: x\r\n\r\n", "GET / ICE/1.1\r\nHost: x\r\n\r\n", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX:\rY: z\r\n\r\n",
    ]
    served = [
        "\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nhOsT:x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nX:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nX: \t y \t\r\n\r\n", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nX: \xff\xfe\r\n\r\n", "GET / HTTP/1.1\r\nHost:\r\n\r\n",
    ]
    scripts = []
    for texts, status, then in ((refused, [400], "closed"), (served, [200], "open")):
        for text in texts:
            data = text.encode("latin-1")
            case = {"id": repr(text), "expect": [{"status": status}], "then": then}
            scripts += [(case, [data], "whole"), (case, [data[i:i + 1] for i in range(len(data))], "bytes")]
    with Server() as s:
        failures = wire.play(s.address, scripts)
        assert not failures, "\n".join(failures)


def test_half_closed_clients_get_their_answers():
    """B40: request, shutdown of the write side, then the whole answer and FIN; nothing spins."""
    with Server({"routes": routes(kit_route("/later", "later", n=500), kit_route("/big", "big", n=8 << 20))}) as s:
        for data, sizes in [(get("/"), [12]), (get("/") + get("/"), [12, 12]), (get("/later"), [5]),
                            (get("/later") + get("/"), [5, 12]), (get("/big"), [8 << 20]),
                            (get("/later?n=100") + get("/big"), [5, 8 << 20])]:
            with s.client() as c:
                c.send(data)
                c.half_close()
                assert [len(c.receive().body) for _ in sizes] == sizes
                c.expect_closed()


def test_waiting_for_a_handler_with_a_half_closed_client_costs_no_cpu():
    with Server({"routes": routes(kit_route("/later", "later", n=1500))}) as s, s.client() as c:
        c.send(get("/later"))
        c.half_close()
        before = proc.cpu_seconds(s.worker)
        assert c.receive().text == "later"
        used = proc.cpu_seconds(s.worker) - before
        assert used <= 0.1, "%.2f s of CPU in 1.5 s" % used


def test_big_bodies_in_and_out():
    with Server({"routes": routes(kit_route("/big", "big", n=8 << 20), kit_route("/facts", "facts"))}) as s:
        with s.client(timeout=30) as c:
            body = random.Random(1).randbytes(1 << 20)
            for _ in range(3):
                assert c.post("/echo", body).body == body
                assert len(c.get("/big").body) == 8 << 20
            assert c.post("/echo", body + b"x").status == 413


def test_small_requests_after_a_big_one_are_fast():
    """B37: no cluster at 40 ms for any size."""
    with Server({"routes": routes(kit_route("/big", "big", n=10))}) as s, s.client() as c:
        times = []
        for size in (0, 5, 1400, 1500, 3000, 20000) * 40:
            start = time.monotonic()
            assert len(c.get("/big?n=%d" % size).body) == size
            times.append(time.monotonic() - start)
        slow = [t for t in times if t > 0.03 * proc.scale()]
        assert len(slow) < len(times) / 50, "%d of %d took over 30 ms" % (len(slow), len(times))


def test_clients_that_leave_in_the_middle_harm_nobody():
    """B38: resets and closes while the server writes."""
    with Server({"workers": 2, "routes": routes(kit_route("/big", "big", n=4 << 20),
                                                kit_route("/signals", "run", command="grep SigIgn /proc/self/status"))}) as s:
        workers = s.workers()
        for i in range(300):
            c = s.client()
            c.send(get("/big") * (1 + i % 3))
            c.s.recv(1024)
            if i % 2:
                c.reset()
            else:
                c.close()
        assert s.workers() == workers
        assert s.get("/").status == 200
        facts = proc.status(workers[0])
        survived = int(facts["SigIgn"].strip(), 16) | int(facts["SigCgt"].strip(), 16)
        assert survived >> 12 & 1, "SIGPIPE has its default action"
        ignored = int(s.get("/signals").text.split()[1].split("=")[0], 16)
        assert not ignored >> 12 & 1, "commands of handlers ignore SIGPIPE"


def test_a_handler_that_restores_sigpipe_does_not_kill_the_worker():
    """B38: sends never raise it."""
    with Server({"routes": routes(kit_route("/dfl", "default-sigpipe", n=4 << 20))}) as s:
        worker = s.worker
        for _ in range(30):
            c = s.client(receive_buffer=4096)
            c.send(get("/dfl"))
            c.s.recv(1024)
            c.reset()
        assert s.get("/").status == 200 and s.worker == worker


def test_nothing_after_the_closing_request_is_executed():
    with Server({"routes": routes(kit_route("/secret", "log", text="secret ran"))}) as s, s.client() as c:
        c.send(get("/", [("Connection", "close")]) + get("/secret"))
        assert c.receive().closes
        c.expect_closed()
        assert not s.log.find("secret ran")


def test_methods_reach_the_handler():
    with Server({"routes": routes(kit_route("/facts", "facts"))}) as s, s.client() as c:
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "REPORT", "TRACE"):
            r = c.ask(request(method, "/facts/x?y=z"))
            assert r.status == 200 and r.text.startswith("method=%s\ntarget=/facts/x?y=z\npath=/facts/x\nquery=y=z\n"
                                                         % method), r
        assert "\nquery=(none)\n" in c.get("/facts").text
        assert "\nquery=\n" in c.get("/facts?").text
        assert "\nwanted=first\n" in c.get("/facts", [("X-WANTED", "first"), ("x-wanted", "second")]).text
        assert "\npeer=127.0.0.1:%d\n" % c.s.getsockname()[1] in c.get("/facts").text
        assert "\nversion=11\n" in c.get("/facts").text


def test_random_cuts_of_pipelined_requests_change_nothing():
    rng = random.Random(11)
    with Server({"routes": routes(kit_route("/later", "later", n=1))}) as s:
        for _ in range(40):
            bodies = [rng.randbytes(rng.choice((0, 1, 50, 3000))) for _ in range(20)]
            data = b"".join(get("/later") if not b else post("/echo", b) for b in bodies)
            with s.client() as c:
                while data:
                    n = rng.choice((1, 7, 100, 1000, 5000))
                    c.send(data[:n])
                    data = data[n:]
                for b in bodies:
                    assert c.receive().body == (b or b"later")


def test_idle_cpu_is_nothing():
    with Server({"workers": 2}) as s:
        with s.client() as c:
            c.get()
            before = sum(map(proc.cpu_seconds, proc.tree(s.pid)))
            pause(1.5)
            used = sum(map(proc.cpu_seconds, proc.tree(s.pid))) - before
            assert used <= 0.05 * proc.scale(), "%.2f s of CPU while idle" % used


def test_buffers_of_big_requests_are_given_back():
    """B51: memory follows the requests in progress, not the connections."""
    needs_plain()
    with Server() as s:
        clients = [s.client() for _ in range(100)]
        for c in clients:
            assert c.get().status == 200
        before = proc.memory_kb([s.worker])
        body = b"x" * (1 << 20)
        for c in clients:
            assert len(c.post("/echo", body).body) == len(body)
        for c in clients:
            assert c.get().status == 200
        grown = proc.memory_kb([s.worker]) - before
        assert grown < 20000, "%d KB more after 100 big requests" % grown
