# SPDX-License-Identifier: MIT
"""Sub-commands: reload, stop, reopen, upgrade, top, stats; each tells the outcome with its exit code."""
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import fcntl

from test_admin import Admin
from whitecap_it import Server, build, kit_route, proc, run


def pidfile():
    return {"pidfile": "server.pid"}


def test_reload_tells_the_new_generation():
    with Admin(pidfile(), fds=False) as s:
        for number in (2, 3):
            done = s.command("reload", "-c", s.path)
            assert (done.returncode, done.stdout) == (0, "reload done: generation %d\n" % number), done
        done = s.command("reload", "-c", s.path, "-p", str(s.pid))
        assert done.returncode == 0 and done.stdout == "reload done: generation 4\n", done
        assert s.get().status == 200


def test_reload_tells_the_mistakes():
    with Admin(pidfile(), errors=["reload failed"]) as s:
        s.write_text('{"wrokers": 1}')
        done = s.command("reload", "-c", s.path)
        assert done.returncode == 2 and "wrokers" in done.stderr, done
        assert done.stderr.startswith("whitecap: the reload failed, nothing has changed:\n"), done
        s.write_config(routes=[kit_route("/*", "status", n=200, init="fail")])
        s.errors.append("told to fail|init of")
        done = s.command("reload", "-c", s.path)
        assert done.returncode == 2 and "routes[0].handler" in done.stderr and "nothing has changed" in done.stderr, done
        assert s.get().status == 200
        assert s.stats()["reload"] ["failed"] == 1 and s.stats()["generation"] == 1


def test_reload_by_the_statistics_file_alone():
    with Server(dict(pidfile(), stats={"file": "stats.json"}), errors=["reload failed"], fds=False) as s:
        def command():
            return subprocess.run([build.binary(), "reload", "-c", s.path], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, cwd=s.folder, timeout=60)
        done = command()
        assert (done.returncode, done.stdout) == (0, "reload done: generation 2\n"), done
        s.errors.append("told to fail|init of")
        s.write_config(routes=[kit_route("/*", "status", n=200, init="fail")])
        assert command().returncode == 2


def test_without_statistics_the_outcome_is_not_known():
    with Server(pidfile()) as s:
        done = subprocess.run([build.binary(), "reload", "-c", s.path], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, cwd=s.folder, timeout=60)
        assert done.returncode == 1 and "log" in done.stderr, done
        proc.wait_until(lambda: s.generation() == 2, "the reload")
        done = subprocess.run([build.binary(), "stats", "-c", s.path], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, cwd=s.folder, timeout=60)
        assert done.returncode == 1 and "neither admin.listen nor stats.file" in done.stderr, done


def test_stop_waits_for_the_end():
    with Admin(pidfile()) as s:
        with s.client() as c:
            assert c.get().status == 200
            waiter = subprocess.Popen([build.binary(), "stop", "-c", s.path], text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, cwd=s.folder)
            s.process.wait(20 * proc.scale())
            out, err = waiter.communicate(timeout=20)
        assert waiter.returncode == 0 and "has ended" in out, (out, err)
        assert s.wait_exit() == 0
        done = s.command("stop", "-c", s.path)
        assert done.returncode == 1 and "server.pid" in done.stderr, done


def test_a_broken_configuration_stops_nobody_from_stopping_the_server():
    """By its process ID: where it tells of itself is not known then, but its end is seen."""
    with Admin(pidfile(), fds=False) as s:
        pid = str(s.pid)
        s.write_text('{"wrokers": 1}')
        for words in (["stop"], ["reload", "-p", pid], ["stats"]):
            done = s.command(words[0], "-c", s.path, *words[1:])
            assert done.returncode == 2 and "wrokers" in done.stderr, (words, done)
        done = s.command("reopen", "-c", s.path, "-p", pid)
        assert done.returncode == 1 and "wrokers" in done.stderr and "the signal is sent" in done.stderr, done
        s.log.wait("log files reopened")
        done = s.command("stop", "-c", s.path, "-p", pid)
        assert done.returncode == 0 and "wrokers" in done.stderr and pid in done.stdout, done
        assert s.wait_exit() == 0


def test_reopen_tells_whether_the_files_could_be_opened():
    with Admin(dict(pidfile(), access_log={"path": "access.log"}), errors=["access_log.path"], fds=False) as s:
        done = s.command("reopen", "-c", s.path)
        assert (done.returncode, done.stdout) == (0, "log files reopened\n"), done
        os.remove(os.path.join(s.folder, "access.log"))
        os.mkdir(os.path.join(s.folder, "access.log"))
        assert s.command("reopen", "-c", s.path).returncode == 1


