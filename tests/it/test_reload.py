# SPDX-License-Identifier: MIT
"""Reload: nothing lost when it works, nothing changed when it does not."""
import os
import random
import shutil
import signal
import threading

from whitecap_it import Client, Server, build, get, kit_route, needs_root, pause, proc, refused, version_handler


class Load:
    """Threads that ask, each request on a connection of its own; what goes wrong is kept."""

    def __init__(self, server, threads=3, target="/"):
        self.server, self.target = server, target
        self.answers, self.failures = [], []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.ask) for _ in range(threads)]

    def ask(self):
        while not self.over.is_set():
            try:
                self.answers.append(self.server.get(self.target).text)
            except Exception as e:
                self.failures.append(repr(e))

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        for t in self.threads:
            t.join()
        assert kind or not self.failures, "%d of %d failed: %s" % (
            len(self.failures), len(self.answers) + len(self.failures), self.failures[:3])
        assert kind or self.answers


def version_route(version, **more):
    return dict({"path": "/", "handler": version_handler(version)}, **more)


def test_new_configuration_and_handler_serve_after_hup():
    with Server({"workers": 2, "routes": [version_route("v1")]}, fds=False) as s:
        assert s.get().text == "v1"
        with Load(s):
            for version in ("v2", "v1", "v2"):
                s.reload(routes=[version_route(version)])
                assert {s.get().text for _ in range(20)} == {version}
        assert len(s.workers()) == 2


def test_reloads_leak_no_descriptor_and_keep_the_master():
    """B12."""
    with Server({"workers": 2, "routes": [version_route("v1")]}) as s:
        s.reload(routes=[version_route("v2")])
        kinds, worker = s.settled_fds(), proc.fd_kinds(s.workers()[0])
        for i in range(20):
            s.reload(routes=[version_route("v%d" % (i % 2 + 1))])
        s.write_text("{broken")
        for _ in range(5):
            s.reload_refused("whitecap.json")
        s.write_config()
        s.reload()
        proc.wait_until(lambda: proc.fd_kinds(s.pid) == kinds, "fds of the master")
        proc.wait_until(lambda: all(proc.fd_kinds(p) == worker for p in s.workers()), "fds of workers")


def test_what_is_in_flight_finishes_on_the_old_version():
    with Server({"workers": 2, "routes": [version_route("v1")]}) as s:
        busy = [s.client() for _ in range(10)]
        for c in busy:
            c.send(get("/?n=800"))
        busy[0].expect_silence(0.1)
        s.reload(routes=[version_route("v2")])
        for c in busy:
            assert c.receive().text == "v1"


def test_request_that_waits_in_the_kernel_at_a_reload_is_answered():
    """B01: the worker stands still while the request and the HUP arrive."""
    with Server({"routes": [version_route("v1")]}) as s:
        for _ in range(10):
            with s.client() as c:
                assert c.get().text == "v1"
                worker = s.worker
                os.kill(worker, signal.SIGSTOP)
                proc.wait_until(lambda: proc.state(worker) == "T", "worker stopped")
                c.send(get())
                generation = s.generation()
                s.kill(signal.SIGHUP)
                proc.wait_until(lambda: s.generation() > generation, "new generation")
                os.kill(worker, signal.SIGCONT)
                assert c.receive().text == "v1"
                proc.wait_until(lambda: not proc.alive(worker), "old worker gone")


def test_handler_file_replaced_without_hup_changes_nothing():
    """B57: in place or by rename, running and restarted workers keep what was proven."""
    with Server(start=False) as s:
        path = os.path.join(s.folder, "handler.so")
        shutil.copy(version_handler("v1"), path)
        s.write_config(routes=[{"path": "/", "handler": path}], workers=2)
        s.start()
        with open(version_handler("v2"), "rb") as new, open(path, "r+b") as old:
            old.write(new.read())
        assert {s.get().text for _ in range(20)} == {"v1"}
        for pid in s.workers():
            s.kill_worker(pid)
        assert {s.get().text for _ in range(20)} == {"v1"}
        s.reload()
        assert {s.get().text for _ in range(20)} == {"v2"}
        shutil.copy(version_handler("v1"), path + ".new")
        os.rename(path + ".new", path)
        s.kill_worker(s.workers()[0])
        assert {s.get().text for _ in range(20)} == {"v2"}
        s.reload()
        assert {s.get().text for _ in range(20)} == {"v1"}
        os.remove(path)
        s.kill_worker(s.workers()[0])
        s.kill_worker(s.workers()[1])
        assert {s.get().text for _ in range(20)} == {"v1"}


