# SPDX-License-Identifier: MIT
"""
Connections that outlive the server in the service manager's fd store.  WHITECAP_IT_FULL=1: as many as a large
bidder has, and the figures are printed.
"""
import array
import json
import os
import resource
import signal
import socket
import struct
import time

from move_client import Crowd
from whitecap_it import Client, Server, build, get, proc
from whitecap_it.manager import Activated, Manager, RealManager

FULL = bool(os.environ.get("WHITECAP_IT_FULL"))
IDLE = 8000 if FULL else 1000


def stored_config(**more):
    """A port that no client is given by the kernel."""
    return {"workers": 2, "listen": ["127.0.0.1:%d" % (20000 + os.getpid() % 10000)],
                 "routes": [{"path": "/*", "handler": build.move_handler("v1")}],
                 "timeouts": {"request": "120s", "send": "120s", "drain": "20s"}, **more}


def crowd_of(address, idle=IDLE, busy=64, **more):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    return Crowd(address, idle=idle, busy=busy, **more)


def restart(manager, _):
    manager.ctl("restart", manager.unit)


def kill_with(number):
    def kill(manager, before):
        os.kill(before, number)
        manager.wait_next(before)
    return kill


def outlive(*ends):
    """The crowd notices none of these ends of the server."""
    config = stored_config()
    with RealManager(config) as m:
        m.ctl("start", m.unit)
        with crowd_of(config["listen"][0]) as crowd:
            for name, end in ends:
                before, since = m.pid(), time.monotonic()
                end(m, before)
                assert m.pid() not in (0, before)
                if FULL:
                    proc.pause(3)
                    slowest = max(took for at, took in crowd.report.latencies if at > since)
                    print("%s: slowest answer %.0f ms" % (name, slowest * 1e3))
            assert m.show("NFileDescriptorStore") == "3"
            report = crowd.finish()
            if FULL:
                print("%d idle, 64 busy: %s" % (IDLE, json.dumps(report.counts())))
            report.check()


def test_no_restart_closes_a_connection():
    outlive(("restart", restart), ("restart", restart))


def test_no_death_of_the_master_closes_a_connection():
    outlive(("SIGKILL", kill_with(signal.SIGKILL)), ("SIGSEGV", kill_with(signal.SIGSEGV)))


def end_politely(m, word, address):
    """What is in progress is answered, and its client told."""
    with crowd_of(address, idle=100, busy=0, closing_allowed=True) as crowd, \
         Client(address) as slow, Client(address) as idle:
        assert idle.get().status == 200
        slow.send(get()[:20])
        slow.expect_silence(0.2)
        ending = m.begin(word, m.unit)
        idle.expect_closed()
        slow.send(get()[20:])
        assert slow.receive().closes
        slow.expect_closed()
        assert ending.wait(60 * proc.scale()) == 0
        report = crowd.finish()
        assert report.closed == 100 and not report.trouble, report.trouble


def test_a_stop_closes_politely():
    """A restart would not close it."""
    config = stored_config(workers=1)
    with RealManager(config) as m:
        m.ctl("start", m.unit)
        end_politely(m, "stop", config["listen"][0])
        proc.wait_until(lambda: m.show("ActiveState") == "inactive" and m.show("NFileDescriptorStore") == "0",
                        lambda: "%s, %s descriptors" % (m.show("ActiveState"), m.show("NFileDescriptorStore")))


def closes_politely(**unit):
    """A restart is an ordinary stop and a start."""
    config = stored_config(workers=1)
    with RealManager(config, **unit) as m:
        m.ctl("start", m.unit)
        end_politely(m, "restart", config["listen"][0])
        assert m.show("NFileDescriptorStore") == "0"


def test_a_store_with_no_room_is_none():
    closes_politely(FileDescriptorStoreMax="0")


def where_the_unit_does_not_tell_of_a_store_there_is_none():
    closes_politely(FileDescriptorStoreMax="", Environment="")


def test_a_socket_file_that_is_gone_is_made_anew_and_stored():
    """The manager drops all of one name; the new listener has that of the old one."""
    with Manager() as m:
        config = dict(stored_config(), listen=["unix:" + m.folder.name + "/socket"])
        env = m.environment(WHITECAP_FDSTORE="1")
        with Server(config, env=env, fds=False) as s:
            s.stop()
        os.unlink(m.folder.name + "/socket")
        stored = {name: fds[0] for name, fds in m.stored.items()}
        with Activated(config, stored, env=env) as s:
            m.wait("READY", 2)
            with Client(s.address) as c:
                assert c.get("/worker?1").status == 200
            (name,) = [name for name in stored if "unix" in name]
            (fd,) = m.stored[name]
            assert "socket:[%d]" % os.fstat(fd).st_ino in proc.fd_targets(s.pid).values()


def take_out(manager):
    """The messages in the exchange that a server has left, each with its descriptors."""
    messages = []
    with socket.socket(fileno=os.dup(manager.stored["whitecap-take"][0])) as take:
        take.setblocking(False)
        while True:
            try:
                data, extra, _, _ = take.recvmsg(1 << 17, socket.CMSG_SPACE(4 * 253))
            except BlockingIOError:
                return messages
            fds = array.array("i")
            for _, _, value in extra:
                fds.frombytes(value)
            messages.append((bytearray(data), fds))


def put_in(manager, messages):
    with socket.socket(fileno=os.dup(manager.stored["whitecap-give"][0])) as give:
        for data, fds in messages:
            give.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            for fd in fds:
                os.close(fd)


def read_total(path):
    """Once there were requests."""
    with open(path, encoding="ascii") as f:
        total = json.load(f)["total"]
    return total["requests"] and total


def test_connections_of_a_newer_version_are_closed_and_counted():
    """As after going back to an older program: what this one understands goes on."""
    config = stored_config(workers=1, stats={"file": "stats.json"})
    with Manager() as m:
        with Server(config, env=m.environment(WHITECAP_FDSTORE="1"), fds=False) as s, \
             crowd_of(s.address, idle=200, busy=0, closing_allowed=True) as crowd:
            s.stop()
            messages = take_out(m)
            version, _, lost = struct.unpack_from("=HHI", messages[0][0], 4)
            struct.pack_into("=H", messages[0][0], 4, version + 1)
            assert 0 < lost < 200, "%d in the first of %d" % (lost, len(messages))
            put_in(m, messages)
            stored = {name: fds[0] for name, fds in m.stored.items()}
            with Activated(config, stored, env=m.environment(WHITECAP_FDSTORE="1"),
                           errors=["%d of %d connections" % (lost, lost)]) as next_one:
                crowd.wait(lambda: crowd.report.closed == lost, lambda: "%d closed, not %d" % (crowd.report.closed, lost), 10)
                report = crowd.finish()
                assert report.closed == lost and report.answers >= 200 and not report.trouble, report.trouble
                assert next_one.get("/worker?1").status == 200
                next_one.kill(signal.SIGUSR1)
                path = os.path.join(next_one.folder, "stats.json")
                total = proc.wait_until(lambda: read_total(path), "statistics")
                assert total["lost"] == lost and total["moved"]["in"] == 200 - lost, total


if FULL:
    test_where_the_unit_does_not_tell_of_a_store_there_is_none = where_the_unit_does_not_tell_of_a_store_there_is_none
