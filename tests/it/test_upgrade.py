# SPDX-License-Identifier: MIT
"""USR2: the program on disk takes over, and nobody sees anything of it."""
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess

from test_move import BUSY, IDLE, MoveServer, crowd_of, route
from whitecap_it import build, kit_route, needs_root, pause, proc, sanitized


class UpgradeServer(MoveServer):
    """A server that is started from a copy of the binary, which the test replaces."""

    def __init__(self, config=None, start=True, **options):
        super().__init__(config, start=False, **options)
        self.binary = os.path.join(self.folder, "whitecap")
        with open(build.binary(), "rb") as f:
            self.original = f.read()
        self.install(self.original)
        if start:
            self.start()

    def install(self, data, mode=0o755):
        """As a package manager does it: a new file, renamed."""
        with open(self.binary + ".new", "wb") as f:
            f.write(data)
        os.chmod(self.binary + ".new", mode)
        os.rename(self.binary + ".new", self.binary)

    def another_build(self, digit):
        """Not its end: the linker lets shorter texts be the ends of longer ones."""
        return self.changed(b"whitecap 0", b"whiteca%d 0" % digit)

    def another_layout(self):
        """A program that calls a counter by another name."""
        return self.changed(b"\0log_dropped\0", b"\0fog_dropped\0")

    def changed(self, old, new):
        assert old in self.original
        return self.original.replace(old, new)

    def upgrade(self, seconds=30.0):
        before, old, since = self.generation(), set(self.workers()), len(self.log.lines)
        self.kill(signal.SIGUSR2)
        proc.wait_until(lambda: self.generation() > before,
                        lambda: "a generation after %d:\n%s" % (before, self.log.tail()), seconds)
        proc.wait_until(lambda: not old & set(self.workers()), "old workers gone", seconds)
        assert self.log.find("upgraded: ", since)

    def refused(self, pattern, seconds=30.0):
        """USR2 with a program that is no good: logged, counted, and nothing else."""
        workers, generation, since = self.workers(), self.generation(), len(self.log.lines)
        failed = self.stats()["reload"]["failed"]
        self.errors.append("upgrade failed: ")
        self.kill(signal.SIGUSR2)
        self.log.wait("upgrade failed: .*" + pattern, since=since, seconds=seconds)
        proc.wait_until(lambda: self.workers() == workers,
                        lambda: "workers %s, not %s" % (self.workers(), workers))
        assert self.generation() == generation
        reload_ = self.stats()["reload"]
        assert reload_["failed"] == failed + 1 and reload_["error"], reload_
        assert not self.log.find("takes over", since)


def compiled(folder):
    """A program whose library is there no more."""
    source = os.path.join(build.HANDLER_SOURCES, "lonely.c")
    library, program = os.path.join(folder, "liblonely.so"), os.path.join(folder, "lonely")
    compiler = build.compiler()
    subprocess.run([*compiler, "-shared", "-fPIC", "-DLIBRARY", "-o", library, source], check=True)
    subprocess.run([*compiler, "-o", program, source, library], check=True)
    os.remove(library)
    with open(program, "rb") as f:
        return f.read()


