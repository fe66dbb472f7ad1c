# SPDX-License-Identifier: MIT
"""make install and make uninstall, into an empty root; and what is installed beside the server."""
import os
import re
import subprocess
import tempfile

from test_examples import Installed
from whitecap_it import build, needs_program, run

DIRECTORIES = ("sbindir", "libdir", "handlerdir", "includedir", "pkgconfigdir", "mandir", "pkgdatadir", "confdir",
               "systemdsystemunitdir", "tmpfilesdir", "sysusersdir", "bashcompletiondir", "logrotatedir")
SHIPPED = """
    {sbindir}/whitecap
    {handlerdir}/hello.so {handlerdir}/echo.so {handlerdir}/bidder.so
    {includedir}/whitecap.h {pkgconfigdir}/whitecap.pc
    {mandir}/man8/whitecap.8 {mandir}/man5/whitecap.json.5 {mandir}/man3/whitecap.h.3 {mandir}/man7/whitecap-stats.7
    {pkgdatadir}/whitecap.schema.json {pkgdatadir}/whitecap.rules.yml {pkgdatadir}/grafana.json
    {systemdsystemunitdir}/whitecap.service {systemdsystemunitdir}/whitecap.socket
    {tmpfilesdir}/whitecap.conf {sysusersdir}/whitecap.conf {bashcompletiondir}/whitecap"""
EDITABLE = "{confdir}/whitecap.json {logrotatedir}/whitecap"


def directories(installed):
    """What the Makefile calls by these names."""
    recipe = "show: ; @echo %s" % " ".join("%s=$(%s)" % (name, name) for name in DIRECTORIES)
    text = installed.make("-s", "--no-print-directory", "--eval", recipe, "show")
    return dict(word.split("=", 1) for word in text.split())


def paths(text, where):
    return set(text.format(**where).split())


def append(path, text):
    with open(path, "a", encoding="utf-8") as f:
        f.write(text)


def test_installs_what_it_should_and_uninstalls_it_all():
    with Installed() as installed:
        where = directories(installed)
        assert installed.files() == paths(SHIPPED + " " + EDITABLE, where)
        configuration = installed.root + where["confdir"] + "/whitecap.json"
        done = run(["-t", "-c", configuration, "-o", "handler_dir=" + installed.root + where["handlerdir"]])
        assert done.returncode == 0, done.stderr
        installed.make("uninstall")
        assert installed.files() == set()
        for own in ("handlerdir", "pkgdatadir", "confdir"):
            assert not os.path.exists(installed.root + where[own]), own


def test_what_the_administrator_changed_stays():
    with Installed() as installed:
        where = directories(installed)
        changed = paths(EDITABLE, where)
        for path in changed:
            append(installed.root + path, "\n")
        before = {path: os.stat(installed.root + path).st_mtime_ns for path in changed}
        installed.make("install")
        assert before == {path: os.stat(installed.root + path).st_mtime_ns for path in changed}
        assert installed.files() == paths(SHIPPED + " " + EDITABLE + " {confdir}/whitecap.json.example", where)
        installed.make("uninstall")
        assert installed.files() == changed


def test_every_directory_can_be_another_one():
    """As configure's --with-...dir sets it, or on make's command line."""
    given = ["%s=/elsewhere/%s" % (name, name) for name in DIRECTORIES if name.endswith("dir")]
    with Installed(*given) as installed:
        where = directories(installed)
        assert where["tmpfilesdir"] == "/elsewhere/tmpfilesdir"
        assert installed.files() == paths(SHIPPED + " " + EDITABLE, where)
        installed.make("uninstall")
        assert installed.files() == set()


def test_the_logrotate_snippet_is_understood():
    logrotate = needs_program("logrotate")
    with Installed() as installed, tempfile.TemporaryDirectory(prefix="whitecap-it-") as folder:
        with open(installed.root + directories(installed)["logrotatedir"] + "/whitecap", encoding="utf-8") as f:
            text = f.read()
        assert installed.root not in text and "@" not in text, text
        path = os.path.join(folder, "snippet")
        # The user is there on the machine where it is installed, not here.
        append(path, re.sub(r"(?m)^\tsu .*$", "", text))
        os.chmod(path, 0o644)
        done = subprocess.run([logrotate, "-d", "-s", folder + "/state", path], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0 and "/var/log/whitecap/*.log" in done.stdout, done.stdout
        assert "error" not in done.stdout, done.stdout


COMPLETION = os.path.join(build.SOURCE, "conf", "bash-completion", "whitecap")
COMPLETE = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _whitecap; printf '%s\\n' "${COMPREPLY[@]}" """


def complete(*words):
    """What follows these words, the last of which has been begun."""
    done = subprocess.run(["bash", "-c", COMPLETE, "bash", COMPLETION, "whitecap", *words], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert not done.stderr, done.stderr
    return set(done.stdout.split())


def usage():
    """Word of a sub-command, or "" -> options, as the server's own help has them."""
    text = run(["-h"]).stdout
    own, _, _ = text.partition("\nCommands ")
    out = {"": set(re.findall(r"(?m)^  (-\w)", own))}
    for line in text.split("\n"):
        found = re.match(r"       whitecap ([a-z |]+) ", line)
        for word in found.group(1).split("|") if found else ():
            out[word.strip()] = set(re.findall(r"-\w\b", line))
    return out


def test_bash_completes_every_option_and_every_command():
    told = usage()
    assert len(told) == 7 and len(told[""]) == 6, told
    for word, options in told.items():
        if word:
            assert complete(word, "-") == options, (word, complete(word, "-"))
    assert complete("") == told[""] | set(told) - {""}
    assert complete("-t", "-") == told[""]
    assert complete("re") == {"reload", "reopen"}


def test_bash_completes_files_of_configurations():
    with tempfile.TemporaryDirectory(prefix="whitecap-it-") as folder:
        append(folder + "/some.json", "{}")
        assert complete("reload", "-c", folder + "/so") == {folder + "/some.json"}
        assert complete("-o", "") == set()
