# SPDX-License-Identifier: MIT
"""
The installed unit under systemd as process 1: run by scripts/system-check, in a container that is thrown away.

One crowd of clients, which checks every octet, stays through all that must not hurt it.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "tests", "it"))

from move_client import Crowd
from whitecap_it import Client, get, proc

IDLE = int(os.environ.get("CHECK_IDLE", "1000"))
CONFIG = "/etc/whitecap/whitecap.json"
DEPLOYED = "/usr/lib/whitecap/deployed.so"
LOGS = "/var/log/whitecap"
ADDRESS, ADMIN, LOCAL = "127.0.0.1:80", "127.0.0.1:8081", "unix:/run/whitecap/http.sock"

# What a handler may not do in the sandbox, and what it may.  One line for each that goes against the plan.
PROBE = """
for f in /usr/x /etc/x /boot/x /x ~root/x /home/x /sys/x /proc/sys/kernel/core_uses_pid; do
	(echo 1 >$f) 2>/dev/null && echo "can write $f"
done
for f in /run/whitecap/x /var/log/whitecap/x /tmp/x /var/tmp/x; do (echo 1 >$f) 2>/dev/null || echo "cannot write $f"; done
[ -z "$(ls -A /home ~root 2>/dev/null)" ] || echo "sees homes"
[ -e /tmp/of-others ] && echo "sees /tmp of others"
[ -e /dev/kmsg ] && echo "sees devices"
[ -d /proc/1 ] && echo "sees processes of others"
unshare -r true 2>/dev/null && echo "can make a namespace"
chmod u+s /var/log/whitecap/x 2>/dev/null && echo "can set SUID"
grep -q "^NoNewPrivs:.1" /proc/self/status || echo "can gain rights"
grep -q "^Seccomp:.2" /proc/self/status || echo "no filter of system calls"
grep -q "^CapEff:.0*[04]00$" /proc/self/status || echo "has capabilities"
[ "$(id -un)" = whitecap ] || echo "is $(id -un)"
"""


def ctl(*words, check=True):
    done = subprocess.run(["systemctl", *words], stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=90)
    assert not check or done.returncode == 0, "systemctl %s: %s\n%s" % (" ".join(words), done.stdout, journal()[-3000:])
    return done


def show(name):
    return ctl("show", "-P", name, "whitecap").stdout.strip()


def pid():
    return int(show("MainPID"))


def journal():
    return subprocess.run(["journalctl", "-u", "whitecap", "-o", "cat", "--no-pager"], text=True, errors="replace",
                          stdout=subprocess.PIPE).stdout


def wait_journal(pattern, count=1):
    proc.wait_until(lambda: len(re.findall(pattern, journal())) >= count,
                    lambda: "%s in the journal:\n%s" % (pattern, journal()[-3000:]), 20)


def wait_next(before):
    proc.wait_until(lambda: show("ActiveState") == "active" and pid() not in (0, before),
                    lambda: "another instance:\n" + journal()[-3000:], 30)


def stats():
    with Client(ADMIN) as c:
        return json.loads(c.ask(b"GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n").text)


def says_serving():
    """The admin process may be replaced while it is asked: then ask again."""
    try:
        return stats()["state"] == "serving"
    except (AssertionError, OSError):
        return False


def is_reached():
    """By new connections, on every listener."""
    for address in (ADDRESS, LOCAL):
        with Client(address) as c:
            version(c)


def deploy(version):
    """A handler's file is replaced, by renaming."""
    subprocess.run("cp %s/%s.so %s.new && mv %s.new %s" % (HERE, version, DEPLOYED, DEPLOYED, DEPLOYED), shell=True, check=True)


def version(client):
    return client.get("/v?1").text.split()[0]


def write_config(**more):
    routes = [{"path": "/*", "handler": DEPLOYED}, {"path": "/crash", "handler": HERE + "/crash.so"},
              {"path": "/slow", "handler": HERE + "/slow.so"},
              {"path": "/probe", "handler": HERE + "/kit.so", "options": {"do": "run", "command": PROBE}}]
    config = dict({"workers": 2, "listen": [ADDRESS, LOCAL], "admin": {"listen": ADMIN}, "routes": routes,
                   "timeouts": {"request": "2m", "send": "2m", "drain": "20s"},
                   "access_log": {"path": LOGS + "/access.log", "sample": 0.01}}, **more)
    with open(CONFIG, "w", encoding="ascii") as f:
        json.dump(config, f)


