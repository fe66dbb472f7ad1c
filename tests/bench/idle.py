#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds idle keep-alive connections: idle.py PORT COUNT

Each has one request answered, then rests.  Prints "ready" when all are there; at the end of its
standard input prints how many the server has closed meanwhile, and ends.
"""
import select
import socket
import sys

PER_ADDRESS = 5000  # connections from one source address: well inside the range of local ports
TOGETHER = 128
BIND_ADDRESS_NO_PORT = 24  # connect() picks the port; bind() would search all connections
REQUEST = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n"


def read_answer(client):
    data = b""
    while b"\r\n\r\n" not in data:
        got = client.recv(65536)
        if not got:
            raise ConnectionError("closed in place of an answer")
        data += got
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
    missing = int(fields[b"content-length"]) - len(body)
    while missing > 0:
        missing -= len(client.recv(missing)) or missing


def open_connection(port, number):
    source = f"127.0.0.{2 + number // PER_ADDRESS}"
    client = socket.socket()
    client.settimeout(10)
    client.setsockopt(socket.IPPROTO_IP, BIND_ADDRESS_NO_PORT, 1)
    client.bind((source, 0))
    client.connect(("127.0.0.1", port))
    client.sendall(REQUEST)
    return client


def open_connections(port, count):
    """Some at a time: quicker than one after the other, and no load worth mentioning."""
    clients = []
    for first in range(0, count, TOGETHER):
        clients += [open_connection(port, number)
                    for number in range(first, min(first + TOGETHER, count))]
        for client in clients[first:]:
            read_answer(client)
    return clients


def count_closed(clients):
    """An idle connection that has become readable has been closed."""
    poll = select.poll()
    for client in clients:
        poll.register(client, select.POLLIN)
    return len(poll.poll(0))


def main():
    port, count = map(int, sys.argv[1:])
    clients = open_connections(port, count)
    print("ready", flush=True)
    sys.stdin.read()
    print(count_closed(clients), flush=True)


if __name__ == "__main__":
    main()