def test_many_swaps_leave_no_growth_in_the_master():
    """B57."""
    needs_root()
    with Server({"routes": [version_route("v1")]}) as s:
        for i in range(5):
            s.reload(routes=[version_route("v%d" % (i % 2 + 1))])
        before = proc.memory_kb([s.pid], "Private_Dirty")
        for i in range(30):
            s.reload(routes=[version_route("v%d" % (i % 2 + 1))])
        grown = proc.memory_kb([s.pid], "Private_Dirty") - before
        assert grown < 200 * proc.scale(), "%d KB more" % grown


def cut_in_half(s):
    """A handler of which a deploy has copied a part."""
    path = os.path.join(s.folder, "half.so")
    with open(build.version_handler("v1"), "rb") as whole, open(path, "wb") as half:
        data = whole.read()
        half.write(data[:len(data) // 2])
    return path


def test_refused_reloads_change_nothing():
    """B30: under load, each kind of broken configuration, a good one after each."""
    good = [version_route("v1")]
    with Server({"workers": 2, "routes": good, "timeouts": {"start": "500ms"}}, fds=False, crashes=True) as s:
        def text(content):
            return lambda: s.write_text(content)

        def changed(**change):
            return lambda: s.write_text(__import__("json").dumps(dict(s.config, **change)))

        broken = [
            (lambda: os.remove(s.path), "whitecap.json"),
            (text(""), "whitecap.json"),
            (text('{"workers": 2'), "whitecap.json"),
            (changed(wrokers=1), "wrokers"),
            (changed(workers="two"), "workers"),
            (changed(routes=[{"path": "/", "handler": "nosuch"}]), "nosuch"),
            (changed(routes=[kit_route("/", "ok", init="fail")]), r"routes\[0\]|told to fail"),
            (changed(routes=[kit_route("/", "ok", init="crash")]), "SIGSEGV|signal"),
            (changed(routes=[kit_route("/", "ok", init="hang")]), "hangs in init"),
            (changed(routes=[kit_route("/", "ok", init="exit")]),
             r"routes\[0\].handler: \".*\" ended the process in init: exit code 7"),
            (changed(routes=[kit_route("/", "ok", init="fail")]), 'routes.0..handler: init of "kit" failed: told to fail'),
            (changed(routes=[kit_route("/", "ok", fini="crash")]), r"routes\[0\].handler: \".*\" crashed in fini: killed by SIGSEGV"),
            (changed(routes=[{"path": "/", "handler": cut_in_half(s)}]),
             r"routes\[0\].handler: \".*half.so\" crashed while it was loaded .*whole.*SIGBUS|half.so.*(too short|truncated|invalid)"),
            (changed(log={"path": "/nonexistent/log"}), "/nonexistent/log"),
            (changed(user="nosuchuser"), "nosuchuser"),
            (changed(listen=["192.0.2.77:80"]), "192.0.2.77"),
        ]
        s.errors += ["reload", "told to fail", "ended"]
        workers = s.workers()
        with Load(s) as load:
            for write, pattern in broken:
                write()
                s.reload_refused(pattern)
                assert s.get().text == "v1"
            assert set(workers) <= set(s.workers()), "workers changed"
            s.write_config()
            s.reload()
        assert set(load.answers) == {"v1"}


def test_storm_of_hups_ends_with_the_last_configuration():
    """B08: also to the whole process group."""
    rng = random.Random(8)
    with Server({"workers": 2, "routes": [kit_route("/", "status", n=200, body="0")]}, fds=False) as s:
        with Load(s):
            for i in range(1, 40):
                s.write_config(routes=[kit_route("/", "status", n=200, body=str(i))])
                s.kill(signal.SIGHUP)
                pause(rng.uniform(0, 0.03))
            os.killpg(s.pid, signal.SIGHUP)
            proc.wait_until(lambda: all(s.get().text == "39" for _ in range(10)), "the last configuration", 20)
            proc.wait_until(lambda: len(s.workers()) == 2, "two workers", 20)
            assert {s.get().text for _ in range(20)} == {"39"}


def test_hup_during_a_reload_means_one_more_after_it():
    with Server({"routes": [version_route("v1")]}) as s:
        s.write_config(routes=[version_route("v1"), kit_route("/slow", "ok", init="wait")])
        s.kill(signal.SIGHUP)
        pause(0.05)
        s.write_config(routes=[version_route("v2")])
        s.kill(signal.SIGHUP)
        proc.wait_until(lambda: s.get().text == "v2", "the second reload")


def test_stop_during_a_reload():
    for number in (signal.SIGTERM, signal.SIGINT):
        with Server({"routes": [version_route("v1")], "timeouts": {"drain": "1s"}}, fds=False, errors=["ended", "killed"]) as s:
            s.write_config(routes=[kit_route("/", "ok", init="hang")])
            s.kill(signal.SIGHUP)
            pause(0.2)
            assert s.get().text == "v1"
            s.kill(number)
            assert s.wait_exit(5) == 0


def test_listeners_added_removed_and_kept():
    needs_root()
    with Server({"workers": 2}, fds=False) as s:
        path = os.path.join(s.folder, "http.sock")
        kept = s.address
        inode = kept_inode(s)
        held = Client(kept)
        held.get()
        s.reload(listen=["127.0.0.1:0", "unix:" + path])
        assert kept_inode(s) <= listening_inodes(s) and inode <= listening_inodes(s)
        with Client("unix:" + path) as c:
            assert c.get().status == 200
        with Client(kept) as c:
            assert c.get().status == 200
        s.reload(listen=["unix:" + path])
        proc.wait_until(lambda: refused(kept), "the TCP listener gone")
        held.expect_closed()
        held.close()
        with Client("unix:" + path) as c:
            assert c.get().status == 200
        s.reload(listen=["127.0.0.1:0"])
        assert not os.path.exists(path)


def listening_inodes(s):
    """Inodes of the master's sockets."""
    return {t for t in proc.fd_targets(s.pid).values() if t.startswith("socket:")}


def kept_inode(s):
    """The inode of the TCP listener, by its port."""
    with open("/proc/net/tcp") as f:
        for line in f.readlines()[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[1].split(":")[1], 16) == s.port:
                return {"socket:[%s]" % words[9]}
    raise AssertionError("no listener at port %d" % s.port)


def test_no_queued_connection_is_lost_when_a_listener_is_kept():
    """Connections that wait in the kernel while both generations stand still."""
    with Server({"workers": 1, "routes": [version_route("v1")]}, fds=False) as s:
        worker = s.worker
        os.kill(worker, signal.SIGSTOP)
        proc.wait_until(lambda: proc.state(worker) == "T", "worker stopped")
        clients = [s.client() for _ in range(50)]
        for c in clients:
            c.send(get())
        s.write_config(routes=[version_route("v2")])
        s.kill(signal.SIGHUP)
        for c in clients:
            assert c.receive().text in ("v1", "v2")
        os.kill(worker, signal.SIGCONT)
        proc.wait_until(lambda: not proc.alive(worker), "old worker gone")


def test_fini_that_crashes_or_hangs_harms_nothing():
    for how in ("crash", "hang", "exit"):
        with Server({"workers": 2, "timeouts": {"drain": "500ms", "start": "500ms"},
                     "routes": [version_route("v1")]}, fds=False, errors=["."], crashes=True) as s:
            s.write_config(routes=[kit_route("/", "ok", fini=how)])
            s.kill(signal.SIGHUP)
            proc.wait_until(lambda: s.log.find("fini|reload|ended|killed"), "something said")
            assert s.get().status == 200
            s.reload(routes=[version_route("v2")])
            assert {s.get().text for _ in range(10)} == {"v2"}


def test_rights_and_number_of_workers_follow_the_configuration():
    needs_root()
    with Server({"workers": 1, "user": "nobody"}) as s:
        uid = proc.status(s.worker)["Uid"].split()[0]
        s.reload(workers=3)
        assert len(s.workers()) == 3
        assert {proc.status(p)["Uid"].split()[0] for p in s.workers()} == {uid}
        s.reload(workers=1)
        assert len(s.workers()) == 1


def test_more_and_fewer_workers_by_signal():
    with Server({"workers": 2}, fds=False) as s:
        s.kill(signal.SIGTTIN)
        proc.wait_until(lambda: len(s.workers()) == 3, "three workers")
        for count in (2, 1):
            s.kill(signal.SIGTTOU)
            proc.wait_until(lambda: len(s.workers()) == count, "%d workers" % count)
        s.kill(signal.SIGTTOU)
        pause(0.2)
        assert len(s.workers()) == 1 and s.get().status == 200
