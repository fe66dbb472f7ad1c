# SPDX-License-Identifier: MIT
"""Workers are kept even, in requests and in connections, and what moves for that comes to rest."""
import heapq
import random
import select
import signal
import threading
import time

from move_client import Crowd
from test_move import MoveServer
from whitecap_it import connect, get, needs_plain, pause, proc


class Load:
    """Clients that ask at rates of their own, each time after a random pause; none may be closed."""

    def __init__(self, address, rates):
        self.rates, self.request, self.answers, self.failure = rates, get("/x"), 0, None
        self.clients = [connect(address) for _ in rates]
        self.over = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            self.ask_and_listen()
        except Exception as e:  # pylint: disable=broad-except
            self.failure = e

    def ask_and_listen(self):
        poll, busy = select.poll(), set()
        by_fd = {c.fileno(): i for i, c in enumerate(self.clients)}
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        due = [(time.monotonic() + random.expovariate(r), i) for i, r in enumerate(self.rates)]
        heapq.heapify(due)
        while not self.over:
            now = time.monotonic()
            while due[0][0] <= now:
                at, i = heapq.heappop(due)
                if i not in busy:
                    self.clients[i].send(self.request)
                    busy.add(i)
                heapq.heappush(due, (max(at, now - 0.05) + random.expovariate(self.rates[i]), i))
            for fd, _ in poll.poll(max(0, min(50, 1e3 * (due[0][0] - now)))):
                assert self.clients[by_fd[fd]].recv(65536), "closed"
                busy.discard(by_fd[fd])
                self.answers += 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()
        for c in self.clients:
            c.close()
        assert not self.failure, self.failure

def rates(server, seconds=1.0):
    """Requests of each worker that serves, in that time."""
    before = server.worker_requests()
    pause(seconds)
    after = server.worker_requests()
    return {pid: n - before.get(pid, 0) for pid, n in after.items()}


def unevenness(server, seconds=1.0):
    found = list(rates(server, seconds).values())
    return max(found) * len(found) / (sum(found) or 1) - 1, found


def moved(server):
    return server.total()["moved"]["out"]


def becomes_even(server, crowd, connections):
    """Within two seconds.  The clients' rates are their own: only the share of each worker counts."""
    pause(2.0)
    above, found = unevenness(server)
    assert above <= 0.10, (above, found)
    assert moved(server) <= 2 * connections, moved(server)
    assert not crowd.report.trouble, crowd.report.trouble[:3]


def comes_to_rest(server, for_seconds):
    """Moves until there are three at most in that time; idle ones move for longer than others."""
    count, since, most = moved(server), time.monotonic(), time.monotonic() + 25
    while time.monotonic() - since < for_seconds:
        assert time.monotonic() < most, "%d moves, no end" % count
        pause(0.25)
        now = moved(server)
        if now > count + 3:
            count, since = now, time.monotonic()
    return moved(server)


def test_from_all_on_one_worker():
    with MoveServer({"workers": 1}) as s:
        with Crowd(s.address, paced=120, idle=400) as crowd:
            for count in (2, 3, 4):
                s.kill(signal.SIGTTIN)
                proc.wait_until(lambda: len(s.workers()) == count, "%d workers" % count, 20)
            proc.wait_until(lambda: len(s.worker_requests()) == 4, "four workers that serve", 20)
            becomes_even(s, crowd, 520)
            assert comes_to_rest(s, 2) <= 2 * 520
            crowd.finish().check()
        spread = [w["accept"] for w in s.stats()["workers"]]
        assert max(spread) == 520 == sum(spread), spread


def test_after_a_worker_was_killed():
    with MoveServer({"workers": 3}) as s:
        with Crowd(s.address, paced=90, idle=100, closing_allowed=True) as crowd:
            victim = s.workers()[0]
            s.expect_end(victim)
            s.kill(signal.SIGKILL, victim)
            proc.wait_until(lambda: victim not in s.workers() and len(s.worker_requests()) == 3, "replaced", 20)
            proc.wait_until(lambda: len(crowd.clients) == s.total()["connections"]["active"] +
                            s.total()["connections"]["idle"], "its clients know")
            crowd.report.trouble.clear()
            becomes_even(s, crowd, 190)
            assert not crowd.report.trouble
            crowd.finish().check()


def test_unequal_rates():
    """Some clients ask all the time, most now and then, whatever the workers have of the processors."""
    with MoveServer({"workers": 1}) as s:
        with Crowd(s.address, idle=100) as crowd, Load(s.address, [100] * 12 + [5] * 60) as load:
            proc.wait_until(lambda: load.answers > 300, "load")
            s.kill(signal.SIGTTIN)
            proc.wait_until(lambda: len(s.worker_requests()) == 2, "two workers", 20)
            becomes_even(s, crowd, 172)
            crowd.finish().check()


def test_without_rebalance_nothing_moves():
    with MoveServer({"workers": 1, "rebalance": False}) as s:
        with Crowd(s.address, paced=40, idle=40) as crowd:
            s.kill(signal.SIGTTIN)
            proc.wait_until(lambda: len(s.worker_requests()) == 2, "two workers", 20)
            pause(1.5)
            crowd.finish().check()
        assert s.total()["moved"] == {"in": 0, "out": 0}


def connections(server):
    return [sum(w["connections"].values()) for w in server.stats()["workers"] if w["state"] == "ready"]


def test_who_is_new_gets_a_share_however_often_others_were_new_before():
    """That connections stay longer after each move is no matter then."""
    needs_plain()
    with MoveServer({"workers": 2}, crashes=True, errors=["."]) as s, Load(s.address, [10] * 100) as load:
        proc.wait_until(lambda: load.answers > 300, "load")
        for n in range(11):
            victim = s.workers()[n % 2]
            s.kill(signal.SIGSEGV, victim)
            proc.wait_until(lambda: victim not in s.workers() and len(connections(s)) == 2, "another worker")
            proc.wait_until(lambda: min(connections(s)) >= 38, lambda: (n, connections(s)), 3)
        assert s.total()["lost"] == 0


def test_small_clients_beside_large_ones_come_to_rest():
    """What is left of the unevenness are clients too large to move; the small ones do not wander between them."""
    needs_plain()
    with MoveServer({"workers": 2}) as s, Load(s.address, [300] * 3 + [1] * 150) as load:
        proc.wait_until(lambda: load.answers > 1000, "load")
        count = comes_to_rest(s, 4)
        assert count <= 4 * 153, count
        pause(4)
        assert moved(s) - count <= 8, (count, moved(s))


for measuring in (test_from_all_on_one_worker, test_after_a_worker_was_killed, test_unequal_rates,
                  test_small_clients_beside_large_ones_come_to_rest,
                  test_who_is_new_gets_a_share_however_often_others_were_new_before):
    measuring.alone = True
