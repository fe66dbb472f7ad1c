# SPDX-License-Identifier: MIT
"""What a crash leaves to be read: the report in the log, the last exit in the statistics, the core file."""
import os
import re
import shutil
import signal
import subprocess

from crashes import crash_handler, crash_server, culprit, ended, stats, wait_replaced
from whitecap_it import build, core


def test_report_tells_what_where_and_on_which_request():
    with crash_server(1, config={"log": {"crash_body": True}}) as s:
        with s.client() as c:
            assert c.post("/c?null", b"a body\x00\n\\").status == 500
        wait_replaced(s, 1, 1)
        line = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \d+ error worker 0: fault: "
        s.log.wait(line + r"SIGSEGV at 0x0 in handler crash \(route /c\), POST /c\?null$")
        s.log.wait(line + r"body: a body\\x00\\x0a\\x5c$")
        s.log.wait(line + "rip=0x.* rsp=0x")
        s.log.wait(line + r"#0 0x[0-9a-f]+ %s\+0x[0-9a-f]+" % re.escape(crash_handler()))
        s.log.wait(line + r"#\d+ 0x[0-9a-f]+ whitecap\+0x")
        s.log.wait(r"worker 0 \(\d+\): SIGSEGV at 0x0 in handler crash \(route /c\), POST /c\?null$")
        last = stats(s)["workers"][0]["last_exit"]
        assert re.fullmatch(r"killed by SIGSEGV(, core dumped)?: "
                            r"SIGSEGV at 0x0 in handler crash \(route /c\), POST /c\?null", last), last
        address, = s.log.find(r"#0 0x[0-9a-f]+ (\S+)\+(0x[0-9a-f]+)")
        assert names(address.group(1), address.group(2)) == "null"
        s.write_config(log=None)
        s.reload()
        s.log.lines.clear()
        with s.client() as c:
            assert c.post("/c?wild", b"secret").status == 500
        s.log.wait("SIGSEGV at 0x1ead0000beef in handler")
        assert not s.log.find("secret")


def names(path, offset):
    """What addr2line makes of a place in the report."""
    build.needs_program("addr2line")
    return subprocess.run(["addr2line", "-f", "-e", path, offset], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.split("\n")[0]


SEGV_MAPERR = 1


def check_core(s, query, number, code, address):
    """One crash, and its core file beside the report: the fault as it was, not as the fault handler left it."""
    ends, since = len(ended(s)), len(s.log.lines)
    culprit(s, query)
    wait_replaced(s, ends + 1, 1)
    path, = core.find(s.folder)
    seen = core.fault(path)
    assert seen[:3] == (number, code, address), (query, seen)
    rip = s.log.find(r"fault: rip=(0x[0-9a-f]+) ", since)[0].group(1)
    assert seen[3] in (None, int(rip, 16)), (query, seen, rip)
    assert s.log.find(r"ended: killed by SIG\w+, core dumped, ", since), s.log.tail()
    assert "core dumped: SIG" in stats(s)["workers"][0]["last_exit"]
    os.unlink(path)


def test_core_file_has_signal_address_and_registers_of_the_fault():
    build.needs_plain()  # the sanitizer switches core files off
    with crash_server(1, wrap=core.wrap()) as s:
        check_core(s, "wild", signal.SIGSEGV, SEGV_MAPERR, 0x1ead0000beef)
        check_core(s, "wild@signal", signal.SIGSEGV, SEGV_MAPERR, 0x1ead0000beef)
        check_core(s, "wild@thread", signal.SIGSEGV, SEGV_MAPERR, 0x1ead0000beef)


def test_workers_of_another_user_leave_core_files_too():
    build.needs_root()
    build.needs_plain()
    with crash_server(1, wrap=core.wrap(), start=False, config={"user": "nobody"}) as s:
        shutil.chown(s.folder, "nobody")
        s.start()
        check_core(s, "wild", signal.SIGSEGV, SEGV_MAPERR, 0x1ead0000beef)


def test_report_of_a_thread_names_it():
    with crash_server(1) as s:
        culprit(s, "null@thread")
        wait_replaced(s, 1, 1)
        s.log.wait(r"fault: SIGSEGV at 0x0 in thread \d+$")
        s.log.wait(r"fault: #0 0x[0-9a-f]+ %s\+0x" % re.escape(crash_handler()))
        assert re.search(r": SIGSEGV at 0x0 in thread \d+$", stats(s)["workers"][0]["last_exit"])
