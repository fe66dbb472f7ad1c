# SPDX-License-Identifier: MIT
"""Behind a balancer: the PROXY protocol on a listener, and X-Forwarded-For from trusted proxies."""
import json
import os
import re
import socket
import struct
import tempfile

from whitecap_it import Client, Server, get, kit_route, proc

V2 = b"\r\n\r\n\0\r\nQUIT\n"
V1 = b"PROXY TCP4 192.0.2.1 192.0.2.2 4711 80\r\n"


def v2(command, kind, block=b""):
    return V2 + bytes([0x20 | command, kind]) + struct.pack("!H", len(block)) + block


def v2_ipv4(tlvs=b""):
    return v2(1, 0x11, socket.inet_aton("192.0.2.7") + socket.inet_aton("192.0.2.2") + struct.pack("!HH", 4712, 80) + tlvs)


def v2_ipv6():
    return v2(1, 0x21, socket.inet_pton(socket.AF_INET6, "2001:db8::1") + bytes(16) + struct.pack("!HH", 4713, 80))


def proxied(**more):
    config = {"listen": [{"address": "127.0.0.1:0", "proxy_protocol": True}, "127.0.0.2:0"],
              "routes": [kit_route("/facts", "facts"), {"path": "/", "handler": "hello"}],
              "access_log": {"path": "access.log"}, "timeouts": {"request": "600ms"}}
    return Server(dict(config, **more))


def peer_of(response):
    return re.search(r"^peer=(.*)$", response.text, re.M).group(1)


def own_address(c):
    return "%s:%d" % c.s.getsockname()


def logged_peers(server):
    with open(os.path.join(server.folder, "access.log"), encoding="ascii") as f:
        return [json.loads(line)["peer"] for line in f]


def test_header_gives_the_peer_in_either_version():
    with proxied() as s:
        for header, peer in [(V1, "192.0.2.1:4711"), (b"PROXY TCP6 2001:db8::9 2001:db8::2 1 80\r\n", "[2001:db8::9]:1"),
                             (v2_ipv4(), "192.0.2.7:4712"), (v2_ipv4(b"\4\0\3abc" + b"\5\7\0" + b"x" * 1792), "192.0.2.7:4712"),
                             (v2_ipv6(), "[2001:db8::1]:4713"), (v2(1, 0x31, bytes(216)), "unix:"),
                             (b"PROXY UNKNOWN\r\n", None), (v2(0, 0), None), (v2(0, 0x11, bytes(12)), None), (v2(1, 0), None)]:
            with s.client() as c:
                c.send(header + get("/facts"))
                assert peer_of(c.receive()) == (peer or own_address(c)), header
                assert peer_of(c.get("/facts")) == (peer or own_address(c)), header
        s.stop()
        assert logged_peers(s)[:4] == ["192.0.2.1:4711"] * 2 + ["[2001:db8::9]:1"] * 2


def test_header_comes_cut_anywhere():
    with proxied(timeouts={"request": "10s"}) as s:
        for header, peer in [(V1, "192.0.2.1:4711"), (v2_ipv4(), "192.0.2.7:4712")]:
            with s.client() as c:
                for octet in header + get("/facts"):
                    c.send(bytes([octet]))
                assert peer_of(c.receive()) == peer
            with s.client() as c:
                c.send(header)
                c.expect_silence(0.05)
                c.send(get("/facts") * 3)
                assert [peer_of(c.receive()) for _ in range(3)] == [peer] * 3


def test_header_is_required_there_and_refused_elsewhere():
    with proxied() as s:
        for bad in [get("/"), b"PROXY TCP4 192.0.2.1 192.0.2.2 4711\r\n" + get("/"), V2 + b"\x22\0\0\0",
                    V2 + b"\x21\x11\xff\xff", V1[:-2] + b"\n" + get("/"), b"\x16\x03\x01", b"PROXY " + b"x" * 200]:
            with s.client() as c:
                c.send(bad)
                c.expect_closed(reset_allowed=True)
        for header in (V1, v2_ipv4()):
            with s.client() as c:  # half a header, then the end: closed
                c.send(header[:-1])
                c.half_close()
                c.expect_closed()
        for header in (V1, v2_ipv4()):
            with Client(s.addresses[1]) as c:
                c.send(header + get("/"))
                assert c.receive().status in (400, 501)  # a method that nobody knows, or an empty line
                c.expect_closed(reset_allowed=True)
        with Client(s.addresses[1]) as c:
            assert peer_of(c.get("/facts")) == own_address(c)
            c.send(V1)  # not between two requests either
            assert c.receive().status == 501  # to HTTP a method that nobody knows
        with s.client() as c:  # and only once
            c.send(V1 + V1)
            assert c.receive().status == 501  # to HTTP a method that nobody knows