def test_wrong_use():
    for words in (["stats", "x"], ["reload", "-p", "0"], ["reload", "-z"], ["stop", "-p", "x"]):
        done = run(words)
        assert done.returncode == 64 and "usage: whitecap" in done.stderr, (words, done)
    done = run(["reload", "-c", "{config}"], config={"admin": {"listen": None}})
    assert done.returncode == 1 and "-p PID" in done.stderr, done
    done = run(["stop", "-c", "{config}", "-p", "999999999"], config={})
    assert done.returncode == 1 and "999999999" in done.stderr, done
    assert "whitecap stats" in run(["-h"]).stdout


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, words, rows=40, columns=120):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(words[0], words)
        self.resize(rows, columns)
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.fd], [], [], 0)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return self.text
            if not data:
                break
            self.text += data.decode("utf-8", "replace")
        return self.text

    def wait(self, pattern):
        return proc.wait_until(lambda: re.search(pattern, self.read(), re.S), lambda: pattern + "\n" + self.text, 15)

    def exit_code(self):
        status = proc.wait_until(lambda: (lambda r: r[0] and (r[1],))(os.waitpid(self.pid, os.WNOHANG)), "its end")[0]
        self.read()
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_top_shows_resizes_and_quits():
    with Admin({"workers": 2}) as s:
        s.get()
        t = Terminal([build.binary(), "top", "-c", s.path])
        t.wait(r"serving.*worker.*ready.*listener")
        t.text = ""
        t.resize(6, 80)
        t.wait(r"\x1b\[H.*\x1b\[J")
        t.text = ""
        screen = t.wait(r"\x1b\[H(.*?)\x1b\[J").group(1)
        assert screen.count("\n") == 5, screen
        os.write(t.fd, b"q")
        assert t.exit_code() == 0
        assert "\x1b[?25h" in t.text and "\x1b[?1049l" in t.text
        t = Terminal([build.binary(), "top", "-c", s.path])
        t.wait("serving")
        os.kill(t.pid, signal.SIGTERM)
        assert t.exit_code() == 0 and "\x1b[?1049l" in t.text
    t = Terminal([build.binary(), "top", "-o", "admin.listen=127.0.0.1:1"])
    t.wait("does not answer")
    os.write(t.fd, b"q")
    assert t.exit_code() == 1 and re.search(r"l\s*whitecap: the server did not answer: .*refused", t.text), t.text
    done = run(["top"])
    assert done.returncode == 1 and "terminal" in done.stderr


def test_top_ends_in_the_background_of_a_terminal():
    """Where writing to the terminal's modes stops a process: so does timeout(1)."""
    with Admin({"workers": 1}) as s:
        t = Terminal(["/bin/sh", "-c", "set -m; '%s' top -c '%s' & p=$!; trap 'kill -TERM $p; wait $p' TERM; wait; wait $p"
                      % (build.binary(), s.path)])
        t.wait("serving")
        os.kill(t.pid, signal.SIGTERM)
        assert t.exit_code() == 0, t.text


def test_signals_go_to_masters_only():
    with Admin(pidfile(), fds=False) as s:
        stranger = subprocess.Popen(["sleep", "60"])
        try:
            for words in (("stop", "-p", str(stranger.pid)), ("reload", "-p", str(s.workers()[0]))):
                done = s.command(*words)
                assert done.returncode == 1 and "is no master of whitecap" in done.stderr, done
            assert stranger.poll() is None and s.get().status == 200
        finally:
            stranger.kill()
            stranger.wait()


def test_stats_of_a_server_that_does_not_run_are_told_from_live_ones():
    with Server(dict(pidfile(), stats={"file": "stats.json"}), fds=False) as s:
        def command():
            return subprocess.run([build.binary(), "stats", "-c", s.path], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, cwd=s.folder, timeout=60)
        s.kill(signal.SIGUSR1)
        proc.wait_until(lambda: os.path.exists(os.path.join(s.folder, "stats.json")), "statistics")
        done = command()
        assert done.returncode == 0 and not done.stderr, done
        s.stop()
        done = command()
        assert done.returncode == 1 and "does not run" in done.stderr and json.loads(done.stdout)["pid"] == s.pid, done


def test_stats_is_a_table_on_a_terminal_and_json_elsewhere():
    with Admin({"workers": 1}) as s:
        s.get()
        t = Terminal([build.binary(), "stats", "-c", s.path])
        t.wait(r"whitecap .*serving.*requests 1 .*/ \(hello\)")
        assert t.exit_code() == 0
        t = Terminal([build.binary(), "stats", "-j", "-c", s.path])
        t.wait(r'"requests": 1,')
        assert t.exit_code() == 0
        assert json.loads(s.command("stats", "-c", s.path).stdout)["total"]["requests"] == 1
