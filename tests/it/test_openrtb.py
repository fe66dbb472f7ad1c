# SPDX-License-Identifier: MIT
"""The bidder on the samples of tests/openrtb, by its own checker, whole, pipelined and cut."""
import json
import os
import subprocess
import sys

from whitecap_it import Server, Skip, build, post
from whitecap_it import proc, wire

FOLDER = os.path.join(build.SOURCE, "tests", "openrtb")


def bidder(**more):
    if not os.path.exists(os.path.join(build.handler_dir(), "bidder.so")):
        raise Skip("no bidder in the build")
    options = {"file": os.path.join(FOLDER, "campaigns.json")}
    return Server(dict({"routes": [{"path": "/bid", "handler": "bidder", "options": options},
                                   {"path": "/", "handler": "hello"}]}, **more))


def check(*words):
    with bidder(workers=2) as s:
        done = subprocess.run([sys.executable, os.path.join(FOLDER, "check.py"), "127.0.0.1", str(s.port), *words],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=80 * proc.scale())
        assert done.returncode == 0, done.stdout[-3000:]


def samples():
    with open(os.path.join(FOLDER, "expected.json")) as f:
        expected = json.load(f)
    for name in sorted(os.listdir(os.path.join(FOLDER, "requests"))):
        with open(os.path.join(FOLDER, "requests", name), "rb") as f:
            yield name, f.read(), expected[name[:-len(".json")]]


def test_status_of_every_sample_cut_in_two_at_every_offset():
    """The head and the first octets at each offset, the rest sampled."""
    scripts = []
    for name, body, expected in samples():
        data = post("/bid", body, [("Content-Type", "application/json")])
        case = {"id": name, "expect": [{"status": [expected["status"]]}], "then": "open"}
        for at in sorted(set(range(1, 150)) | set(range(150, len(data), 29)) | set(range(len(data) - 10, len(data)))):
            scripts.append((case, wire.cut([data], at), "cut at %d" % at))
    with bidder() as s:
        failures = wire.play(s.address, scripts)
        assert not failures, "%d:\n%s" % (len(failures), "\n".join(failures[:20]))


def test_options_as_an_object_or_a_file_give_the_same():
    with open(os.path.join(FOLDER, "campaigns.json")) as f:
        campaigns = json.load(f)
    routes = [{"path": "/object", "handler": "bidder", "options": campaigns},
              {"path": "/file", "handler": "bidder", "options": {"file": os.path.join(FOLDER, "campaigns.json")}}]
    with bidder(routes=routes) as s, s.client() as c:
        for name, body, expected in samples():
            one, two = c.post("/object", body), c.post("/file", body)
            assert one.status == two.status == expected["status"], name
            if one.status == 200:
                assert json.loads(one.body)["seatbid"] == json.loads(two.body)["seatbid"], name
                assert one.headers["content-type"] == "application/json"
                assert one.headers["x-openrtb-version"] == "2.6"


def test_bids_of_every_sample_one_by_one():
    check("/bid")


def test_bids_of_every_sample_pipelined():
    check("/bid", "--pipelined")


def test_bids_of_every_sample_from_64_connections_at_once():
    check("/bid", "--connections", "64")


def test_bids_of_every_sample_cut():
    check("/bid", "--cuts", "--seconds", "15")
