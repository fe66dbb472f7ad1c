# SPDX-License-Identifier: MIT
"""Load shedding: requests that have grown too old are answered at once, without their handler."""
from test_stats import Stats
from whitecap_it import Server, get, kit_route, post

BLOCK = get("/block?n=150")  # what is read together with it waits for so long


def shedding(*routes, **shed):
    return Server({"routes": [kit_route("/block", "block"), kit_route("/shed", "ok", route_shed=shed)] + list(routes),
                   "stats": {"file": "stats.json"}})


def statuses(c, data, count):
    c.send(data)
    return [c.receive().status for _ in range(count)]


def route_of(stats, path):
    return [r for r in stats["routes"] if r["path"] == path][0]


def check_counters(server, shed, late, path="/shed"):
    stats = Stats(server).until(lambda t: t["total"]["shed"] == shed and t["total"]["late"] == late,
                                "%d shed, %d late" % (shed, late))
    assert route_of(stats, path)["shed"] == shed and route_of(stats, path)["late"] == late, stats["routes"]


def test_old_requests_are_answered_unheard_and_the_connection_goes_on():
    for status in (204, 503):
        with shedding(after="50ms", status=status) as s, s.client() as c:
            assert statuses(c, get("/shed"), 1) == [200]
            assert statuses(c, BLOCK + get("/shed") * 3, 4) == [200] + [status] * 3
            assert statuses(c, get("/shed") * 2, 2) == [200, 200]
            check_counters(s, 3, 0)
            assert Stats(s).read()["total"]["responses"]["%dxx" % (status // 100)] >= 3


def test_dry_run_only_counts():
    with shedding(after="50ms", dry_run=True) as s, s.client() as c:
        assert statuses(c, BLOCK + get("/shed") * 3, 4) == [200] * 4
        check_counters(s, 3, 0)


def test_deadline_comes_from_the_bid_request():
    with shedding(tmax=True, status=503) as s, s.client() as c:
        for body, status in [(b'{"id":"1","imp":[{"tmax":1}],"tmax":100}', 503), (b'{"tmax":60000}', 200),
                             (b'{"imp":[{"tmax":1}]}', 200), (b"", 200), (b"no JSON \"tmax\":1", 200)]:
            assert statuses(c, BLOCK + post("/shed", body), 2) == [200, status], body
        check_counters(s, 1, 0)


def test_answers_after_their_deadline_are_late():
    slow = kit_route("/slow", "block", n=120, route_shed={"tmax": True})
    with shedding(slow) as s, s.client() as c:
        assert c.post("/slow", b'{"tmax":30}').status == 200
        assert c.post("/slow", b'{"tmax":30000}').status == 200
        assert c.post("/slow", b'{}').status == 200
        check_counters(s, 0, 1, "/slow")


def test_handler_sees_what_remains():
    routes = [kit_route("/tmax", "times", route_shed={"tmax": True}),
              kit_route("/both", "times", route_shed={"tmax": True}, route_timeout="100ms"),
              kit_route("/none", "times")]
    with shedding(*routes) as s, s.client() as c:
        def remaining(path, body):
            return int(c.post(path, body).text.split()[-1]) / 1e6
        assert 1000 < remaining("/tmax", b'{"tmax":5000}') <= 5000
        assert remaining("/tmax", b"{}") > 1e9
        assert 0 <= remaining("/both", b'{"tmax":5000}') <= 100
        assert 0 <= remaining("/both", b'{"tmax":60}') <= 60
        assert remaining("/none", b'{"tmax":5}') > 1e9
