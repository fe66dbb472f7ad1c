# SPDX-License-Identifier: MIT
"""The wire cases of tests/http/given.json, whole and cut."""
import concurrent.futures

from whitecap_it import Server, rules
from whitecap_it import wire


def run_given(workers):
    with Server({"workers": workers}) as s:
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            results = list(pool.map(lambda c: rules.run_case(c, "127.0.0.1", s.port), wire.load_cases()))
        failed = ["%s %s: %s" % (r["level"], r["id"], r["reason"]) for r in results if not r["ok"]]
        assert not failed, "%d of %d:\n%s" % (len(failed), len(results), "\n".join(failed))


def run_scripts(make):
    with Server() as s:
        failures = wire.play(s.address, make(wire.load_cases()))
        assert not failures, "%d:\n%s" % (len(failures), "\n".join(failures[:40]))


def test_given_cases_pass_with_one_worker():
    run_given(1)


def test_given_cases_pass_with_four_workers():
    run_given(4)


def test_given_cases_pass_as_given_many_at_a_time():
    run_scripts(wire.whole_scripts)


def test_given_cases_pass_cut_in_two_at_every_offset():
    run_scripts(wire.cut_scripts)


def test_given_cases_pass_byte_by_byte():
    run_scripts(wire.single_scripts)


test_given_cases_pass_cut_in_two_at_every_offset.long = True
test_given_cases_pass_byte_by_byte.long = True
