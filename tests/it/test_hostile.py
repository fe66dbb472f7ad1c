# SPDX-License-Identifier: MIT
"""Slow and greedy clients: what they may cost the others, counted, and the memory they may take, by its formula."""
import re
import threading

from test_stats import Stats
from whitecap_it import Server, get, kit_route, pause
from whitecap_it import proc

AT_ONCE = 32  # requests of one connection, before the others have their turn
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