def drop_in(text):
    os.makedirs("/etc/systemd/system/whitecap.service.d", exist_ok=True)
    with open("/etc/systemd/system/whitecap.service.d/check.conf", "w", encoding="ascii") as f:
        f.write("[Service]\n" + text)
    ctl("daemon-reload")


# The checks, in order.  Those with a parameter have the crowd.

def starts():
    with open("/tmp/of-others", "w", encoding="ascii"):
        pass
    subprocess.run(["systemd-sysusers"], check=True)
    deploy("v1")
    write_config()
    ctl("enable", "--now", "whitecap")
    assert show("Type") == "notify" and show("User") == "whitecap"
    return "%s, %s" % (show("StatusText"), ctl("--version").stdout.split(" (")[0])


def verifies():
    done = subprocess.run(["systemd-analyze", "verify", "whitecap.service", "whitecap.socket"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    told = [line for line in done.stdout.splitlines() if "whitecap" in line]
    assert not told, told
    done = subprocess.run(["systemd-analyze", "security", "--no-pager", "whitecap"], text=True, stdout=subprocess.PIPE)
    return done.stdout.strip().splitlines()[-1].lstrip("→ ")


def is_in_its_sandbox():
    with Client(ADDRESS) as c:
        told = c.get("/probe", seconds=20).text
    assert told in ("=0", "=1"), told


def master_is_too():
    one = proc.status(pid())
    assert one["NoNewPrivs"] == "1" and one["Seccomp"] == "2" and one["Uid"].split()[0] != "0", one
    assert int(one["CapEff"], 16) in (0, 1 << 10) and int(one["CapBnd"], 16) == 1 << 10, one
    return "capabilities %s" % one["CapEff"].lstrip("0")


def reloads(_):
    ctl("reload", "whitecap")
    with open(CONFIG, encoding="ascii") as f:
        good = f.read()
    with open(CONFIG, "w", encoding="ascii") as f:
        f.write("{broken")
    assert ctl("reload", "whitecap", check=False).returncode != 0
    with open(CONFIG, "w", encoding="ascii") as f:
        f.write(good)


def runs_copies_of_handlers(_):
    """A file that is replaced means nothing to a worker that starts later, but to a reload."""
    deploy("v2")
    before = proc.children(pid())
    with Client(ADDRESS) as c:
        assert version(c) == "v1"
        assert c.get("/crash?null@handle").status == 500
        proc.wait_until(lambda: proc.children(pid()) != before and len(proc.children(pid())) == len(before), "another worker")
        assert {version(c) for _ in range(50)} == {"v1"}
        ctl("reload", "whitecap")
        assert version(c) == "v2"


def reports_crashes(_):
    wait_journal(r"fault: SIGSEGV")
    wait_journal(r"crash\.so\(?\S*\+0x")
    assert any("SIGSEGV" in (w["last_exit"] or "") for w in stats()["workers"]), stats()["workers"]


def moves_connections(_):
    moved = stats()["total"]["moved"]["in"]
    os.kill(pid(), signal.SIGTTOU)
    proc.wait_until(lambda: stats()["total"]["moved"]["in"] > moved, "moved connections")
    os.kill(pid(), signal.SIGTTIN)


def upgrades(_):
    before = pid()
    subprocess.run("cp /usr/sbin/whitecap /usr/sbin/whitecap.new && mv /usr/sbin/whitecap.new /usr/sbin/whitecap",
                   shell=True, check=True)
    os.kill(before, signal.SIGUSR2)
    wait_journal("upgraded: ")
    proc.wait_until(lambda: says_serving() and show("StatusText").startswith("Serving"), "serving")
    assert pid() == before and show("ActiveState") == "active"


def restarts(_):
    socket_file = os.stat(LOCAL[5:])
    for _ in range(2):
        before = pid()
        ctl("restart", "whitecap")
        assert pid() != before
        is_reached()
    assert os.path.samestat(os.stat(LOCAL[5:]), socket_file)
    return "%s descriptors stored" % show("NFileDescriptorStore")


def outlives_its_master(_):
    for number in (signal.SIGKILL, signal.SIGSEGV):
        before = pid()
        os.kill(before, number)
        wait_next(before)
        is_reached()
    return "%s restarts" % show("NRestarts")


def is_restarted_when_its_workers_stand_still(_):
    drop_in("WatchdogSec=2\n")
    ctl("restart", "whitecap")
    before = pid()
    for one in proc.children(before):
        os.kill(one, signal.SIGSTOP)
    wait_next(before)
    drop_in("")


def leaves_core_dumps():
    """Where they are wanted: off as shipped."""
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as f:
        pattern = f.read().strip()
    with Client(ADDRESS) as c:
        assert c.get("/crash?null@handle").status == 500
    wait_journal("killed by SIGSEGV")
    assert "core dumped" not in journal()
    drop_in("LimitCORE=infinity\nWorkingDirectory=%s\n" % LOGS)
    ctl("restart", "whitecap")
    with Client(ADDRESS) as c:
        assert c.get("/crash?null@handle").status == 500
    wait_journal("killed by SIGSEGV, core dumped")
    found = [name for name in os.listdir(LOGS) if name.startswith("core")]
    assert found or pattern.startswith(("|", "/")), os.listdir(LOGS)
    drop_in("")
    return "%s, core_pattern %s" % (" ".join(found), pattern)


def stops_politely():
    with Crowd(ADDRESS, idle=100, closing_allowed=True) as crowd, Client(ADDRESS) as slow:
        slow.send(get("/slow?n=1500"))
        slow.expect_silence(0.3)
        ctl("stop", "whitecap")
        assert slow.receive().closes
        report = crowd.finish()
        assert report.closed == 100 and not report.trouble, report.trouble
    proc.wait_until(lambda: show("NFileDescriptorStore") == "0", "an empty store")
    assert show("Result") == "success"


def is_activated_by_its_socket():
    write_config(listen=["fd:web"])
    ctl("start", "whitecap.socket")
    assert show("ActiveState") == "inactive"
    with Client("127.0.0.1:8080") as c:
        assert version(c) == "v2"
    ctl("stop", "whitecap.socket", "whitecap")


def filters_system_calls_of_workers():
    """The configuration's own filter, within the unit's."""
    write_config(seccomp=True)
    ctl("start", "whitecap")
    with Client(ADDRESS) as c:
        assert version(c) == "v2"
        assert c.get("/crash?null@handle").status == 500
        assert version(c) == "v2"
    ctl("stop", "whitecap")


CHECKS = [starts, verifies, is_in_its_sandbox, master_is_too,
          (reloads, runs_copies_of_handlers, reports_crashes, moves_connections, upgrades, restarts, outlives_its_master,
           is_restarted_when_its_workers_stand_still),
          leaves_core_dumps, stops_politely, is_activated_by_its_socket, filters_system_calls_of_workers]
counts = {"pass": 0, "FAIL": 0}


def run(check, *arguments):
    since, verdict = time.monotonic(), "pass"
    try:
        text = check(*arguments)
    except Exception as e:  # pylint: disable=broad-except
        verdict, text = "FAIL", "%s: %s" % (type(e).__name__, e)
    counts[verdict] += 1
    print("%s %s (%.1f s)%s" % (verdict, check.__name__, time.monotonic() - since, ": " + text if text else ""))


def no_connection_was_closed(crowd):
    report = crowd.finish()
    report.check()
    return "%d idle and 64 busy connections, %d answers, %d closed, slowest answer %.0f ms" % (
        IDLE, report.answers, report.closed, report.percentile(1) * 1e3)


def main():
    for check in CHECKS:
        if not isinstance(check, tuple):
            run(check)
            continue
        with Crowd(ADDRESS, idle=IDLE, busy=64) as crowd:
            for one in check:
                run(one, crowd)
            run(no_connection_was_closed, crowd)
    print("%d passed, %d failed" % (counts["pass"], counts["FAIL"]))


main()
