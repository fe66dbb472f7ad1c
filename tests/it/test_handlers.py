# SPDX-License-Identifier: MIT
"""Handlers: their mistakes, pending answers, routes, the interface of whitecap.h."""
import time

from whitecap_it import Server, get, kit_route, post, request
from whitecap_it import proc


def mistake(do, log, status=500, **options):
    """The mistake is answered 500 and logged with the handler's name; the connection goes on."""
    with Server({"routes": [{"path": "/", "handler": "hello"}, kit_route("/bad", do, **options)]},
                errors=["kit"]) as s:
        with s.client() as c:
            for _ in range(2):
                r = c.get("/bad")
                assert r.status == status, r
                assert not r.closes, r
                assert c.get("/").text == "hello world!"
            c.send(get("/") + get("/bad") + post("/bad", b"x" * 5000) + get("/"))
            assert [c.receive().status for _ in range(4)] == [200, status, status, 200]
            c.expect_silence(0.05)
        s.log.wait("kit.*" + log)
        assert s.worker


def test_no_answer_is_500():
    mistake("nothing", "answer")


def test_error_return_is_500():
    mistake("error", "")


def test_error_return_after_an_answer_is_500():
    mistake("error-after-answer", "")


def test_unknown_return_value_is_500():
    mistake("bad-return", "return")


def test_two_answers_are_500():
    mistake("twice", "answer")


def test_bad_statuses_are_500():
    for n in (0, 99, 100, 101, 199, 600, 1000, -1):
        mistake("status", "", n=n)


def test_body_on_204_is_500():
    mistake("status", "204", n=204, body="body")


def test_body_on_304_is_500():
    mistake("status", "304", n=304, body="body")


def test_header_injection_is_500():
    for name, value in (("X-Test", "a\r\nX-Injected: yes"), ("X-Test", "a\nb"), ("X-Test", "a\rb"), ("X-Test", "\x01"),
                        ("X-Test\r\nX-Injected", "a"), ("X Test", "a"), ("", "a"), ("X:", "a"), ("X-Test", "\x7f"),
                        ("Content-Length", "5"), ("Transfer-Encoding", "chunked"), ("connection", "close"),
                        ("DATE", "now"), ("Upgrade", "x"), ("Keep-Alive", "x"), ("Trailer", "x")):
        mistake("header", "", name=name, value=value)
    mistake("header-nul", "")


def test_bad_reason_is_500():
    mistake("reason", "", reason="OK\r\nX-Injected: yes")


def test_too_much_memory_is_500():
    mistake("alloc", "", n=17)


def test_too_many_header_octets_never_corrupt_the_connection():
    with Server({"routes": [{"path": "/", "handler": "hello"}, kit_route("/many", "many-headers", n=100)]},
                errors=["kit"]) as s, s.client() as c:
        for n in (0, 1, 10, 100, 1000, 20000):
            r = c.get("/many?n=%d" % n)
            assert r.status in (200, 500), r
            if r.status == 200 and n:
                assert r.headers["x-many"].count("0123456789012345678901234567890123456789") == n
            assert n > 20 or r.status == 200, r
            assert c.get("/").status == 200


def test_saying_pending_after_an_answer_is_a_mistake_or_harmless():
    with Server({"routes": [{"path": "/", "handler": "hello"}, kit_route("/bad", "pending-after-answer")]},
                errors=["kit"]) as s, s.client() as c:
        assert c.get("/bad").status in (200, 500)
        assert c.get("/").status == 200
        c.expect_silence(0.05)


