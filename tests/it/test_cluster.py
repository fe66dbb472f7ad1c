# SPDX-License-Identifier: MIT
"""Behind a real HAProxy: scripts/cluster, in some seconds."""
import json
import os
import subprocess
import sys

from whitecap_it import build, needs_plain, needs_program


def test_restarts_and_upgrades_behind_a_balancer_fail_no_request():
    needs_plain()
    needs_program("haproxy")
    path = os.path.join(build.cache_dir(), "cluster-%d.json" % os.getpid())
    done = subprocess.run([sys.executable, "-B", os.path.join(build.SOURCE, "scripts", "cluster"), "--quick",
                           "--build-dir", build.build_dir(), "--json", path], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=80)
    assert done.returncode == 0, done.stdout
    with open(path, encoding="ascii") as f:
        restart, upgrade, killed = json.load(f)
    os.remove(path)
    for phase in (restart, upgrade):
        assert phase["requests"] > 100 and phase["failed"] == phase["retries"] == 0, done.stdout
    assert killed["failed"] <= 32, done.stdout  # those that were in it, some of them twice


test_restarts_and_upgrades_behind_a_balancer_fail_no_request.long = True
