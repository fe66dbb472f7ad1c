# SPDX-License-Identifier: MIT
"""What a request and an idle connection cost, counted."""
import ctypes
import hashlib
import os
import re
import resource
import struct

from whitecap_it import Server, Skip, build, connect, get, needs_plain, pause, post
from whitecap_it import proc
from whitecap_it.trace import Allocations, Strace

OPENRTB = os.path.join(build.SOURCE, "tests", "openrtb")
SENDS = {"sendto", "send", "sendmsg", "write", "writev"}
RECEIVES = {"recvfrom", "recv", "read", "recvmsg", "readv"}
# Shared by the batch, not by request.
LOOP = {"epoll_wait", "epoll_pwait", "epoll_pwait2"}


def all_features():
    """A configuration with everything on that could cost something."""
    return {
        "limits": {"keepalive_requests": 100000},
        "timeouts": {"keepalive": "60s", "request": "10s", "handler": "5s", "send": "10s"},
        "routes": [
            {"path": "/", "handler": "hello"},
            {"path": "/echo", "handler": "echo", "methods": ["POST"], "timeout": "1s"},
            {"path": "/bid", "handler": "bidder", "timeout": "100ms",
             "options": {"file": os.path.join(OPENRTB, "campaigns.json")}},
        ],
    }


def bid_request(name="banner-site.json"):
    with open(os.path.join(OPENRTB, "requests", name), "rb") as f:
        return post("/bid", f.read(), [("Content-Type", "application/json")])


REQUESTS = {"hello": lambda: get("/"), "echo": lambda: post("/echo", b"x" * 700), "bidder": bid_request}


def needs_bidder(name):
    if name == "bidder" and not os.path.exists(os.path.join(build.handler_dir(), "bidder.so")):
        raise Skip("no bidder in the build")


def config_for(name):
    config = all_features()
    if name != "bidder":
        config["routes"] = config["routes"][:2]
    return config


def check_calls(name, count=200, **more):
    needs_plain()
    needs_bidder(name)
    data = REQUESTS[name]()
    with Server(dict(config_for(name), **more)) as s, s.client() as c:
        for _ in range(20):
            c.ask(data)
        with Strace(s.worker) as trace:
            for _ in range(count):
                assert c.ask(data).status in (200, 204)
        received = sum(trace.calls[n] for n in RECEIVES)
        sent = sum(trace.calls[n] for n in SENDS)
        other = {n: k for n, k in trace.calls.items() if n not in SENDS | RECEIVES | LOOP}
        assert received == count, "%d reads for %d requests: %s" % (received, count, trace.calls)
        assert sent == count, "%d sends for %d requests: %s" % (sent, count, trace.calls)
        assert sum(other.values()) <= 4, "other calls: %s" % other
        waits = sum(trace.calls[n] for n in LOOP)
        assert waits <= count * 1.05 + 5, "%d waits for %d requests" % (waits, count)


def test_hello_costs_one_receive_and_one_send_per_request():
    check_calls("hello")


def test_echo_costs_one_receive_and_one_send_per_request():
    check_calls("echo")


def test_bidder_costs_one_receive_and_one_send_per_request():
    check_calls("bidder")


def test_kernel_clock_costs_no_call_more():
    check_calls("echo", listen=[{"address": "127.0.0.1:0", "arrival_clock": "kernel"}])


def test_access_log_costs_no_call_per_request():
    needs_plain()
    config = config_for("hello")
    with Server(dict(config, access_log={"path": "access.log"})) as s, s.client() as c:
        c.get()
        with Strace(s.worker) as trace:
            for _ in range(200):
                c.get()
        sent = [line for line in trace.lines if re.search(r"\b(sendto|sendmsg)\(", line)]
        written = [line for line in trace.lines if re.search(r"\b(write|writev)\(", line)]
        assert len(sent) + len(written) <= 200 + 10, trace.calls


def test_answers_to_pipelined_requests_of_one_read_leave_in_one_send():
    needs_plain()
    with Server() as s, s.client() as c:
        for data, count in ((get("/"), 16), (post("/echo", b"x" * 100), 16)):
            c.ask(data)
            with Strace(s.worker) as trace:
                for _ in range(10):
                    c.send(data * count)
                    for _ in range(count):
                        assert c.receive().status == 200
            received = sum(trace.calls[n] for n in RECEIVES)
            sent = sum(trace.calls[n] for n in SENDS)
            assert sent <= received and sent <= 12, "%d sends, %d reads for 10 batches" % (sent, received)