def test_second_answer_of_a_pending_request_is_refused():
    """Given in the same callback, before the first is out, it makes a 500 of it."""
    with Server({"routes": [{"path": "/", "handler": "hello"}, kit_route("/bad", "later-twice", n=10)]},
                errors=["kit"]) as s, s.client() as c:
        assert c.get("/bad").status in (200, 500)
        s.log.wait("one more: -1")
        s.log.wait("error.*kit")
        assert c.get("/").text == "hello world!"
        c.send(get("/bad") + get("/") + get("/bad"))
        assert [c.receive().status // 100 for _ in range(3)][1] == 2
        c.expect_silence(0.05)


def test_request_used_after_its_end_is_refused():
    with Server({"routes": [{"path": "/", "handler": "hello"}, kit_route("/stale", "stale", n=50),
                            kit_route("/later", "later", n=150)]}, errors=["kit"]) as s:
        with s.client() as c:
            assert c.get("/stale").text == "ok"
            # Another request is in progress where the old one was when the old one is used.
            assert c.get("/later").text == "later"
            c.expect_silence(0.1)
        with s.client() as c:
            c.get("/stale")
        s.log.wait("kit", count=2)
        assert s.get("/").status == 200


def test_answer_after_cancel_is_refused():
    with Server({"routes": [{"path": "/", "handler": "hello"},
                            kit_route("/bad", "answer-after-cancel", n=300, route_timeout="100ms")]},
                errors=["kit"]) as s:
        with s.client() as c:
            assert c.get("/bad").status == 504
            s.log.wait("answering all the same: -1")
            assert c.get("/").text == "hello world!"
            c.expect_silence(0.4)
        with s.client() as c:
            c.send(get("/bad"))
            c.expect_silence(0.03)
            c.reset()
        s.log.wait("answering all the same: -1", count=2)
        assert s.get("/").status == 200


def test_cancel_is_called_when_the_client_resets():
    with Server({"routes": [kit_route("/", "later", n=20000)]}) as s:
        c = s.client()
        c.send(get("/"))
        c.expect_silence(0.1)
        c.reset()
        s.log.wait("cancelled", seconds=2)
        clients = [s.client() for _ in range(50)]
        for c in clients:
            c.send(get("/"))
        clients[0].expect_silence(0.1)
        for c in clients:
            c.reset()
        s.log.wait("cancelled", count=51, seconds=3)


def test_pending_answers_of_one_connection_come_in_order():
    with Server({"routes": [{"path": "/", "handler": "hello"}, kit_route("/later", "later", n=100),
                            kit_route("/big", "big", n=50000)]}) as s, s.client() as c:
        start = time.monotonic()
        c.send(get("/later?n=200") + get("/later?n=1") + get("/") + get("/big") + get("/later?n=1") + get("/"))
        texts = [c.receive().text for _ in range(6)]
        assert [t[:5] for t in texts] == ["later", "later", "hello", "bbbbb", "later", "hello"]
        assert 0.19 < time.monotonic() - start < 0.6 * proc.scale() + 0.2


def test_many_pending_requests_at_once():
    with Server({"routes": [kit_route("/", "later", n=100)]}) as s:
        clients = [s.client() for _ in range(200)]
        start = time.monotonic()
        for _ in range(3):
            for c in clients:
                c.send(get("/"))
            for c in clients:
                assert c.receive().text == "later"
        assert time.monotonic() - start < 3 * proc.scale()


def test_answer_within_handle_with_a_cancel_callback():
    with Server({"routes": [kit_route("/", "inside")]}) as s:
        with s.client() as c:
            assert c.get().text == "inside"
            c.reset()
        with s.client() as c:
            assert c.get().text == "inside"
        assert not s.log.find("cancelled")


def test_iovecs_of_all_counts():
    """Any number of pieces, also more than one system call takes; a negative one is a mistake."""
    with Server({"routes": [kit_route("/", "iov")]}, errors=["pieces"]) as s, s.client() as c:
        for n in (0, 1, 2, 3, 7, 64, 999, 1000, 1001, 4096):
            want = "".join(str(i % 10) for i in range(n) if i % 3)
            r = c.get("/?n=%d" % n)
            assert r.status == 200 and r.text == want, (n, r)
        assert c.get("/?n=-1").status == 500
        c.send(b"".join(get("/?n=%d" % n) for n in (5, 300, 900, 1001, 4)))
        for n in (5, 300, 900, 1001, 4):
            assert c.receive().text == "".join(str(i % 10) for i in range(n) if i % 3)


def test_arena_memory_and_copies_arrive_whole():
    with Server({"routes": [kit_route("/alloc", "alloc"), kit_route("/copy", "copy")]}) as s, s.client() as c:
        for n in (1, 2, 10, 15):
            assert c.get("/alloc?n=%d" % n).text == chr(ord("a") + n - 1) * 65536
        for n in (0, 1, 100, 10000, 500000):
            r = c.get("/copy?n=%d" % n)
            assert r.status == 200 and r.text == "c" * n, (n, r)
        c.send(b"".join(get("/copy?n=%d" % n) for n in (1, 3000, 20000) * 10))
        for n in (1, 3000, 20000) * 10:
            assert c.receive().text == "c" * n


def test_reason_phrase_and_custom_status():
    with Server({"routes": [kit_route("/reason", "reason", reason="Quite Fine"),
                            kit_route("/599", "status", n=599, body="custom"),
                            kit_route("/404", "status", n=404)]}) as s, s.client() as c:
        assert c.get("/reason").reason == "Quite Fine"
        r = c.get("/599")
        assert r.status == 599 and r.text == "custom"
        assert c.get("/404").reason == "Not Found"
        assert c.get("/reason").reason == "Quite Fine"


def test_times_of_a_request():
    with Server({"routes": [kit_route("/", "times"), kit_route("/limited", "times", route_timeout="2s")]}) as s:
        with s.client() as c:
            age, left = map(int, c.get("/").text.split())
            assert 0 <= age < 1e9 and left == 2**63 - 1, (age, left)
            age, left = map(int, c.get("/limited").text.split())
            assert 0 <= age < 1e9 and 1e9 < left <= 2e9, (age, left)
            # The clock of a request runs from its first octet.
            c.send(b"GET /limited HTTP/1.1\r\n")
            c.expect_silence(0.3)
            age, left = map(int, c.ask(b"Host: x\r\n\r\n").text.split())
            assert age > 0.25e9, age


def test_handlers_log_lines_carry_their_name_and_no_control_octets():
    with Server({"routes": [kit_route("/", "log", text="line one\nline two \x1b[31m")]}) as s:
        s.get("/")
        s.log.wait(r"warn.*kit.*line one\\x0aline two \\x1b\[31m|warn.*kit.*line one\\n")


def test_routes_match_the_longest_prefix_on_segment_borders():
    routes = [kit_route("/a", "status", n=200, body="a"), kit_route("/a/b", "status", n=200, body="a/b"),
              kit_route("/a/b/c", "status", n=200, body="a/b/c"), kit_route("/other", "status", n=200, body="other")]
    with Server({"routes": routes}) as s, s.client() as c:
        for target, want in [("/a", "a"), ("/a/", "a"), ("/a?x=/b", "a"), ("/a/bb", "a"), ("/a/b", "a/b"),
                             ("/a/b/", "a/b"), ("/a/b/x", "a/b"), ("/a/b/c", "a/b/c"), ("/a/b/c/d/e", "a/b/c"),
                             ("/a/b/cc", "a/b"), ("/other/x?y", "other"), ("/ab", None), ("/othe", None), ("/others", None), ("/", None),
                             ("/A", None), ("//a", None)]:
            r = c.get(target)
            assert (r.status, r.text) == (200, want) if want else r.status == 404, (target, r)
            assert not r.closes, r


def test_methods_of_routes_405_with_allow():
    routes = [dict(kit_route("/post", "ok"), methods=["POST"]),
              dict(kit_route("/both", "ok"), methods=["GET", "HEAD", "POST"])]
    with Server({"routes": routes}) as s, s.client() as c:
        r = c.get("/post")
        assert r.status == 405 and r.headers["allow"] == "POST" and not r.closes, r
        r = c.ask(request("DELETE", "/both", b"body"))
        assert r.status == 405 and not r.closes, r
        assert sorted(r.headers["allow"].replace(" ", "").split(",")) == ["GET", "HEAD", "POST"]
        assert c.post("/post", b"x").status == 200
        assert c.ask(request("POST", "/nowhere", b"x" * 100000)).status == 404
        assert c.post("/both", b"x").status == 200


def test_each_route_has_its_own_options_and_state():
    routes = [kit_route("/%d" % i, "status", n=200, body="route %d" % i) for i in range(20)]
    with Server({"routes": routes, "workers": 2}) as s, s.client() as c:
        for i in range(20):
            assert c.get("/%d" % i).text == "route %d" % i


def test_worker_ids_are_those_of_the_slots():
    with Server({"workers": 3, "routes": [kit_route("/", "who")]}) as s:
        def seen():
            return {tuple(map(int, s.get().text.split())) for _ in range(60)}
        first = set()

        def all_three():
            first.update(seen())
            return {n for n, _ in first} == {0, 1, 2}

        # Which worker takes a connection is the kernel's choice.
        proc.wait_until(all_three, lambda: "an answer of each worker: %s" % first)
        number, pid = sorted(first)[1]
        s.kill_worker(pid)
        proc.wait_until(lambda: {n for n, p in seen() if p != pid} == {0, 1, 2}, "number %d again" % number)


def test_commands_of_handlers_give_their_status():
    """B09, B38: nobody eats the status of a handler's child; it has clean signals and no foreign fds."""
    with Server({"routes": [kit_route("/seven", "run", command="exit 7"),
                            kit_route("/fds", "run", command="ls /proc/self/fd | tr '\\n' ' '"),
                            kit_route("/signals", "run", command="grep -E 'Sig(Blk|Ign)' /proc/self/status")]}) as s:
        with s.client() as c:
            for _ in range(50):
                assert c.get("/seven").text == "=7"
            # 0-2, the pipe, and the one that ls itself opens.
            fds = c.get("/fds").text.split("=")[0].split()
            assert set(fds) <= {"0", "1", "2", "3", "4"}, fds
            facts = c.get("/signals").text
            assert "SigBlk:\t0000000000000000" in facts, facts


def test_crash_of_a_handler_is_replaced_and_logged():
    """The worker is replaced at once, and the log says of what it died."""
    with Server({"workers": 2, "routes": [{"path": "/", "handler": "hello"}, kit_route("/crash", "crash", n=11),
                                          kit_route("/exit", "exit", n=3)]},
                errors=["SIGSEGV", "SIGABRT", "ended"], crashes=True) as s:
        for target, pattern in (("/crash", "SIGSEGV"), ("/exit", "(code|status) 3"), ("/crash?n=6", "SIGABRT")):
            before = set(s.workers())
            with s.client() as c:
                c.send(get(target))
                c.expect_closed(reset_allowed=True)
            proc.wait_until(lambda: len(s.workers()) == 2 and set(s.workers()) != before, "replaced")
            s.log.wait(pattern)
            assert s.get("/").status == 200


def test_handlers_see_the_whole_body_whatever_its_framing():
    with Server({"routes": [kit_route("/", "facts")]}) as s, s.client() as c:
        body = bytes(range(256)) * 100
        plain = c.post("/", body).text.rpartition("body=")[2]
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 777]), body[i:i + 777]) for i in range(0, len(body), 777))
        chunked = c.ask(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        assert chunked.text.rpartition("body=")[2] == plain and plain.startswith("25600:")
        assert c.post("/", b"").text.rpartition("body=")[2].startswith("0:")
        assert c.get("/").text.rpartition("body=")[2].startswith("0:")
