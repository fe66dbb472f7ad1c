#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Posts every sample bid request to a running bidder and compares the answers with expected.json.

    check.py HOST PORT PATH [--connections N] [--pipelined] [--cuts] [--seconds S]

Without an option: one by one over one connection.  --connections: the same over N connections at
once.  --pipelined: all requests in one write, over one connection.  --cuts: each request in two
writes, cut at every offset (at evenly spread ones where it is long).  An option runs its own part
only; several run one after the other.  The last line is "N passed, N failed"; exit status 1 when
one failed.
"""
import argparse
import json
import os
import socket
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT = 10
CUTS_MAX = 1200
ROUND = 48
TEXTS = ("id", "impid", "cid", "crid", "adid", "adm")


class Mismatch(Exception):
    pass


def expect(what, found, expected):
    if found != expected or type(found) is bool:
        raise Mismatch("%s: found %r, expected %r" % (what, found, expected))


class Connection:
    """Sends bytes, reads responses; keeps what came after a response for the next one."""

    def __init__(self, address):
        self.sock = socket.create_connection(address, TIMEOUT)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def send(self, data):
        self.sock.sendall(data)

    def send_beside(self, data, count):
        """For more than the buffers hold: a thread sends while `count` responses are read."""
        sender = threading.Thread(target=self.send, args=(data,), daemon=True)
        sender.start()
        responses = [self.receive() for _ in range(count)]
        sender.join(TIMEOUT)
        return responses

    def fill(self):
        data = self.sock.recv(65536)
        if not data:
            raise Mismatch("closed by the server after %r" % self.rest[:200])
        self.rest += data

    def receive(self):
        while b"\r\n\r\n" not in self.rest:
            self.fill()
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:]:
            name, value = line.split(":", 1)
            if name.lower() in headers:
                raise Mismatch("field %s twice" % name)
            headers[name.lower()] = value.strip()
        status = int(lines[0].split(" ")[1])
        length = int(headers.get("content-length", "0"))
        while len(self.rest) < length:
            self.fill()
        body, self.rest = self.rest[:length], self.rest[length:]
        return status, headers, body

    def close(self):
        self.sock.close()


class Sample:
    """A request as it goes over the wire, and what its answer has to be."""

    def __init__(self, name, expected, campaigns, host, path):
        with open(os.path.join(HERE, "requests", name + ".json"), "rb") as f:
            self.body = f.read()
        self.name = name
        self.expected = expected
        self.campaigns = campaigns
        self.wire = (b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                     b"x-openrtb-version: 2.6\r\nContent-Length: %d\r\n\r\n"
                     % (path.encode(), host.encode(), len(self.body))) + self.body

    def check(self, response):
        status, headers, body = response
        expect("status", status, self.expected["status"])
        if "date" not in headers:
            raise Mismatch("no Date")
        if status == 200:
            self.check_bids(headers, body)
        elif status == 204:
            expect("body of 204", body, b"")
            expect("Content-Length of 204", headers.get("content-length"), None)
        elif not body:
            raise Mismatch("no body with status %d" % status)

    def check_bids(self, headers, body):
        expect("Content-Type", headers.get("content-type"), "application/json")
        expect("x-openrtb-version", headers.get("x-openrtb-version"), "2.6")
        expect("Content-Length", headers.get("content-length"), str(len(body)))
        request = json.loads(self.body)
        answer = json.loads(body.decode("utf-8"))
        expect("members", sorted(answer), ["bidid", "cur", "id", "seatbid"])
        expect("id", answer["id"], request["id"])
        expect("cur", answer["cur"], "USD")
        if not isinstance(answer["bidid"], str) or not answer["bidid"]:
            raise Mismatch("bidid: found %r" % answer["bidid"])
        order = [imp["id"] for imp in request["imp"]]
        bids = self.flatten(answer["seatbid"], request, order)
        bids.sort(key=lambda bid: order.index(bid["impid"]))
        expect("bids", bids, self.expected["bids"])

    def flatten(self, seatbids, request, order):
        seats = [seatbid["seat"] for seatbid in seatbids]
        expect("one seatbid per seat", len(seats), len(set(seats)))
        ids, bids = set(), []
        for seatbid in seatbids:
            places = [order.index(bid["impid"]) for bid in seatbid["bid"]]
            expect("order within the seat", places, sorted(places))
            for bid in seatbid["bid"]:
                self.check_bid(bid, request["imp"][order.index(bid["impid"])])
                ids.add(bid["id"])
                bids.append(dict({k: bid[k] for k in ("impid", "cid", "price", "dealid")
                                  if k in bid}, seat=seatbid["seat"]))
        expect("bids with ids of their own", len(ids), len(bids))
        return bids

    def check_bid(self, bid, imp):
        campaign = self.campaigns[bid["cid"]]
        for name in TEXTS:
            if not isinstance(bid[name], str) or not bid[name]:
                raise Mismatch("%s: found %r" % (name, bid[name]))
        expect("adomain", bid["adomain"], campaign["adomain"])
        members = {"price", "adomain", "mtype", *TEXTS}
        if "deal" in campaign:
            members.add("dealid")
            expect("dealid", bid.get("dealid"), campaign["deal"])
        if bid["mtype"] == 1:
            members |= {"w", "h"}
            banner = imp["banner"]
            sizes = banner.get("format") or [banner]
            if {"w": bid["w"], "h": bid["h"]} not in [{k: s[k] for k in "wh"} for s in sizes]:
                raise Mismatch("size %sx%s was not asked for" % (bid["w"], bid["h"]))
            if [bid["w"], bid["h"]] not in campaign["banner"]:
                raise Mismatch("size %sx%s is not the campaign's" % (bid["w"], bid["h"]))
        else:
            expect("mtype", bid["mtype"], 2)
            expect("mtype 2 for a video", "video" in imp and "video" in campaign and 1, 1)
        expect("members of the bid", sorted(bid), sorted(members))


class Tally:
    def __init__(self):
        self.passed = self.failed = 0
        self.lock = threading.Lock()

    def count(self, sample, how, check):
        """Runs check(); false when it failed."""
        fault = None
        try:
            check()
        except (Mismatch, OSError, ValueError, KeyError, TypeError, IndexError) as e:
            fault = "%s: %s" % (type(e).__name__, e)
        with self.lock:
            if fault is None:
                self.passed += 1
            else:
                self.failed += 1
                if self.failed <= 20:
                    print("%s (%s): %s" % (sample.name, how, fault), file=sys.stderr)
        return fault is None


def run_single(samples, address, tally, how="one by one"):
    connection = None

    def ask(sample):
        nonlocal connection
        connection = connection or Connection(address)
        connection.send(sample.wire)
        sample.check(connection.receive())

    for sample in samples:
        if not tally.count(sample, how, lambda: ask(sample)) and connection:
            connection.close()
            connection = None
    if connection:
        connection.close()


def run_connections(samples, address, tally, count):
    """Each connection starts with another sample, all at the same moment."""
    barrier = threading.Barrier(count)

    def run(number):
        start = number % len(samples)
        barrier.wait(TIMEOUT)
        run_single(samples[start:] + samples[:start], address, tally,
                   "%d connections at once" % count)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_pipelined(samples, address, tally):
    connection = Connection(address)
    responses = []
    try:
        responses = connection.send_beside(b"".join(s.wire for s in samples), len(samples))
    except (Mismatch, OSError, ValueError) as e:
        print("pipelined: %s" % e, file=sys.stderr)
    connection.close()
    responses += [(0, {}, b"")] * (len(samples) - len(responses))
    for sample, response in zip(samples, responses):
        tally.count(sample, "pipelined", lambda: sample.check(response))


def list_cuts(samples):
    cuts = []
    for sample in samples:
        step = max(1, len(sample.wire) // CUTS_MAX)
        cuts += [(sample, at) for at in range(1, len(sample.wire), step)]
    return cuts


def run_cuts(samples, address, tally, seconds):
    """
    In rounds of many connections: all first parts, a moment for the server to read them, all second
    parts, all answers.  What the time doesn't allow is told, not failed.
    """
    cuts = list_cuts(samples)
    end = time.monotonic() + seconds
    connections = [Connection(address) for _ in range(ROUND)]
    done = 0
    while done < len(cuts) and time.monotonic() < end:
        batch = list(zip(range(ROUND), cuts[done:done + ROUND]))
        for i, (sample, at) in batch:
            connections[i].send(sample.wire[:at])
        time.sleep(0.002)
        for i, (sample, at) in batch:
            connections[i].send(sample.wire[at:])
        for i, (sample, at) in batch:
            if not tally.count(sample, "cut at %d" % at,
                               lambda: sample.check(connections[i].receive())):
                connections[i].close()
                connections[i] = Connection(address)
        done += len(batch)
    for connection in connections:
        connection.close()
    if done < len(cuts):
        print("time is up: %d of %d cuts not tried" % (len(cuts) - done, len(cuts)))


def load_samples(host, path):
    with open(os.path.join(HERE, "expected.json"), encoding="utf-8") as f:
        expected = json.load(f)
    with open(os.path.join(HERE, "campaigns.json"), encoding="utf-8") as f:
        campaigns = {c["id"]: c for c in json.load(f)["campaigns"]}
    names = sorted(n[:-5] for n in os.listdir(os.path.join(HERE, "requests")))
    expect("samples", names, sorted(expected))
    return [Sample(name, expected[name], campaigns, host, path) for name in names]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("path")
    parser.add_argument("--connections", type=int, default=0)
    parser.add_argument("--pipelined", action="store_true")
    parser.add_argument("--cuts", action="store_true")
    parser.add_argument("--seconds", type=float, default=60, help="for --cuts")
    options = parser.parse_args()
    address = (options.host, options.port)
    samples = load_samples(options.host, options.path)
    tally = Tally()
    if options.connections:
        run_connections(samples, address, tally, options.connections)
    if options.pipelined:
        run_pipelined(samples, address, tally)
    if options.cuts:
        run_cuts(samples, address, tally, options.seconds)
    if not (options.connections or options.pipelined or options.cuts):
        run_single(samples, address, tally)
    print("%d passed, %d failed" % (tally.passed, tally.failed))
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