def test_bad_header_is_counted_and_told_with_peer_and_listener():
    with proxied(stats={"file": "stats.json", "interval": "100ms"}) as s:
        for bad in (get("/"), V1[:-2] + b"\n" + get("/")):
            with s.client() as c:
                c.send(bad)
                s.log.wait(r"warn.*%s on listener 127\.0\.0\.1:0 .*PROXY" % re.escape(own_address(c)))
                c.expect_closed(reset_allowed=True)
        for _ in range(60):
            with s.client() as c:
                c.send(get("/"))
                c.expect_closed(reset_allowed=True)

        def counted():
            with open(os.path.join(s.folder, "stats.json"), encoding="utf-8") as f:
                return json.load(f)["total"]["proxy_error"] == 62
        proc.wait_until(counted, "62 counted")
        seconds = [line[:19] for line in s.log.find(r"^(\S+) .*PROXY protocol header") for line in [line.group(1)]]
        assert max(seconds.count(one) for one in seconds) <= 20, seconds


def test_header_that_does_not_come_is_waited_for_no_longer_than_a_request():
    with proxied() as s:
        for part in (b"", b"PROX", V2 + b"\x21\x11\0\x0c"):
            with s.client() as c:
                c.send(part)
                took = c.expect_closed()
                assert took > 0.4, took


def test_moved_connections_keep_the_peer_and_half_headers_go_on():
    with proxied(timeouts={"request": "20s"}, workers=2) as s:
        with s.client() as whole, s.client() as half, s.client() as none:
            whole.send(V1 + get("/facts"))
            assert peer_of(whole.receive()) == "192.0.2.1:4711"
            half.send(V1[:20])
            old = set(s.workers())
            half.expect_silence(0.1)
            s.kill(1)  # HUP
            assert proc.wait_until(lambda: s.generation() == 2, "second generation")
            assert peer_of(whole.get("/facts")) == "192.0.2.1:4711"
            half.send(V1[20:] + get("/facts"))
            assert peer_of(half.receive()) == "192.0.2.1:4711"
            none.send(v2_ipv4() + get("/facts"))
            assert peer_of(none.receive()) == "192.0.2.7:4712"
            proc.wait_until(lambda: not old & set(s.workers()), "old workers gone")
            assert peer_of(half.get("/facts")) == "192.0.2.1:4711"
            assert peer_of(none.get("/facts")) == "192.0.2.7:4712"


def test_stop_does_not_wait_for_headers():
    with proxied(timeouts={"request": "60s"}) as s:
        with s.client() as c, s.client() as idle:
            c.send(V1[:5])
            idle.send(V1 + get("/"))
            assert idle.receive().status == 200
            s.stop(seconds=5)
            c.expect_closed(reset_allowed=True)


def forwarded(c, *lines):
    return peer_of(c.get("/facts", [("X-Forwarded-For", line) for line in lines]))


def test_forwarded_is_believed_by_a_unix_socket_where_that_is_trusted():
    for trusted, peer in [(["unix:"], "203.0.113.9:0"), (["0.0.0.0/0", "::/0"], "unix:"),
                          (["unix:", "203.0.113.0/24"], "198.51.100.1:0")]:
        with tempfile.TemporaryDirectory(prefix="whitecap-it-") as folder:
            where = "unix:%s/socket" % folder
            with Server({"listen": [where], "routes": [kit_route("/facts", "facts")], "trusted_proxies": trusted}), \
                 Client(where) as c:
                c.send(get("/facts", [("X-Forwarded-For", "198.51.100.1, 203.0.113.9")]))
                assert peer_of(c.receive()) == peer, trusted


def test_forwarded_is_believed_from_trusted_proxies_only():
    routes = [kit_route("/facts", "facts")]
    with Server({"routes": routes, "trusted_proxies": ["127.0.0.1", "10.0.0.0/8", "2001:db8::/32"],
                 "access_log": {"path": "access.log"}}) as s:
        with s.client() as c:
            own = own_address(c)
            assert peer_of(c.get("/facts")) == own
            assert forwarded(c, "203.0.113.9") == "203.0.113.9:0"
            assert forwarded(c, "6.6.6.6, 203.0.113.9:77, 10.1.2.3") == "203.0.113.9:77"
            assert forwarded(c, "203.0.113.9", "10.1.2.3 ,, 2001:db8::7") == "203.0.113.9:0"
            assert forwarded(c, "[2600::1]:443, [2001:db8::7]:1") == "[2600::1]:443"
            assert forwarded(c, "203.0.113.9, garbage") == own
            assert forwarded(c, "10.9.9.9") == "10.9.9.9:0"
        s.stop()
        assert logged_peers(s)[1:3] == ["203.0.113.9:0", "203.0.113.9:77"]
    with Server({"routes": routes, "trusted_proxies": ["10.0.0.0/8"]}) as s, s.client() as c:
        assert forwarded(c, "203.0.113.9") == own_address(c)
    with proxied(trusted_proxies=["192.0.2.0/24"]) as s, s.client() as c:  # after the PROXY protocol
        c.send(V1 + get("/facts", [("X-Forwarded-For", "203.0.113.9")]))
        assert peer_of(c.receive()) == "203.0.113.9:0"
