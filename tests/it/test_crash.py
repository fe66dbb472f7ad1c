# SPDX-License-Identifier: MIT
"""A crash costs one request: every kind, everywhere, beside clients that check every octet."""
import os
import random
import re
import signal
import socket
import time

import storm
from crashes import (FAULTS, PLACES, POPULATION, crash_handler, crash_server, culprit, ended, forgive, kinds, stats,
                     wait_replaced)
from move_client import Crowd
from whitecap_it import Server, Skip, build, get, pause, post, proc
from whitecap_it.trace import Strace


def run_cells(workers, cells, **options):
    with crash_server(workers, **options) as s:
        with Crowd(s.address, **POPULATION) as crowd:
            for n, query in enumerate(cells, 1):
                since = len(s.log.lines)
                culprit(s, query)
                wait_replaced(s, n, workers)
                kind = query.split("@")[0]
                proc.wait_until(lambda: ended(s, since) == [FAULTS.get(kind, "ABRT")],
                                lambda: (query, ended(s, since), s.log.tail()), 5)
                forgive(s, n, workers)
            report = crowd.finish()
        report.check()
        total = stats(s)["total"]
        assert total["crash"] == len(cells) and total["lost"] == 0, total


def test_every_fault_in_handle_with_one_worker():
    run_cells(1, kinds())


def test_every_fault_in_handle_with_four_workers():
    run_cells(4, kinds())


def test_every_fault_in_callbacks_and_timers():
    run_cells(2, ["%s@%s" % (k, p) for k in kinds() for p in ("callback", "timer")])


def test_every_fault_in_signal_handlers():
    run_cells(2, [k + "@signal" for k in kinds()])


def test_every_fault_in_threads():
    run_cells(2, ["%s@%s" % (k, p) for k in kinds() for p in ("thread", "deaf-thread")])


def test_many_threads_that_fault_at_the_same_time():
    run_cells(1, ["null@threads", "overflow@threads", "abort@threads"])


def test_threads_that_fault_while_the_main_one_is_held_up():
    run_cells(1, ["null@sleeping", "null@locked", "overflow@locked"] +
              ([] if build.sanitized() else ["malloc@sleeping"]))


def test_thread_that_dies_with_the_heaps_lock_while_connections_are_taken():
    """All threads share one heap: the taker waits for it for ever, with a message half taken."""
    if build.sanitized():
        raise Skip("measures the plain build: the sanitizer's heap has other locks")
    with crash_server(2, env={"MALLOC_ARENA_MAX": "1"}) as s:
        with Crowd(s.address, **dict(POPULATION, idle=100, half_body=40, half_chunked=40)) as crowd:
            for n in range(1, 9):
                s.reload()
                culprit(s, "heap@thread")
                wait_replaced(s, n, 2)
            report = crowd.finish()
        report.check()
        total = stats(s)["total"]
        assert total["lost"] == 0 and total["moved"]["in"] == total["moved"]["out"], total


def test_children_of_handlers_crash_for_themselves():
    with crash_server(1) as s, s.client() as c:
        worker = s.worker
        for query in ("null@child", "abort@child", "null@exec"):
            r = c.get("/c?" + query)
            assert r.text == "child %d" % (signal.SIGABRT if "abort" in query else signal.SIGSEGV), (query, r)
        assert s.worker == worker and stats(s)["total"]["crash"] == 0


def test_exit_is_a_crash_everywhere():
    run_cells(2, ["exit@" + p for p in PLACES])


def test_exit_is_a_crash_that_has_a_name():
    with crash_server(1) as s:
        culprit(s, "exit")
        wait_replaced(s, 1, 1)
        assert s.log.find(r"exit\(\) called in handler crash \(route /c\), GET /c\?exit"), s.log.tail()
        total = stats(s)["total"]
        assert (total["crash"], total["lost"]) == (1, 0), total
        with s.client() as c:
            assert c.get("/c?exit@child").text == "child 0"
        assert stats(s)["total"]["crash"] == 1


