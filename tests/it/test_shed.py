# SPDX-License-Identifier: MIT
"""Load shedding: requests that have grown too old are answered at once, without their handler."""
import contextlib
import json
import os
import signal
import struct
import subprocess
import tempfile

from test_stats import Stats
from whitecap_it import Client, Server, get, kit_route, needs_plain, pause, post
from whitecap_it import build, proc

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


KERNEL = {"address": "127.0.0.1:0", "arrival_clock": "kernel"}
READ = "127.0.0.1:0"


def clocked(*listens, **options):
    return Server({"listen": list(listens),
                   "routes": [kit_route("/times", "times"), kit_route("/block", "block", n=150),
                              kit_route("/shed", "ok", route_shed={"after": "80ms", "status": 503})]}, **options)


@contextlib.contextmanager
def stopped(server, seconds=0.15):
    """What is sent inside waits for so long in the kernel."""
    (worker,) = server.workers()
    server.kill(signal.SIGSTOP, worker)
    proc.wait_until(lambda: proc.state(worker) == "T", "worker stopped")
    try:
        yield
        pause(seconds)
    finally:
        server.kill(signal.SIGCONT, worker)


def ask_stopped(server, client, target):
    with stopped(server):
        client.send(get(target))
    return client.receive()


def ask_behind_handler(server, client, target):
    with server.client() as blocker:
        blocker.send(get("/block"))
        pause(0.03)
        client.send(get(target))
        assert blocker.receive().status == 200
    return client.receive()


def age_ms(response):
    return int(response.text.split()[0]) / 1e6


def wait_for_stamps(server, client):
    """The kernel stamps nothing before a moment has passed since it was asked to."""
    proc.wait_until(lambda: ask_stopped(server, client, "/shed").status == 503, "stamps")


def test_kernel_clock_sees_what_has_waited_in_the_socket():
    with clocked(KERNEL) as s, s.client() as c:
        wait_for_stamps(s, c)
        assert c.get("/shed").status == 200
        assert ask_behind_handler(s, c, "/shed").status == 503
        assert 140 <= age_ms(ask_stopped(s, c, "/times"))
        assert age_ms(c.get("/times")) < 100 * proc.scale()
        with contextlib.ExitStack() as stack:  # one that has waited to be accepted, too
            with stopped(s):
                new = stack.enter_context(s.client())
                new.send(get("/shed"))
            assert new.receive().status == 503
            assert new.get("/shed").status == 200


def test_read_clock_does_not():
    with clocked(READ) as s, s.client() as c:
        for _ in range(3):
            assert ask_stopped(s, c, "/shed").status == 200
            assert ask_behind_handler(s, c, "/shed").status == 200


def test_kernel_clock_comes_and_goes_with_a_reload():
    """Also for connections that were there before: they move, and keep their clock in between."""
    with clocked(READ) as s, s.client() as c:
        assert ask_stopped(s, c, "/shed").status == 200
        s.reload(listen=[KERNEL])
        wait_for_stamps(s, c)
        s.reload()
        assert ask_stopped(s, c, "/shed").status == 503
        with s.client() as new:
            assert ask_stopped(s, new, "/shed").status == 503
        s.reload(listen=[READ])
        assert ask_stopped(s, c, "/shed").status == 200
        with s.client() as new:
            assert ask_stopped(s, new, "/shed").status == 200


def test_a_request_in_parts_keeps_its_stamp_through_a_move():
    with clocked(KERNEL) as s, s.client() as c:
        wait_for_stamps(s, c)
        data = get("/shed")
        c.send(data[:20])
        pause(0.15)
        s.reload()
        c.send(data[20:])
        assert c.receive().status == 503


def test_unix_sockets_have_the_read_clock():
    with clocked({"address": "unix:sock", "arrival_clock": "kernel"}) as s:
        with Client("unix:" + s.folder + "/sock") as c:
            assert ask_stopped(s, c, "/shed").status == 200


def test_a_clock_that_is_set_makes_no_request_old():
    needs_plain()
    with tempfile.NamedTemporaryFile() as ahead:
        def step(seconds):
            ahead.seek(0)
            ahead.write(struct.pack("q", seconds))
            ahead.flush()

        step(0)
        env = {"LD_PRELOAD": build.compile_shared("step_clock.c", "step_clock"), "STEP_CLOCK": ahead.name}
        with clocked(KERNEL, env=env) as s, s.client() as c:
            wait_for_stamps(s, c)
            for seconds in (3600, 0, -3600, 0):
                pause(0.1)  # longer than shed.after: nothing else says that what comes is fresh
                with stopped(s, 0):
                    c.send(get("/shed"))
                    step(seconds)
                assert c.receive().status == 200, seconds
                assert c.get("/shed").status == 200, seconds


def open_loop(port, rate, seconds, folder):
    """tests/bench/openloop.c: asks at that rate whatever the server does."""
    program = os.path.join(folder, "openloop")
    subprocess.run(["cc", "-std=c11", "-O2", "-o", program,
                    os.path.join(build.SOURCE, "tests", "bench", "openloop.c")], check=True)
    done = subprocess.run([program, "-p", str(port), "-c", "256", "-r", str(rate), "-s", str(seconds)], check=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60 * proc.scale())
    return json.loads(done.stdout)


def test_overload_is_shed_and_what_is_answered_began_in_time():
    """
    Two seconds at three times what a worker can do: every request is answered, no connection closed, and the handler
    gets none that is older than shed.after.
    """
    route = kit_route("/", "work", n=1000, limit=60, route_shed={"after": "50ms", "status": 503})
    with Server({"listen": [KERNEL], "routes": [route], "stats": {"file": "stats.json"}}) as s:
        got = open_loop(s.port, 3000, 2, s.folder)
        shed = Stats(s).read()["total"]["shed"]
    status = got["status"]
    print(status, got["ok"])
    assert got["answered"] == got["due"] == 6000 and got["closed"] == 0, got
    assert set(status) <= {"200", "299", "503"}, status
    assert status["503"] == shed >= 2000, (status, shed)
    assert status.get("299", 0) <= 20, status  # held up between the decision and the handler
    assert status["200"] >= 100 / proc.scale(), status
