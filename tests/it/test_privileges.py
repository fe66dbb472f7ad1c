# SPDX-License-Identifier: MIT
"""Rights that are dropped, and what a handler can reach: descriptors, other processes, system calls (`seccomp`)."""
import collections
import concurrent.futures
import os
import re
import resource
import signal

from crashes import crash_server
from move_client import Crowd
from whitecap_it import (Server, Skip, build, hello_and, kit_route, needs_plain, needs_program, needs_root, proc, rules,
                         run, wire)
from whitecap_it.server import DEFAULTS

OWN = ("fork", "execve", "system", "limits", "listen", "netlink")
ALLOWED = ("thread", "file", "connect")


def needs_seccomp():
    with open(os.path.join(build.build_dir(), "src", "autoconf.h"), encoding="utf-8") as f:
        if not re.search(r"(?m)^#define HAVE_SECCOMP 1", f.read()):
            raise Skip("built without libseccomp")


def attempts_route():
    handler = build.compile_shared("attempts.c", "attempts", ["-D_GNU_SOURCE", "-pthread"])
    return {"path": "/attempts", "handler": handler}


def as_nobody():
    """Words that make the whole server, master and workers, one user without rights."""
    if os.geteuid() != 0:
        return []
    return [needs_program("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups",
            "--bounding-set=-all", "--inh-caps=-all"]


def attempt(s, pid):
    """Name of what was tried on that process -> "done", or the error's name."""
    return dict(line.split(" ") for line in s.get("/attempts?%d" % pid).text.splitlines())


def expect(found, names, result):
    assert all(found[name] == result for name in names), (result, found)


def test_without_seccomp_a_handler_may_do_what_its_user_may_but_not_reach_the_master():
    """The other half of the next test, too: every attempt would succeed."""
    with Server({"workers": 1, "routes": [attempts_route()]}, wrap=as_nobody()) as s:
        found = attempt(s, s.pid)
        expect(found, ("fork", "system", "limits", "listen", "netlink", "kill", "owner", *ALLOWED), "done")
        assert found["execve"] == "ENOENT", found
        expect(found, ("ptrace", "vm-read", "descriptor"), "EPERM")
        expect(found, ("memory", "environ"), "EACCES")
        s.kill_worker(s.worker)


def test_with_seccomp_a_handler_reaches_no_other_process_and_starts_none():
    needs_seccomp()
    with Server({"workers": 2, "seccomp": True, "routes": [attempts_route()]}, wrap=as_nobody()) as s:
        for pid in [s.pid, *s.workers()]:
            found = attempt(s, pid)
            expect(found, ALLOWED, "done")
            expect(found, (*OWN, "ptrace", "vm-read", "descriptor", "owner"), "EPERM")
        found = attempt(s, s.pid)
        assert (found["memory"], found["environ"], found["kill"]) == ("EACCES", "EACCES", "EPERM"), found
        # Of two workers one is that which answers: it may send itself signals.
        results = [attempt(s, pid) for pid in s.workers() for _ in range(8)]
        assert any(r["kill"] == "EPERM" for r in results), results
        assert all(r["memory"] == "EACCES" for r in results if r["kill"] == "EPERM"), results
        assert proc.status(s.pid)["Seccomp"].strip() == "0"


def test_wire_cases_pass_with_seccomp():
    needs_seccomp()
    with Server({"workers": 2, "seccomp": True}) as s:
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            results = list(pool.map(lambda c: rules.run_case(c, "127.0.0.1", s.port), wire.load_cases()))
        assert all(r["ok"] for r in results), [r for r in results if not r["ok"]]


def test_connections_move_and_crashes_and_hangs_cost_one_request_with_seccomp():
    needs_seccomp()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with crash_server(workers=2, config={"seccomp": True, "timeouts": {"handler": "300ms"}}) as s:
        with Crowd(s.address, idle=60, busy=4, half_body=4, pipelining=4) as crowd:
            s.reload()
            for what, where in (("null", "handle"), ("abort", "callback"), ("null", "thread")):
                assert s.get("/c?%s@%s" % (what, where)).status == 500, (what, where)
            assert s.get("/c?loop@handle").status == 504
            s.reload()
            crowd.finish().check()
        ends = [m.group(1) for m in s.log.find(r"ended: killed by SIG(SEGV|ABRT)")]
        assert collections.Counter(ends) == {"SEGV": 2, "ABRT": 2}, ends


def test_a_crash_dumps_its_core_with_seccomp():
    needs_seccomp()
    needs_root()
    needs_plain()
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as f:
        if f.read().strip() != "core":
            raise Skip("cores do not go to the working directory here")
    wrap = [needs_program("prlimit"), "--core=unlimited", *as_nobody()]
    with crash_server(config={"seccomp": True}, wrap=wrap, start=False) as s:
        os.chown(s.folder, 65534, 65534)
        s.start()
        assert s.get("/c?null@handle").status == 500
        s.log.wait(r"killed by SIGSEGV, core dumped")
        # Without what is shared with others, which is large.
        assert os.path.getsize(os.path.join(s.folder, "core")) < 100 << 20


def test_no_rights_are_left_and_none_come_back():
    """Of the workers and the admin process; a master that root has started keeps what reload and upgrade need."""
    needs_root()
    capabilities = sum(1 << n for n in (0, 1, 3, 5, 6, 7, 10))  # CHOWN to SETUID, NET_BIND_SERVICE
    with Server({"workers": 2, "user": "nobody", "admin": {"listen": "127.0.0.1:0"}}) as s:
        for pid in [*s.workers(), s.admin()]:
            facts = {k: v.strip() for k, v in proc.status(pid).items()}
            assert facts["NoNewPrivs"] == "1", (pid, facts)
            for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                assert int(facts[name], 16) == 0, (pid, name, facts[name])
        for upgrades in range(2):
            facts = proc.status(s.pid)
            for name in ("CapPrm", "CapEff", "CapBnd"):
                assert int(facts[name], 16) == capabilities, (upgrades, name, facts[name])
            assert int(facts["CapInh"], 16) == 0 and facts["NoNewPrivs"].strip() == "1"
            s.kill(signal.SIGUSR2)
            s.log.wait("upgraded: ", count=upgrades + 1)


def kinds_of(targets):
    return collections.Counter(re.sub(r":\[\d+\]$", "", t) for t in targets if not t.startswith("/dev/"))


def listening_sockets(pid):
    """As /proc/PID/fd shows them."""
    with open("/proc/%d/net/tcp" % pid, encoding="utf-8") as f:
        rows = [line.split() for line in list(f)[1:]]
    return {"socket:[%s]" % row[9] for row in rows if row[3] == "0A"}


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as f:
        return f.read()


def test_a_process_holds_the_descriptors_that_it_needs_and_no_others():
    config = {"workers": 2, "admin": {"listen": "127.0.0.1:0"}, "log": {"path": "whitecap.log"},
              "stats": {"file": "stats.json"}, "pidfile": "whitecap.pid", "access_log": {"path": "access.log"},
              "routes": [{"path": "/", "handler": "hello"}]}
    with Server(config, wait_ready=False) as s:
        log, access_log = (os.path.join(s.folder, name) for name in ("whitecap.log", "access.log"))
        proc.wait_until(lambda: "serving: 2" in read(log), "serving")
        s.wait_set_up()
        listeners = listening_sockets(s.pid)
        for pid in [*s.workers(), s.admin()]:
            is_admin = pid == s.admin()
            targets = proc.fd_targets(pid).values()
            # Sockets: ipc, the exchange's two ends, and listeners; the admin process looks at their queues.
            expected = {"anon_inode:[eventpoll]": 1, "anon_inode:[eventfd]": 1, "pipe": 1, log: 1, access_log: 1,
                        "socket": 5 if is_admin else 4}
            if not is_admin:
                expected["/memfd:hello.so (deleted)"] = 2  # the copy, and the loader's hold of it
            assert kinds_of(targets) == expected, (is_admin, targets)
            assert len(listeners & set(targets)) == (2 if is_admin else 1), (is_admin, targets)


def test_rights_are_dropped_for_good():
    """B55: started as root with more groups; workers are nobody and nothing else, also later ones."""
    needs_root()
    setpriv = needs_program("setpriv")
    with Server({"workers": 2, "user": "nobody", "routes": hello_and(
            kit_route("/shadow", "run", command="cat /etc/shadow 2>&1; id -u"))},
            wrap=[setpriv, "--groups", "0,4,6", "--"]) as s:
        import grp
        import pwd
        nobody = pwd.getpwnam("nobody")
        groups = sorted({g.gr_gid for g in grp.getgrall() if "nobody" in g.gr_mem} | {nobody.pw_gid})
        for _ in range(2):
            for pid in s.workers():
                facts = proc.status(pid)
                assert facts["Uid"].split() == [str(nobody.pw_uid)] * 4, facts["Uid"]
                assert facts["Gid"].split() == [str(nobody.pw_gid)] * 4, facts["Gid"]
                assert sorted(map(int, facts["Groups"].split())) == groups, facts["Groups"]
                assert int(facts["CapEff"].strip(), 16) == 0 and int(facts["CapPrm"].strip(), 16) == 0
            text = s.get("/shadow").text
            assert "root:" not in text and text.endswith("%d\n=0" % nobody.pw_uid), text
            s.kill_worker(s.workers()[0])


def test_a_failing_step_of_dropping_rights_means_no_start():
    """B55."""
    needs_root()
    strace = needs_program("strace")
    config = dict(DEFAULTS, handler_dir=build.handler_dir(), user="nobody")
    for call in ("setgroups", "setresgid", "setresuid"):
        done = run(["-c", "{config}"], config, wrap=[strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call,
                                                     "-e", "inject=%s:error=EPERM" % call])
        assert done.returncode not in (0, 64) and "serving" not in done.stderr, (call, done.returncode, done.stderr)
        assert "nobody" in done.stderr or "Operation not permitted" in done.stderr, (call, done.stderr)


def test_unknown_users_and_groups_are_refused():
    base = dict(DEFAULTS, handler_dir=build.handler_dir())
    for change in ({"user": "nosuchuser"}, {"group": "nosuchgroup"}):
        done = run(["-c", "{config}"], dict(base, **change))
        assert done.returncode == 2 and list(change.values())[0] in done.stderr, (done.returncode, done.stderr)
