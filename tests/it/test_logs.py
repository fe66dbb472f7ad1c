# SPDX-License-Identifier: MIT
"""Logs: whole lines, reopened under load, and never a reason not to answer."""
import fcntl
import json
import os
import re
import signal
import subprocess
import threading

from whitecap_it import Server, build, get, kit_route, needs_program, pause
from whitecap_it import proc

COMBINED = re.compile(r'^\S+ - - \[[^]]+\] "[^"]*" \d{3} \d+ "[^"]*" "[^"]*"')


def lines_of(*paths):
    out = []
    for path in paths:
        with open(path, "rb") as f:
            data = f.read()
        assert not data or data.endswith(b"\n"), "torn end in %s: %r" % (path, data[-80:])
        out += data.split(b"\n")[:-1]
    return out


def count_lines(*paths):
    total = 0
    for path in paths:
        if os.path.exists(path):
            with open(path, "rb") as f:
                total += f.read().count(b"\n")
    return total


def test_access_log_has_a_line_per_request():
    with Server({"workers": 2, "access_log": {"path": "access.log"},
                 "routes": [kit_route("/", "ok"), kit_route("/later", "later", n=20)]}) as s:
        path = os.path.join(s.folder, "access.log")
        with s.client() as c:
            for i in range(100):
                c.get("/?x%d" % i, [("User-Agent", 'quote " back\\slash \xff'), ("Referer", "r")])
            c.get("/later")
            c.ask(b"BAD\r\n\r\n")
        s.stop()
        lines = [json.loads(line) for line in lines_of(path)]
        assert len(lines) == 102, len(lines)
        assert {str(v) for line in lines for v in line.values()} >= {"GET", "200", "/?x7"}, lines[0]


def test_access_log_tells_a_handlers_own_time_and_counts_refused_requests():
    with Server({"access_log": {"path": "access.log"},
                 "routes": [kit_route("/now", "ok"), kit_route("/later", "later", n=20)]}) as s:
        path = os.path.join(s.folder, "access.log")
        with s.client() as c:
            c.get("/later")
            c.send(get("/nowhere") + get("/now") * 40)
            assert [c.receive().status for _ in range(41)] == [404] + [200] * 40
            c.ask(b"BAD\r\n\r\n")
        s.stop()
        lines = [json.loads(line) for line in lines_of(path)]
        later, nowhere, now, bad = lines[0], lines[1], lines[2:-1], lines[-1]
        assert 20000 <= later["handler_us"] <= later["duration_us"], later
        assert nowhere["handler_us"] == 0 == bad["handler_us"], (nowhere, bad)
        # Each has waited for those before it, and its handler for nobody.
        assert sum(line["handler_us"] for line in now) < sum(line["duration_us"] for line in now) / 2, now
        assert [line["requests"] for line in lines] == list(range(1, 44)), lines


def test_access_log_in_combined_format_and_sampled():
    with Server({"access_log": {"path": "access.log", "format": "combined"}}) as s:
        with s.client() as c:
            c.get("/a?b", [("User-Agent", 'quote " \x01'.replace("\x01", "")), ("Referer", "http://r/")])
        s.stop()
        (line,) = lines_of(os.path.join(s.folder, "access.log"))
        assert COMBINED.match(line.decode()), line
    for sample, least, most in ((0, 0, 0), (0.5, 350, 650)):
        with Server({"access_log": {"path": "access.log", "sample": sample}}) as s:
            with s.client() as c:
                for _ in range(10):
                    c.send(get() * 100)
                    for _ in range(100):
                        c.receive()
            s.stop()
            assert least <= len(lines_of(os.path.join(s.folder, "access.log"))) <= most


