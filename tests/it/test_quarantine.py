# SPDX-License-Identifier: MIT
"""Requests that crash their workers again and again: after two crashes in a row they are kept from their handler."""
import gzip
import os

import storm
from crashes import crash_handler, crash_server, ended, stats
from whitecap_it import post, proc

KEPT = "which crashed it or hung twice in a row"


def quarantined(s):
    return stats(s)["total"]["quarantined"]


def server(workers=1, routes=(), **timeouts):
    s = crash_server(workers, routes, config={"timeouts": {"quarantine": "1h", **timeouts}})
    s.errors.append(KEPT)
    return s


def ask(s, request):
    with s.client() as c:
        return c.post(request, b"")


def crash(s, n, request="/c?null", body=b""):
    """It crashes the n-th worker; the answer comes on a connection that goes on."""
    with s.client() as c:
        r = c.post(request, body)
        assert r.status == 500 and not r.closes, r
    proc.wait_until(lambda: len(ended(s)) == n, lambda: ended(s))


def kept(s, request="/c?null", body=b""):
    """It is answered, and crashes nobody."""
    before, crashes = quarantined(s), len(ended(s))
    with s.client() as c:
        r = c.post(request, body)
        assert r.status == 500 and not r.closes, r
        assert c.get("/c?x").text == "ok"
    return quarantined(s) == before + 1 and len(ended(s)) == crashes


def test_after_two_crashes_in_a_row_a_request_is_kept_from_its_handler():
    with server() as s:
        crash(s, 1)
        crash(s, 2)
        assert kept(s) and kept(s)
        line = r"error worker 0: handler crash \(route /c\): not called for POST /c\?null, %s; answered 500 for \d+\.\d s more$" % KEPT
        s.log.wait(line)


def test_another_request_is_another_one():
    with server() as s:
        crash(s, 1, body=b"a")
        crash(s, 2, body=b"b")
        crash(s, 3, body=b"a")
        assert kept(s, body=b"a")
        crash(s, 4, "/c?null@handle", body=b"a")
        crash(s, 5, body=b"b")
        assert kept(s, body=b"b")


def test_who_was_answered_in_between_is_innocent():
    """As where another request has damaged the memory that this one finds."""
    with server() as s:
        flag = os.path.join(s.folder, "flag")
        for n in range(1, 6):
            with open(flag, "w", encoding="ascii"):
                pass
            crash(s, n, "/c?flagged")
            os.remove(flag)
            assert ask(s, "/c?flagged").text == "survived"
        assert quarantined(s) == 0


def test_later_one_is_let_through_to_see():
    with server(quarantine="600ms") as s:
        flag = os.path.join(s.folder, "flag")
        with open(flag, "w", encoding="ascii"):
            pass
        crash(s, 1, "/c?flagged")
        crash(s, 2, "/c?flagged")
        os.remove(flag)
        proc.wait_until(lambda: ask(s, "/c?flagged").status == 200, "an end of the quarantine", 5)
        assert quarantined(s) > 0
        assert ask(s, "/c?flagged").status == 200 and len(ended(s)) == 2


def counted(s, answers):
    """What became of so many: a crash may be counted after it was answered."""
    def look():
        total = stats(s)["total"]
        return total["crash"] + total["quarantined"] == answers and total
    return proc.wait_until(look, "all answers counted")


def test_who_crashes_when_let_through_waits_longer():
    with server(quarantine="600ms") as s:  # until then a worker has been replaced on the busiest machine
        seen, answers = [], 0
        with s.client() as c:
            while len(seen) < 4:
                assert c.get("/c?null").status == 500
                answers += 1
                total = counted(s, answers)
                if total["crash"] > len(seen):
                    seen.append(total["quarantined"])
        assert seen[0] == seen[1] == 0 < seen[2] < seen[3], seen


def test_new_generation_starts_without_suspicion():
    with server() as s:
        crash(s, 1)
        crash(s, 2)
        assert kept(s)
        s.reload()
        crash(s, 3)


def test_hanging_again_and_again_counts_too():
    with server(handler="100ms") as s:
        s.errors.append("handler has not returned")
        for n in (1, 2):
            assert s.get("/c?sleep").status == 504
            proc.wait_until(lambda: len(ended(s)) == n, lambda: ended(s))
        assert s.get("/c?sleep").status == 500
        assert quarantined(s) == 1 and len(ended(s)) == 2


def test_a_handler_that_changes_the_body_in_place_hides_nothing():
    with server() as s:
        for n in (1, 2, 3):
            crash(s, n, "/c?insitu", b"some body")
        assert kept(s, "/c?insitu", b"some body")


def test_body_that_came_compressed_is_compared_plain():
    with server(routes=[{"path": "/z", "handler": crash_handler(), "decompress": True}]) as s:
        request = post("/z?null", gzip.compress(b"some body", mtime=0), [("Content-Encoding", "gzip")])
        for n in (1, 2, 2):
            with s.client() as c:
                c.send(request)
                assert c.receive().status == 500
            proc.wait_until(lambda: len(ended(s)) == n, lambda: ended(s))
        assert quarantined(s) == 1


def test_another_field_is_another_request():
    """Nobody else is answered 500 for what one client sends."""
    with server() as s:
        for n in (1, 2):
            with s.client() as c:
                assert c.get("/c?flag", headers=[("X-Crash", "now")]).status == 500
            proc.wait_until(lambda: len(ended(s)) == n, lambda: ended(s))
        with s.client() as c:
            assert c.get("/c?flag").text == "ok"
            assert c.get("/c?flag", headers=[("X-Crash", "now")]).status == 500
        assert quarantined(s) == 1 and len(ended(s)) == 2


def check_attack(workers, attackers):
    """Others go on; workers crash a few times, however often they ask."""
    with server(workers) as s:
        seen = storm.run(s, 1, count=attackers)
        total = stats(s)["total"]
        assert not seen["trouble"] and seen["newcomers"] > 0 and total["lost"] == 0, (seen, total)
        assert total["crash"] + total["quarantined"] == seen["attacks"] == total["responses"]["5xx"], (seen, total)
        # Each worker may have read it before it is known, each time.
        assert 2 <= total["crash"] <= 2 * workers, (seen, total)


def test_attack_with_one_worker():
    check_attack(1, 20)


def test_attack_with_four_workers():
    check_attack(4, 8)


def test_nothing_is_kept_when_it_is_off():
    with server(quarantine=0) as s:
        for n in range(1, 5):
            crash(s, n)
        assert quarantined(s) == 0
