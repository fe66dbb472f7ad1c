# SPDX-License-Identifier: MIT
"""Compressed request bodies, on routes with `decompress`."""
import gzip
import zlib

from whitecap_it import Server, kit_route, post

BODY = b'{"id":"1","imp":[{"id":"1"}],"tmax":60000}' * 20


def bare(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def server(**more):
    return Server(dict({"routes": [{"path": "/echo", "handler": "echo", "decompress": True}, {"path": "/raw", "handler": "echo"}],
                        "limits": {"body_size": "64k"}}, **more))


def ask(c, path, body, *codings):
    return c.post(path, body, [("Content-Encoding", coding) for coding in codings])


def test_body_reaches_the_handler_plain():
    with server() as s, s.client() as c:
        for coding, packed in [("gzip", gzip.compress(BODY)), ("X-GZIP", gzip.compress(BODY)), ("deflate", zlib.compress(BODY)),
                               ("deflate", bare(BODY)), ("gzip", gzip.compress(BODY[:9]) + gzip.compress(BODY[9:])),
                               ("identity", BODY)]:
            r = ask(c, "/echo", packed, coding)
            assert (r.status, r.body) == (200, BODY), (coding, r)
        assert c.post("/echo", BODY).body == BODY
        assert ask(c, "/echo", b"", "gzip").status == 200
        assert ask(c, "/raw", gzip.compress(BODY), "gzip").body[:2] == b"\x1f\x8b"
        c.send(b"".join(post("/echo", gzip.compress(BODY[n:]), [("Content-Encoding", "gzip")]) for n in range(30)))
        for n in range(30):
            assert c.receive().body == BODY[n:]


def test_what_cannot_be_read_is_refused_and_the_connection_goes_on():
    whole = gzip.compress(BODY)
    with server() as s, s.client() as c:
        for packed, codings, status in [
            (whole[:-1], ["gzip"], 400), (whole + b"x", ["gzip"], 400), (b"hello", ["gzip"], 400), (b"hello", ["deflate"], 400),
            (whole[:30] + b"\xff\xff" + whole[32:], ["gzip"], 400), (whole, ["br"], 415), (whole, ["gzip, gzip"], 415),
            (whole, ["gzip", "gzip"], 415), (whole, [""], 415), (gzip.compress(b"\0" * 65536), ["gzip"], 200),
            (gzip.compress(b"\0" * 65537), ["gzip"], 413), (gzip.compress(b"\0" * (32 << 20)), ["gzip"], 413),
        ]:
            r = ask(c, "/echo", packed, *codings)
            assert r.status == status, (codings, status, r)
            assert ("accept-encoding" in r.headers) == (status == 415), r
        assert c.post("/echo", BODY).body == BODY


def test_tmax_of_a_compressed_bid_request():
    shed = {"tmax": True, "status": 503}
    routes = [kit_route("/block", "block"),
              {"path": "/echo", "handler": "echo", "decompress": True, "shed": shed}]
    with Server({"routes": routes}) as s, s.client() as c:
        for tmax, status in ((20, 503), (20000, 200)):
            body = gzip.compress(b'{"tmax":%d}' % tmax)
            c.send(b"GET /block?n=120 HTTP/1.1\r\nHost: x\r\n\r\n" + post("/echo", body, [("Content-Encoding", "gzip")]))
            assert [c.receive().status for _ in range(2)] == [200, status]