def test_reopen_under_load_loses_and_tears_no_line():
    """B27: rename, USR1, again and again; every request has one whole line."""
    with Server({"workers": 2, "access_log": {"path": "access.log"}, "log": {"path": "server.log"}},
                start=False, wait_ready=False, fds=False) as s:
        s.start()
        log = os.path.join(s.folder, "server.log")
        address = wait_for_address(log)
        path = os.path.join(s.folder, "access.log")
        over, asked = threading.Event(), []

        def load(number):
            from whitecap_it import Client
            count = 0
            with Client(address) as c:
                while not over.is_set():
                    assert c.get("/?" + "p" * (200 + count * 37 % 2800)).status == 200
                    count += 1
            asked.append(count)

        threads = [threading.Thread(target=load, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        rotated = []
        for i in range(8):
            pause(0.1)
            for name in (path, log):
                os.rename(name, "%s.%d" % (name, i))
            rotated.append("%s.%d" % (path, i))
            s.kill(signal.SIGUSR1)
            proc.wait_until(lambda: os.path.exists(path) and os.path.exists(log), "reopened")
            old = rotated[-1]
            proc.wait_until(lambda: not any(old in t for p in proc.tree(s.pid) for t in proc.fd_targets(p).values()),
                            "nobody holds the renamed file", 3)
        over.set()
        for t in threads:
            t.join()
        s.stop()
        lines = lines_of(path, *rotated)
        for line in lines:
            json.loads(line)
        assert len(asked) == 4 and len(lines) == sum(asked), (len(lines), asked)


def wait_for_address(log):
    def look():
        if not os.path.exists(log):
            return None
        with open(log) as f:
            text = f.read()
        found = re.search(r"listening on (\S+)", text)
        return found and "serving" in text and found.group(1)
    return proc.wait_until(look, "listening, says %s" % log)


def test_real_logrotate():
    logrotate = needs_program("logrotate")
    with Server({"workers": 2, "access_log": {"path": "access.log"}}, start=False, fds=False) as s:
        s.write_config(pidfile=os.path.join(s.folder, "pid"))
        s.start()
        path = os.path.join(s.folder, "access.log")
        rules = os.path.join(s.folder, "rotate.conf")
        with open(rules, "w") as f:
            f.write("%s {\n rotate 5\n missingok\n nocompress\n nocreate\n sharedscripts\n postrotate\n"
                    "  kill -USR1 $(cat %s/pid)\n endscript\n}\n" % (path, s.folder))
        os.chmod(rules, 0o644)
        for _ in range(3):
            with s.client() as c:
                for _ in range(50):
                    c.get()
            subprocess.run([logrotate, "-f", "-s", os.path.join(s.folder, "state"), rules], check=True)
            proc.wait_until(lambda: os.path.exists(path), "reopened")
        proc.wait_until(lambda: not any(t.endswith("access.log.1") for p in proc.tree(s.pid)
                                        for t in proc.fd_targets(p).values()), "nobody holds the old file")
        s.stop()
        lines = lines_of(*[p for p in (path, path + ".1", path + ".2", path + ".3") if os.path.exists(p)])
        assert len(lines) == 150, len(lines)


def test_stuck_log_pipe_stops_nobody():
    """A pipe that nobody reads is full: requests are answered, lines are dropped, flags stay."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    with Server(start=False, fds=False) as s:
        s.write_config(routes=[kit_route("/", "log", text="x" * 1000)], workers=2, listen=["unix:" + s.folder + "/s"])
        s.process = subprocess.Popen([build.binary(), "-c", s.path], stderr=writer, stdin=subprocess.DEVNULL,
                                     cwd=s.folder, env=s.environment(), start_new_session=True)
        from whitecap_it import Client
        from whitecap_it.server import Log
        proc.wait_until(lambda: answers("unix:" + s.folder + "/s"), "serving")
        flags = fcntl.fcntl(writer, fcntl.F_GETFL)
        with Client("unix:" + s.folder + "/s") as c:
            for _ in range(300):
                assert c.get(seconds=5).status == 200
        s.kill(signal.SIGHUP)
        assert flags == fcntl.fcntl(writer, fcntl.F_GETFL) and not flags & os.O_NONBLOCK
        os.close(writer)
        s.log = Log(os.fdopen(reader, "rb"))
        with Client("unix:" + s.folder + "/s") as c:
            assert c.get().status == 200


def answers(address):
    from whitecap_it import Client
    try:
        with Client(address) as c:
            return c.get().status == 200
    except OSError:
        return False


def test_full_disk_and_closed_stderr_stop_nobody():
    """B29: /dev/full as log and access log; then no stderr at all."""
    with Server(start=False, fds=False) as s:
        address = "unix:" + s.folder + "/s"
        for change, closed in (({"log": {"path": "/dev/full"}, "access_log": {"path": "/dev/full"}}, False), ({}, True)):
            s.write_config(routes=[kit_route("/", "log", text="x")], listen=[address], **change)
            command = [build.binary(), "-c", s.path]
            s.process = subprocess.Popen(["sh", "-c", 'exec "$@" 2>&-', "sh", *command] if closed else command,
                                         stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=s.folder,
                                         env=s.environment(), start_new_session=True)
            proc.wait_until(lambda: answers(address), "serving")
            from whitecap_it import Client
            with Client(address) as c:
                for _ in range(200):
                    assert c.get().status == 200
            (worker,) = s.workers()
            os.kill(worker, signal.SIGKILL)
            proc.wait_until(lambda: s.workers() not in ([], [worker]) and answers(address), "replaced")
            s.process.terminate()
            assert s.wait_exit() == 0
            s.config.pop("log", None)
            s.config.pop("access_log", None)
        from whitecap_it.server import Log
        s.log = Log([])


def test_log_levels():
    with Server({"routes": [kit_route("/", "log", text="a warning")], "log": {"level": "error"}}, start=False,
                wait_ready=False) as s:
        s.write_config(listen=["unix:" + s.folder + "/s"])
        s.start()
        proc.wait_until(lambda: answers("unix:" + s.folder + "/s"), "serving")
        assert not s.log.lines, s.log.lines


def test_peers_octets_are_escaped_in_the_log():
    with Server({"log": {"level": "debug"}, "access_log": {"path": "access.log", "format": "combined"}}) as s:
        with s.client() as c:
            c.send(b"GET /\x1b[31m HTTP/1.1\r\nHost: x\r\n\r\n")
            assert c.receive().status == 400
        with s.client() as c:
            c.get("/", [("User-Agent", "\xff\xfe\" x")])
        s.stop()
        for line in lines_of(os.path.join(s.folder, "access.log")):
            assert not re.search(rb"[\x00-\x1f\x7f-\xff]", line), line
        assert not any("\x1b" in line for line in s.log.lines)
