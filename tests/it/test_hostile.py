# SPDX-License-Identifier: MIT
"""Slow and greedy clients: what they may cost the others, counted, and the memory they may take, by its formula."""
import collections
import contextlib
import json
import os
import re
import signal
import threading

from crashes import crash_server
from whitecap_it import Server, connect, get, kit_route, needs_plain, pause, post, request
from whitecap_it import proc

AT_ONCE = 32  # requests of one connection, before the others have their turn
EXPIRED = 64  # timeouts of one kind, likewise
SEQUENCE = kit_route("/n", "sequence")


def answers(client, count):
    """Bodies of so many answers, quickly: all 200, heads alike but for Date and length."""
    one = re.compile(rb"HTTP/1\.1 200 OK\r\n(?:[^\r\n]+\r\n)*?Content-Length: (\d+)\r\n(?:[^\r\n]+\r\n)*\r\n")
    out, at = [], 0
    while len(out) < count:
        head = one.match(client.buf, at)
        end = head.end() + int(head[1]) if head else 0
        if head and end <= len(client.buf):
            out.append(bytes(client.buf[head.end():end]))
            at = end
            continue
        del client.buf[:at]
        at = 0
        client.s.settimeout(client.timeout)
        data = client.s.recv(1 << 20)
        assert data, "closed after %d of %d answers: %r" % (len(out), count, bytes(client.buf[:200]))
        client.buf += data
    del client.buf[:at]
    return out


def send_all(client, data):
    """In a thread of its own, since what answers it must be read at the same time."""
    thread = threading.Thread(target=client.send, args=(data,), daemon=True)
    thread.start()
    return thread


def test_a_hundred_thousand_requests_in_one_write_hold_up_nobody():
    """Those who ask at the same time wait for a few of them, whatever order the events come in."""
    routes = [SEQUENCE, kit_route("/block", "block", n=300)]
    count = int(100000 / proc.scale())
    with Server({"routes": routes}) as s, s.client() as blocker, s.client() as greedy:
        others = [s.client() for _ in range(8)]
        for c in others + [greedy]:
            c.get("/n")
        before = int(others[0].get("/n").text)
        blocker.send(get("/block"))
        pause(0.1)  # the worker is in the handler: what is sent now is all there when it comes back
        for c in others[:4]:
            c.send(get("/n"))
        sender = send_all(greedy, get("/n") * count)
        for c in others[4:]:
            c.send(get("/n"))
        numbers = [int(c.receive().text) - before for c in others]
        assert max(numbers) <= len(others) + AT_ONCE, numbers
        got = list(map(int, answers(greedy, count)))
        sender.join()
        assert got == sorted(got) and len(set(got)) == count
        for c in others:
            c.close()


def test_greedy_clients_queue_apart_from_the_others():
    """Of two dozen, eight go on in a turn of the loop: who asks for little waits for these, not for all."""
    greedy, each, waiting = 24, 80, 8
    with Server({"routes": [kit_route("/n", "sequence", n=200), kit_route("/block", "block", n=300)]}) as s:
        clients = [s.client() for _ in range(greedy)]
        with s.client() as blocker, s.client() as other:
            blocker.send(get("/block"))
            pause(0.1)
            for c in clients:
                c.send(get("/n") * each)
            blocker.receive()
            numbers = [0]
            while numbers[-1] < greedy * (each - AT_ONCE):
                numbers.append(int(other.get("/n").text))
        between = [b - a for a, b in zip(numbers, numbers[1:])]
        assert min(between) <= 2 * waiting * AT_ONCE, between
        for c in clients:
            assert len(answers(c, each)) == each
            c.close()


CROWD = 50  # less than the events that libev takes at a time
LARGE = 16384  # a request may wait from then on


def newcomers(s, count, cost_us):
    """Connections that the worker has taken on; what they send next costs it so much."""
    before = sockets(s)
    clients = [s.client() for _ in range(count)]
    proc.wait_until(lambda: sockets(s) == before + count, "all accepted")
    return clients, get("/n?n=%d" % cost_us)


def large_requests(s, count, cost_us):
    """The same, of clients that have been served, in the middle of something large."""
    clients = [s.client() for _ in range(count)]
    data = post("/n?n=%d" % cost_us, b"x" * LARGE)
    for c in clients:
        c.get("/n")
        c.send(data[:-1])
    ports = {c.s.getsockname()[1] for c in clients}
    proc.wait_until(lambda: not any(octets for port, (_, octets) in queues(s.port).items() if port in ports), "all read")
    return clients, data[-1:]