def test_twenty_upgrades_are_not_seen_by_any_client():
    count = 6 if sanitized() else 20
    with UpgradeServer() as s:
        first = s.stats()
        kinds, totals = s.fds_at_start, first["total"]
        with crowd_of(s) as crowd:
            for i in range(count):
                s.install(s.another_build(i % 10))
                s.upgrade()
                s.log.wait("upgraded: whiteca%d " % (i % 10))
                proc.wait_until(lambda: proc.fd_kinds(s.pid) == kinds,
                                lambda: "fds: %s, not %s" % (proc.fd_kinds(s.pid), kinds))
                stats = s.stats()
                for key in ("accept", "requests", "close"):
                    assert stats["total"][key] >= totals[key], (totals, stats)
                totals = stats["total"]
            report = crowd.finish()
        report.check()
        assert s.process.poll() is None
        last = s.stats()
        assert last["pid"] == first["pid"] and last["started"] == first["started"]
        assert last["uptime_s"] > first["uptime_s"]
        assert last["reload"]["count"] == count and last["reload"]["failed"] == 0
        assert last["total"]["requests"] >= report.answers
        s.check_moved(count * IDLE // 2)


def test_programs_that_are_no_good_change_nothing():
    timeouts = {"start": "2s", "request": "120s", "send": "120s", "drain": "60s"}
    with UpgradeServer({"timeouts": timeouts}) as s:
        good = s.original
        cases = [
            (b"", "format"),
            (b"words, no program\n", "format"),
            (good[:100000], ""),
            (good[:1000], ""),
            (compiled(s.folder), "liblonely|exit code"),
            (b"#!/bin/sh\nexec sleep 1000\n", "not done within 2 s"),
            (b"#!/bin/sh\nsleep 1000 & while :; do :; done\n", "not done within 2 s"),
            (b"#!/bin/sh\nkill -SEGV $$\n", "SIGSEGV"),
            (b"#!/bin/sh\necho no, thank you >&2; exit 1\n", "no, thank you"),
            (b"#!/nowhere/sh\n", "No such file"),
            (s.changed(b"state %u, conn", b"stale %u, conn"), "does not go on from"),
            (b"#!/bin/sh\nenv; echo \"$@\"\n", "no whitecap"),
        ]
        with open("/bin/true", "rb") as f:
            cases.append((f.read(), "no whitecap"))
        with crowd_of(s) as crowd:
            for data, pattern in cases:
                s.install(data)
                s.refused(pattern)
            s.install(good, mode=0o644)
            s.refused("Permission denied")
            os.remove(s.binary)
            s.refused("No such file")
            s.install(good)
            s.write_text("{broken")
            s.refused("whitecap.json")
            s.write_config()
            s.upgrade()
            crowd.finish().check()
        s.check_moved(0)


def test_no_signal_is_lost_while_a_program_is_proven():
    """HUP meanwhile: a reload after it; TTIN: acted upon at once; USR2: another proof."""
    with UpgradeServer({"timeouts": {"start": "2s"}, "routes": [route("v1")]}) as s:
        s.install(b"#!/bin/sh\nexec sleep 1000\n")
        s.errors.append("upgrade failed: ")
        s.kill(signal.SIGUSR2)
        s.log.wait("upgrade: proving")
        s.write_config(routes=[route("v2")], workers=3)
        s.kill(signal.SIGTTIN)
        proc.wait_until(lambda: len(s.workers()) >= 3, "one worker more")
        s.kill(signal.SIGHUP)
        s.kill(signal.SIGUSR2)
        s.log.wait("upgrade failed", seconds=20)
        s.log.wait("generation 2", seconds=20)
        proc.wait_until(lambda: s.get("/?1").text == "v2 1\n", "the new handler")
        s.log.wait("upgrade failed", count=2, seconds=30)


def test_hup_and_usr2_mixed():
    """At 0 to 30 ms distance; in the end what was written last is in effect."""
    rng = random.Random(7)
    with UpgradeServer() as s:
        with crowd_of(s, idle=IDLE // 3, busy=BUSY // 2) as crowd:
            for i in range(15 if sanitized() else 40):
                s.write_config(routes=[route("v%d" % (i % 2 + 1))], workers=i % 3 + 1)
                if rng.random() < .3:
                    s.install(s.another_build(i % 10))
                s.kill(rng.choice([signal.SIGHUP, signal.SIGUSR2]))
                pause(rng.uniform(0, .03))
            s.write_config(routes=[route("v2")], workers=2)
            s.kill(signal.SIGHUP)
            proc.wait_until(lambda: s.get("/?1").text == "v2 1\n" and len(s.workers()) == 2
                            and s.stats()["state"] == "serving", "the last configuration", 60)
            crowd.finish().check()
        assert s.log.find("upgraded: ")
        s.check_moved(0)


def test_usr2_during_the_start_is_an_upgrade_after_it():
    with UpgradeServer(start=False) as s:
        s.wait_ready = False
        s.start()
        proc.wait_until(lambda: proc.children(s.pid), "a child")
        s.kill(signal.SIGUSR2)
        s.log.wait("upgraded: ", seconds=30)
        s.log.wait("serving: .*generation 2", seconds=30)
        s.ready()
        assert s.get("/?1").text == "v1 1\n"


def test_stop_right_after_usr2():
    for delay in (0, .002, .01, .03, .06, .1, .2):
        with UpgradeServer({"timeouts": {"drain": "10s"}}) as s:
            c = s.client()
            assert c.get("/?1").text == "v1 1\n"
            s.kill(signal.SIGUSR2)
            pause(delay)
            s.kill(signal.SIGTERM)
            c.expect_closed(15)
            c.close()
            assert s.wait_exit(20) == 0


def test_stop_while_a_program_hangs():
    with UpgradeServer() as s:
        s.install(b"#!/bin/sh\nexec sleep 1000\n")
        s.kill(signal.SIGUSR2)
        s.log.wait("upgrade: proving")
        s.kill(signal.SIGTERM)
        assert s.wait_exit() == 0


def test_worker_that_dies_right_after_an_upgrade():
    """Of the old ones, none is started again; the new generation serves all the same."""
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        with UpgradeServer({"workers": 3}, crashes=True) as s:
            victim = s.workers()[1]
            s.expect_end(victim)
            s.errors.append(r"\(%d\): SIGSEGV" % victim)
            s.kill(signal.SIGUSR2)
            s.log.wait("upgraded: ", seconds=30)
            proc.kill_quietly(victim, number)
            s.log.wait("reload done: generation 2", seconds=30)
            s.log.wait(r"\(%d\) ended" % victim)
            proc.wait_until(lambda: len(s.workers()) == 3, "three workers")
            assert s.get("/?1").text == "v1 1\n"


def taken_port():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()
    return s, "127.0.0.1:%d" % s.getsockname()[1]


def test_reload_that_fails_in_the_new_program():
    """The old workers go on under the new master, until a reload comes through."""
    with UpgradeServer({"workers": 2}) as s:
        taken, address = taken_port()
        with taken, crowd_of(s, idle=100) as crowd:
            old = s.workers()
            s.errors += ["reload failed: ", "ended"]
            s.write_config(listen=["127.0.0.1:0", address])
            s.kill(signal.SIGUSR2)
            s.log.wait("reload failed: .*" + address, seconds=30)
            assert s.workers() == old and s.log.find("upgraded: ")
            s.reload_refused("reload failed: .*" + address)
            assert s.workers() == old
            s.install(s.another_build(5))
            s.kill(signal.SIGUSR2)
            s.log.wait("upgraded: whiteca5 ", seconds=30)
            s.log.wait("reload failed: .*" + address, count=3, seconds=30)
            assert s.workers() == old
            s.write_config(listen=["127.0.0.1:0"])
            s.reload()
            crowd.finish().check()
        s.check_moved(100)


def test_old_workers_are_not_replaced_but_a_server_without_any_tries_again():
    with UpgradeServer({"workers": 2}) as s:
        taken, address = taken_port()
        with taken:
            old = s.workers()
            s.errors += ["reload failed: ", "ended"]
            s.write_config(listen=["127.0.0.1:0", address])
            s.kill(signal.SIGUSR2)
            s.log.wait("reload failed: .*" + address, seconds=30)
            os.kill(old[0], signal.SIGKILL)
            proc.wait_until(lambda: s.workers() == old[1:], "one old worker left")
            s.log.wait(r"\(%d\) ended: killed by SIGKILL" % old[0])
            assert s.get("/?1").text == "v1 1\n"
            os.kill(old[1], signal.SIGKILL)
            s.log.wait("reload failed: .*" + address, count=2, seconds=30)
        s.log.wait("reload done: generation 2", seconds=30)
        assert s.get("/?1").text == "v1 1\n"


def test_unix_socket_and_pid_file_stay_the_same():
    with UpgradeServer(start=False) as s:
        path, pidfile = os.path.join(s.folder, "socket"), os.path.join(s.folder, "pid")
        s.write_config(listen=["127.0.0.1:0", "unix:" + path], pidfile=pidfile)
        s.start()
        inodes = os.stat(path).st_ino, os.stat(pidfile).st_ino
        before = s.address
        for _ in range(3):
            s.upgrade()
            assert (os.stat(path).st_ino, os.stat(pidfile).st_ino) == inodes
            with open(pidfile, "r+", encoding="ascii") as f:
                assert int(f.read()) == s.pid
                try:
                    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    raise AssertionError("the pid file is not locked")
                except BlockingIOError:
                    pass
            assert len(s.log.find("listening on")) == 2 and s.address == before
            assert s.get("/?1").text == "v1 1\n"
            with s.client() as c:
                assert c.get("/?2").text == "v1 2\n"
        s.stop()
        assert not os.path.exists(path) and not os.path.exists(pidfile)


def test_statistics_of_another_layout_never_fall():
    """The new program can't read the memory of the old one, so it begins with the totals."""
    with UpgradeServer() as s:
        with crowd_of(s, idle=100) as crowd:
            before = s.total()
            s.install(s.another_layout())
            s.upgrade()
            after = s.total()
            assert after["requests"] >= before["requests"] and after["accept"] >= before["accept"]
            s.install(s.original)
            s.upgrade()
            again = s.total()
            assert again["requests"] >= after["requests"] > 0
            crowd.finish().check()
        with s.client() as c:
            assert c.get("/?1").text == "v1 1\n"
            s.install(s.another_layout())
            s.kill(signal.SIGUSR2)
            s.log.wait("upgraded: ", count=3, seconds=30)
            s.kill(signal.SIGTERM)
            assert s.wait_exit(20) == 0


def test_log_file_goes_on():
    with UpgradeServer(start=False) as s:
        path = os.path.join(s.folder, "log")
        s.write_config(log={"path": path})
        s.wait_ready = False
        s.start()

        def lines(word):
            with open(path, encoding="utf-8") as f:
                return [line for line in f if word in line]

        proc.wait_until(lambda: os.path.exists(path) and lines("serving: "), "serving")
        s.kill(signal.SIGUSR2)
        proc.wait_until(lambda: lines("reload done"), "upgraded", 30)
        os.rename(path, path + ".1")
        s.kill(signal.SIGUSR1)
        proc.wait_until(lambda: os.path.exists(path) and lines("reopened"), "reopened")
        s.kill(signal.SIGTERM)
        assert s.wait_exit() == 0
        assert lines("stopped")


def test_a_link_leads_to_another_program():
    needs_root()
    with UpgradeServer(start=False) as s:
        first, second = os.path.join(s.folder, "first"), os.path.join(s.folder, "second")
        shutil.copy(build.binary(), first)
        s.install(s.another_build(9))
        os.rename(s.binary, second)
        os.symlink("first", s.binary)
        s.start()
        os.symlink("second", s.binary + ".new")
        os.rename(s.binary + ".new", s.binary)
        s.upgrade()
        s.log.wait("upgraded: whiteca9 ")
        assert os.readlink("/proc/%d/exe" % s.pid) == os.path.realpath(second)


def test_workers_get_nothing_of_it():
    with UpgradeServer({"routes": [kit_route("/", "ok")]}) as s:
        before = {p: proc.fd_kinds(p) for p in s.workers()}
        s.upgrade()
        after = [proc.fd_kinds(p) for p in s.workers()]
        assert all(kinds in before.values() for kinds in after), (before, after)
        for pid in s.workers():
            with open("/proc/%d/environ" % pid, "rb") as f:
                assert b"WHITECAP_UPGRADE" not in f.read()


def test_command_upgrade_tells_the_outcome():
    """With the statistics file to ask; the new program is another build."""
    config = {"pidfile": "server.pid", "stats": {"file": "stats.json"}, "routes": [kit_route("/", "status", n=200)]}
    with UpgradeServer(config) as s:
        def command():
            return subprocess.run([build.binary(), "upgrade", "-c", s.path], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, cwd=s.folder, timeout=60)
        s.install(s.another_build(7))
        done = command()
        assert done.returncode == 0 and "generation 2" in done.stdout, done
        s.errors.append("upgrade failed: ")
        s.install(b"junk")
        done = command()
        assert done.returncode != 0 and "nothing has changed" in done.stderr, done
        assert s.get().status == 200