def test_pipelined_answers_before_the_crash_go_out_and_what_is_behind_it_goes_on():
    with crash_server(1) as s, s.client() as c:
        requests = [get("/c?x"), post("/echo?1", b"body"), get("/c?null"), get("/c?y"), post("/echo?2", b"more" * 5000)]
        data = b"".join(requests)
        c.send(data[:-100])
        answers = [c.receive() for _ in range(4)]
        assert [r.status for r in answers] == [200, 200, 500, 200], answers
        assert answers[1].text == "v1 1\nbody"
        # What was begun has its full time from now on.
        pause(0.2)
        assert c.ask(data[-100:]).text == "v1 2\n" + "more" * 5000
        c.send(b"HEAD /c?null HTTP/1.1\r\nHost: a\r\n\r\n")
        assert c.receive(head=True).status == 500
        c.send(b"GET /c?null HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert c.receive().headers["connection"] == "keep-alive"
        r = c.get("/c?null", headers=[("Connection", "close")])
        assert r.status == 500 and r.closes
        c.expect_closed()


def test_access_log_has_every_line_but_the_crashs_own():
    with crash_server(1, config={"access_log": {"path": "access.log"}}) as s:
        with s.client() as c:
            for i in range(5):
                c.send(get("/c?x") * 20 + get("/c?null"))
                assert [c.receive().status for _ in range(21)] == [200] * 20 + [500]
        with s.client() as c:
            assert c.get("/c?y").status == 200
        s.stop()
        with open(os.path.join(s.folder, "access.log"), encoding="ascii") as f:
            lines = f.read().splitlines()
        assert all(line.endswith("}") for line in lines), lines
        assert len(lines) == 101 and "/c?null" not in "".join(lines), len(lines)


def ran(s, what):
    return len(s.log.find(r"ran pend=\d+ %s$" % re.escape(what)))


def test_pending_requests_are_answered_500_or_run_again():
    with crash_server(1) as s:
        plain, again, chunked, last = s.client(), s.client(), s.client(), s.client()
        plain.send(post("/c?pend=1500", b"plain") + get("/c?behind"))
        again.send(post("/r?pend=1500", b"again") + get("/c?behind"))
        chunked.send(b"POST /r?pend=1500 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                     b"3;x=y\r\nchu\r\n4\r\nnked\r\n0\r\nTrailer: x\r\n\r\n" + get("/c?behind"))
        last.send(post("/r?pend=1500", b"last", headers=[("Connection", "close")]))
        for what in ("plain", "again", "chunked", "last"):
            s.log.wait("ran pend=1500 %s$" % what)
        culprit(s, "null")
        assert plain.receive().status == 500 and plain.receive().text == "ok"
        for c, what in ((again, "again"), (chunked, "chunked"), (last, "last")):
            assert c.receive().text == "later", what
            assert ran(s, what) == 2, s.log.tail()
        assert again.receive().text == "ok" and chunked.receive().text == "ok"
        last.expect_closed()
        # Once only: the second crash ends it.
        again.send(post("/r?pend=1500", b"twice"))
        s.log.wait("ran pend=1500 twice$")
        culprit(s, "null")
        s.log.wait("ran pend=1500 twice$", count=2)
        culprit(s, "null")
        assert again.receive().status == 500 and ran(s, "twice") == 2
        # Never the culprit.
        assert again.get("/r?null").status == 500
        wait_replaced(s, 4, 1)
        assert stats(s)["total"]["lost"] == 0


def test_a_request_that_crashes_when_it_is_run_again_takes_no_others_along():
    """They came in the same message of the exchange."""
    with crash_server(1) as s:
        with Crowd(s.address, idle=60, half_body=4) as crowd, s.client() as c:
            c.send(get("/r?null@callback"))
            assert c.receive().status == 500
            report = crowd.finish()
        report.check()
        assert len(ended(s)) == 2 and stats(s)["total"]["lost"] == 0


def test_response_half_sent_when_another_one_crashes_goes_on():
    with crash_server(1) as s:
        with Crowd(s.address, slow=3, dribbling=3) as crowd:
            for _ in range(3):
                culprit(s, "null")
            report = crowd.finish()
        report.check()


def test_signals_from_outside_cut_no_request():
    """At random moments under load."""
    rng = random.Random(7)
    with crash_server(2, config={"access_log": None}) as s:
        with Crowd(s.address, idle=50, busy=24, pipelining=4, trickling=4, half_body=4) as crowd:
            for n in range(1, 31 if not build.sanitized() else 9):
                pause(rng.uniform(0, 0.05))
                number = rng.choice([signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS])
                proc.kill_quietly(rng.choice(s.workers()), number)
                wait_replaced(s, n, 2)
                forgive(s, n, 2)
            report = crowd.finish()
        report.check()
        assert stats(s)["total"]["lost"] == 0


def test_sibling_that_crashes_while_taking():
    """Two of three at nearly the same time, so that one takes what the other gives when it is hit itself."""
    rng = random.Random(11)
    rounds = 3 if build.sanitized() else 12
    with crash_server(3) as s:
        with Crowd(s.address, idle=150, busy=4, half_body=20, pipelining=4) as crowd:
            for n in range(1, rounds + 1):
                first, second = rng.sample(s.workers(), 2)
                proc.kill_quietly(first, signal.SIGSEGV)
                pause(rng.uniform(0, 0.004))
                proc.kill_quietly(second, signal.SIGSEGV)
                wait_replaced(s, 2 * n, 3)
                s.reload()
            report = crowd.finish()
        report.check()
        total = stats(s)["total"]
        assert (total["crash"], total["lost"]) == (2 * rounds, 0), total


def test_worker_that_crashes_before_its_generation_serves_is_replaced():
    """One is ready, the other one is held up: the first one's crash must not be forgotten."""
    routes = [{"path": "/", "handler": build.kit(), "options": {"do": "ok", "init": "wait"}}]
    with Server({"workers": 2, "routes": routes}, crashes=True, wait_ready=False, fds=False) as s:
        s.errors.append("ended")

        def workers():
            return [p for p in proc.children(s.pid) if proc.title(p).startswith("whitecap: worker")]

        proc.wait_until(lambda: len(workers()) == 2, "both workers")
        first, second = workers()
        os.kill(second, signal.SIGSTOP)
        # What is ready waits for the other one, in its loop.
        proc.wait_until(lambda: "epoll" in wait_channel(first), "the first one ready")
        os.kill(first, signal.SIGSEGV)
        proc.wait_until(lambda: not proc.alive(first), "the first one's end")
        os.kill(second, signal.SIGCONT)
        s.ready()
        assert len(s.workers()) == 2 and s.get().text == "ok"


def wait_channel(pid):
    with open("/proc/%d/wchan" % pid, encoding="ascii") as f:
        return f.read()


def test_killed_workers_are_replaced_at_once_and_their_losses_counted():
    """SIGKILL, and what the OOM killer does."""
    with crash_server(1) as s:
        s.errors.append("ended: killed by SIGKILL")
        lost = 0
        for n, count in enumerate((5, 12), 1):
            others = [s.client() for _ in range(count)]
            for c in others:
                assert c.get("/c?x").status == 200
            lost += count
            start = time.monotonic()
            os.kill(s.worker, signal.SIGKILL)
            for c in others:
                c.expect_closed(reset_allowed=True)
            with s.client() as c:
                assert c.get("/c?x").status == 200
                took = time.monotonic() - start
            assert took < (0.1 if n == 1 else 0.3) * proc.scale() + 0.1, took
            proc.wait_until(lambda: stats(s)["total"]["lost"] == lost, lambda: "%d lost: %s" % (lost, stats(s)["total"]))


def test_fault_with_signals_blocked_is_seen_as_lost():
    """The kernel ends such a process at once."""
    with crash_server(1) as s:
        with s.client() as c, s.client() as other:
            assert other.get("/c?x").status == 200
            c.send(get("/c?deaf-null"))
            c.expect_closed(reset_allowed=True)
            other.expect_closed(reset_allowed=True)
        assert s.get("/c?x").status == 200
        proc.wait_until(lambda: stats(s)["total"]["lost"] == 2, "2 lost")


def test_damaged_memory_never_hangs():
    """Whatever was hit: no octet is wrong, the worker ends, and others serve."""
    build.needs_plain()  # the sanitizer's heap is none that can be scribbled over
    with crash_server(2) as s:
        # The loader, whose memory was hit, ends the process in a way of its own.
        s.errors.append("a message of the exchange was not understood|ended: (killed by SIG|exit code 127)|"
                        "not done at its deadline|Inconsistency detected by ld.so")
        for n in range(1, 9):
            clients = [s.client() for _ in range(100)]
            for c in clients:
                assert c.get("/c?x").status == 200
            with s.client() as c:
                c.send(get("/c?scribble"))
                proc.wait_until(lambda: len(s.log.find(r"worker \d+ \(\d+\) ended: ")) >= n, "end of the worker", 4)
            for c in clients:
                try:
                    c.send(get("/c?x"))
                    assert c.receive(seconds=5).text == "ok"
                except (ConnectionError, AssertionError) as e:
                    assert "closed before" in str(e) or isinstance(e, ConnectionError), e
                c.close()
            assert s.get("/c?x").status == 200
        assert stats(s)["total"]["crash"] == 8


def test_second_fault_inside_the_fault_handler():
    """The handler's name, which the report needs, leads nowhere: what does not need it is there."""
    with crash_server(2) as s:
        with Crowd(s.address, **POPULATION) as crowd:
            for n, query in enumerate(("nameless", "nameless@signal"), 1):
                since = len(s.log.lines)
                culprit(s, query)
                wait_replaced(s, n, 2)
                proc.wait_until(lambda: ended(s, since) == ["SEGV"], s.log.tail, 5)
                s.log.wait(r"fault: SIGSEGV at 0x0 in handler $", since=since)
                s.log.wait("fault: rip=", since=since)
                s.log.wait(r"fault: #0 0x[0-9a-f]+ %s\+0x" % re.escape(crash_handler()), since=since)
                s.log.wait(r"worker \d+ \(\d+\): SIGSEGV at 0x0 in handler $", since=since)
            report = crowd.finish()
        report.check()
        assert stats(s)["total"]["lost"] == 0


def test_full_exchange_costs_the_surplus_and_is_counted():
    """A small queue, and nobody who takes: the master is stopped, too."""
    with crash_server(1, config={"timeouts": {"request": "60s"}}) as s:
        assert proc.set_send_buffers(s.pid, socket.SOCK_SEQPACKET, 100000) >= 2
        # What is in the messages of the exchange itself, and not in a memfd.
        with Crowd(s.address, idle=40, half_chunked=400, closing_allowed=True) as crowd:
            worker = s.worker
            s.kill(signal.SIGSTOP)
            try:
                os.kill(worker, signal.SIGSEGV)
                proc.wait_until(lambda: not proc.alive(worker), "end of the worker", 3)
            finally:
                s.kill(signal.SIGCONT)
            wait_replaced(s, 1, 1)
            report = crowd.finish()
        s.log.wait(r"fault: \d+ connections were not taken by the exchange: Resource temporarily unavailable$")
        total = stats(s)["total"]
        gone = report.closed + report.reset
        assert 0 < gone < 440 and total["lost"] == gone, (gone, total)
        assert total["moved"]["in"] == total["moved"]["out"] == 440 - gone, (gone, total)
        assert not report.wrong and not report.duplicates and not report.out_of_order, report.counts()
        # Once before the crash; then those who are still there, some twice.
        assert report.answers >= 440 + (440 - gone), report.counts()
        assert s.get("/c?x").text == "ok"


def test_machine_that_stands_still_during_the_hand_over():
    """Its time is not that of the hand-over alone: the worker is held up behind the first of many messages."""
    with crash_server(2) as s:
        with Crowd(s.address, idle=400, busy=4) as crowd:
            worker = s.workers()[0]
            with Strace(worker, "sendmsg", inject="delay_enter=1600000:when=2"):
                s.kill(signal.SIGSEGV, worker)
                wait_replaced(s, 1, 2)
            report = crowd.finish()
        report.check()
        total = stats(s)["total"]
        assert total["lost"] == 0 and total["moved"]["out"] >= 150, total


def check_storm(workers, attackers):
    with crash_server(workers) as s:
        seen = storm.run(s, 1.5, count=attackers)
        s.reload()
        proc.wait_until(lambda: ended(s).count("SEGV") == seen["attacks"], lambda: "%s ends: %s" % (ended(s), seen))
        total = stats(s)["total"]
        assert not seen["trouble"] and total["lost"] == 0, (seen, total)
        assert total["crash"] == total["responses"]["5xx"] == seen["attacks"] > attackers, (seen, total)
        assert seen["newcomers"] > 0, seen
    return seen


def test_the_same_crash_again_and_again_leaves_time_to_replace_workers():
    seen = check_storm(4, 1)
    assert seen["attacks"] <= 2 + 1.5 / 0.095, seen


def test_the_same_crash_from_many_connections():
    seen = check_storm(4, 8)
    # Times are a matter of the machine, and for storm.py to tell: here, that others go on at nearly their pace.
    assert seen["during"]["requests"] > 0.3 * seen["undisturbed"]["requests"], seen


def test_the_same_crash_from_many_connections_with_two_workers():
    check_storm(2, 8)


def test_who_crashes_workers_is_told_at_a_stop_too():
    """Their answers wait for others to be there; at a stop nobody comes any more."""
    with crash_server(2, fds=False) as s:
        attackers = [s.client() for _ in range(6)]
        for c in attackers:
            c.send(get("/c?null"))
        proc.wait_until(lambda: ended(s).count("SEGV") >= 2, "crashes")
        s.errors.append(".")
        s.kill(signal.SIGTERM)
        told = 0
        for c in attackers:
            try:
                told += c.receive(15).status == 500
            except Exception:  # pylint: disable=broad-except
                pass  # one whose request nobody had read yet
        # Workers that were not ready yet are killed at a stop.
        assert told >= min(ended(s).count("SEGV"), 6), (told, ended(s))
        assert s.wait_exit() == 0