def sockets(s):
    return sum(target.startswith("socket:") for target in proc.fd_targets(s.worker).values())


@contextlib.contextmanager
def blocked(s, client):
    """The worker is in a handler: what is sent meanwhile is all there when it comes back."""
    client.send(get("/block"))
    pause(0.1)
    yield
    client.receive()


def test_a_crowd_does_not_hold_up_those_who_were_here_before():
    """Neither newcomers nor large requests, though all are there at once: of those, some in each turn of the loop."""
    with Server({"routes": [SEQUENCE, kit_route("/block", "block", n=300)]}) as s:
        with s.client() as blocker, s.client() as first, s.client() as last:
            for c in (blocker, first, last):
                c.get("/n")
            for gather in (newcomers, large_requests):
                clients, data = gather(s, CROWD, 2000)
                before = int(first.get("/n").text)
                with blocked(s, blocker):
                    first.send(get("/n"))
                    for c in clients:
                        c.send(data)
                    last.send(get("/n"))
                numbers = [int(c.receive().text) - before for c in (first, last)]
                assert max(numbers) <= 8, numbers
                assert len({c.receive().text for c in clients}) == CROWD
                for c in clients:
                    c.close()


def test_who_waits_for_a_turn_is_answered_whatever_becomes_of_the_worker():
    """By another one, where there is one: the first number of this one has been given."""
    routes = [SEQUENCE, kit_route("/block", "block", n=300)]
    ends = {"reload": lambda s, c: s.kill(signal.SIGHUP), "stop": lambda s, c: s.kill(signal.SIGTERM),
            "crash": lambda s, c: c.send(get("/c?null"))}
    for name, end in ends.items():
        with crash_server(routes=routes) as s, s.client() as blocker, s.client() as other:
            for c in (blocker, other):
                c.get("/n")
            clients, data = newcomers(s, CROWD // 2, 20000)
            with blocked(s, blocker):
                for c in clients:
                    c.send(data)
            end(s, other)
            got = [c.receive() for c in clients]
            assert {r.status for r in got} == {200}
            assert ("1" in {r.text for r in got}) == (name != "stop"), name
            for c in clients:
                c.close()
            if name == "stop":
                s.wait_exit()
            elif name == "crash":
                assert other.receive().status == 500


# The formula of whitecap(8), MEMORY; octets.
CONNECTION, REQUEST, FIELD = 256, 12288, 16
NOT_SENT, ANNOUNCED = 262144, 32768
LIMITS = {"header_size": 16384, "headers": 100, "body_size": 131072}
ROUTES = [{"path": "/", "handler": "hello"}, {"path": "/echo", "handler": "echo"}, kit_route("/big", "big", n=65536)]


def most(octets, announced=0, unsent=0):
    room = max(4096, min(ANNOUNCED, announced), 2 * octets + 2048)
    return CONNECTION + REQUEST + FIELD * LIMITS["headers"] + room + unsent


def longest_head():
    """A whole head of header_size octets, not one field too many."""
    room = LIMITS["header_size"] - len(get("/"))
    fields = [("X", "x" * 195)] * (room // 200)
    return get("/", fields + [("X", "x" * (room % 200 - 5))]) if room % 200 >= 5 else get("/", fields)


def check_memory(data, bound, count=200):
    """So many connections that have sent data, which the server has read as far as it wants."""
    needs_plain()
    with Server({"limits": LIMITS, "routes": ROUTES}) as s, s.client() as other:
        other.get("/big")
        before = proc.memory_kb([s.worker])
        held = [connect(s.address) for _ in range(count)]
        for one in held:
            one.setblocking(False)
            assert one.send(data) == len(data)
        proc.wait_until(lambda: all(unread(s.port, one) == 0 for one in (held[0], held[-1])), "all read")
        assert other.get("/").status == 200
        each = (proc.memory_kb([s.worker]) - before) * 1024 / count
        print("%.0f octets for each, at most %d" % (each, bound))
        assert each <= bound, "%.0f octets for each connection, expected at most %d" % (each, bound)
        for one in held:
            one.close()


def queues(port):
    """Octets in the sockets of the server, by the client's port: not sent or not acknowledged, not read."""
    out = {}
    with open("/proc/net/tcp") as f:
        for line in list(f)[1:]:
            fields = line.split()
            local, remote = (int(fields[i].split(":")[1], 16) for i in (1, 2))
            if local == port and fields[3] == "01":
                out[remote] = tuple(int(n, 16) for n in fields[4].split(":"))
    return out


def unread(port, one):
    return queues(port).get(one.getsockname()[1], (0, 1))[1]


def test_memory_of_heads_that_have_begun():
    check_memory(b"GET / HTTP/1.1\r\nHost: a\r\nX: ", most(30))


def test_memory_of_heads_of_the_largest_size():
    data = longest_head()
    assert len(data) == LIMITS["header_size"]
    with Server({"limits": LIMITS}) as s, s.client() as c:
        assert c.ask(data).status == 200
    check_memory(data[:-1], most(len(data)))


def test_memory_of_bodies_that_are_only_announced():
    check_memory(post("/echo", b"x" * LIMITS["body_size"])[:100], most(100, announced=LIMITS["body_size"]))


def test_memory_of_bodies_of_the_largest_size():
    data = post("/echo", b"x" * 60000)[:-1]
    check_memory(data, most(len(data)))


def test_memory_of_requests_behind_answers_that_nobody_reads():
    """Of the worker, and of the kernel."""
    count = 100
    data = get("/big") * 1000
    with Server({"limits": LIMITS, "routes": ROUTES}) as s, s.client() as other:
        other.get("/big")
        before = proc.memory_kb([s.worker])
        held = [connect(s.address, receive_buffer=4096) for _ in range(count)]
        for one in held:
            one.setblocking(False)
            one.send(data)
        proc.wait_until(lambda: other.get("/").status == 200 and min(q[0] for p, q in queues(s.port).items()
                        if p != other.s.getsockname()[1]) > 0, "answers on their way")
        sizes = [q[0] for q in queues(s.port).values()]
        each = (proc.memory_kb([s.worker]) - before) * 1024 / count
        print("%.0f octets for each, in the kernel at most %d" % (each, max(sizes)))
        assert max(sizes) <= NOT_SENT + 2 * 65536, max(sizes)
        assert proc.scale() > 1 or each <= most(65536, unsent=NOT_SENT), each
        for one in held:
            one.close()


def test_a_million_chunks():
    needs_plain()
    data = request("POST", "/echo", headers=[("Transfer-Encoding", "chunked")])
    with Server({"limits": {"body_size": 1000000}}) as s, s.client() as c, s.client() as other:
        before = proc.memory_kb([s.worker])
        sender = send_all(c, data + b"1\r\nx\r\n" * 1000000 + b"0\r\n\r\n")
        while sender.is_alive():
            assert other.get("/").status == 200
        assert c.receive().body == b"x" * 1000000
        used = (proc.memory_kb([s.worker]) - before) * 1024
        assert used <= most(1000000), used


def test_clients_that_are_timed_out_together_hold_up_nobody():
    """However many: who asks meanwhile is answered between them."""
    count = 300
    with Server({"timeouts": {"request": "400ms"}, "access_log": {"path": "access.log"},
                 "routes": [SEQUENCE, kit_route("/block", "block", n=700)]}) as s:
        with s.client() as blocker, s.client() as other:
            other.get("/n")  # who is new may have to wait
            slow = [connect(s.address) for _ in range(count)]
            for one in slow:
                one.sendall(b"GET")
            blocker.send(get("/block"))
            pause(0.1)
            other.send(get("/n"))  # when the handler is through, this and all the timeouts are due
            assert other.receive().status == 200
            for one in slow:
                one.settimeout(10 * proc.scale())
                assert one.recv(4096).startswith(b"HTTP/1.1 408 ")
                one.close()
        path = os.path.join(s.folder, "access.log")
        proc.wait_until(lambda: len(statuses(path)) == count + 3, lambda: "all in the log: %s" % statuses(path))
        assert len(set(statuses(path))) == 2
        _, first, second = [i for i, status in enumerate(statuses(path)) if status == 200]
        assert second - first - 1 <= EXPIRED, statuses(path)


def statuses(path):
    with open(path) as f:
        return [json.loads(line)["status"] for line in f]


def test_requests_that_wait_for_their_turn_are_not_timed_out():
    """They are here whole; that the worker has no time for them is no fault of their clients."""
    config = {"workers": 1, "routes": [kit_route("/*", "block", n=5)], "timeouts": {"request": "150ms"}}
    with Server(config) as s:
        data = post("/", bytes(40000))
        clients = [s.client(timeout=30) for _ in range(100)]
        try:
            os.kill(s.worker, signal.SIGSTOP)
            for c in clients:
                c.send(data)
            os.kill(s.worker, signal.SIGCONT)
            statuses = [c.receive().status for c in clients]
        finally:
            for c in clients:
                c.close()
        assert statuses == [200] * len(clients), collections.Counter(statuses)