def check_allocations(name, count=1000):
    needs_plain()
    needs_bidder(name)
    counter = Allocations()
    data = REQUESTS[name]()
    with Server(config_for(name), env=counter.env) as s, s.client() as c:
        for _ in range(100):
            c.ask(data)
        before = counter.value()
        assert before > 0, "the counting library was not loaded"
        for _ in range(count):
            assert c.ask(data).status in (200, 204)
        made = counter.value() - before
        assert made == 0, "%d calls of the allocator in %d requests" % (made, count)


def test_hello_allocates_nothing():
    check_allocations("hello")


def test_echo_allocates_nothing():
    check_allocations("echo")


def test_bidder_allocates_nothing():
    check_allocations("bidder")


def test_pipelined_requests_allocate_nothing():
    needs_plain()
    counter = Allocations()
    with Server(env=counter.env) as s, s.client() as c:
        data = (get("/") + post("/echo", b"x" * 200)) * 8
        for round_number in range(60):
            if round_number == 10:
                before = counter.value()
            c.send(data)
            for _ in range(16):
                assert c.receive().status == 200
        made = counter.value() - before
        assert made == 0, "%d calls of the allocator in 800 requests" % made


def turns(s):
    """What the first worker has counted for the master to see a hang by, from the shared memory."""
    layout = hashlib.sha256()
    for name in ("scoreboard.h", "counters.def", "histogram.h", "master_status.h"):
        with open(os.path.join(build.SOURCE, "src", name), "rb") as f:
            layout.update(f.read())
    flags = ["-DLAYOUT=" + layout.hexdigest()]  # for the cache of what is compiled already
    place = ctypes.CDLL(build.compile_shared("turn_place.c", "turn_place", flags)).turn_place
    place.restype = ctypes.c_size_t
    fd, = (n for n, target in proc.fd_targets(s.pid).items() if "whitecap-scoreboard" in target)
    with open("/proc/%d/fd/%d" % (s.pid, fd), "rb") as f:
        return struct.unpack("Q", os.pread(f.fileno(), 8, place(1)))[0]


def count_turns(config, requests):
    with Server(config) as s, s.client() as c:
        assert c.get("/").status == 200
        before = turns(s)
        for _ in range(requests):
            assert c.get("/").status == 200
        return turns(s) - before


def test_watching_for_hangs_costs_nothing_where_no_route_has_a_time():
    """Two stores before and two after each handler where one has; not one where none has."""
    assert count_turns({}, 500) == 0
    assert count_turns({"timeouts": {"handler": "5s"}}, 500) >= 4 * 500
    assert count_turns({"routes": [{"path": "/", "handler": "hello"},
                                   {"path": "/x", "handler": "hello", "timeout": "5s"}]}, 500) >= 4 * 500


def test_an_idle_worker_does_nothing():
    """With all that has a timer on: the master alone looks for hangs."""
    config = dict(all_features(), workers=2, stats={"file": "stats.json"})
    config["timeouts"]["handler"] = "40ms"
    with Server(config) as s:
        clients = [s.client() for _ in range(20)]
        for c in clients:
            assert c.get("/").status == 200
        pause(1)    # what a request leaves to be done later is done then
        for pid in s.workers():
            with Strace(pid) as trace:
                pause(1.5)
            # The wait that strace found it in may be begun anew.
            calls = {name: n for name, n in trace.calls.items() if name not in LOOP | {"restart_syscall"}}
            assert not calls and len(trace.lines) <= 3, trace.lines
        for c in clients:
            assert c.get("/").status == 200
            c.close()


def idle_cost(address, count):
    """Opens so many keep-alive connections, each used once."""
    out = []
    data = get("/")
    for i in range(count):
        s = connect(address, source="127.0.0.%d" % (2 + i // 20000))
        s.sendall(data)
        assert s.recv(4096).startswith(b"HTTP/1.1 200 ")
        out.append(s)
    return out


def test_an_idle_connection_costs_at_most_256_bytes():
    needs_plain()
    count = 10000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 1000:
        raise Skip("needs %d descriptors, the hard limit is %d" % (count + 1000, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Server({"limits": {"connections": count + 500}}) as s:
        warm = idle_cost(s.address, 200)
        before = proc.memory_kb(proc.tree(s.pid))
        held = idle_cost(s.address, count)
        after = proc.memory_kb(proc.tree(s.pid))
        each = (after - before) * 1024 / count
        for one in warm + held:
            one.close()
        print("idle connection: %.0f bytes" % each)
        assert each <= 256, "%.0f bytes of process memory per idle connection" % each


# Memory that is shared with the server of another test would count half.
test_an_idle_connection_costs_at_most_256_bytes.alone = True
