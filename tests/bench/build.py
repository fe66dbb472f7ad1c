# SPDX-License-Identifier: MIT
"""What the measurements need: programs from Debian, the loop, and whitecap built plainly."""
import os
import subprocess

from processes import Trouble
from servers import HERE, ROOT


def run(*command):
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode:
        raise Trouble(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")


def install(*groups):
    run("scripts/install-deps", *groups)


def find_root_programs():
    """nginx and haproxy are in folders that only root's PATH has."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"


def build_program(folder, name):
    path = os.path.join(folder, name)
    run("cc", "-std=c11", "-O2", "-o", path, os.path.join(HERE, f"{name}.c"))
    return path


def build_handler(folder, name):
    path = os.path.join(folder, f"{name}.so")
    run("cc", "-std=c11", "-O2", "-shared", "-fPIC", "-I", os.path.join(ROOT, "src"), "-o", path,
        os.path.join(HERE, f"{name}.c"))
    return path


def build_seed(folder):
    path = os.path.join(folder, "seed.so")
    run("cc", "-shared", "-fPIC", "-o", path, os.path.join(HERE, "seed.c"))
    return path


def build_whitecap():
    """A build as a user gets it.  It stays, so that the next run is quick."""
    folder = os.path.join(ROOT, "build/bench")
    run("scripts/build", folder, "CC=gcc")
    return folder
