# SPDX-License-Identifier: MIT
"""The build under test: its files, how it was built, and the test handlers compiled for it."""
import fcntl
import functools
import hashlib
import os
import shlex
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
HANDLER_SOURCES = os.path.join(SOURCE, "tests", "it", "handlers")


class Skip(Exception):
    """The test can't run here; the text says why."""


def build_dir():
    given = os.environ.get("WHITECAP_BUILD_DIR")
    for candidate in [given] if given else [os.getcwd(), SOURCE]:
        if os.access(os.path.join(candidate, "src", "whitecap"), os.X_OK):
            return os.path.abspath(candidate)
    raise SystemExit("no src/whitecap in %s: build first, or say --build-dir" % (given or os.getcwd()))


def binary():
    return os.path.join(build_dir(), "src", "whitecap")


def handler_dir():
    return os.path.join(build_dir(), "src", "handlers")


def cache_dir():
    path = os.path.join(build_dir(), "tests", "it", "cache")
    os.makedirs(path, exist_ok=True)
    return path


@functools.lru_cache(None)
def sanitized():
    """True where the binary was built with the address sanitizer."""
    with open(binary(), "rb") as f:
        return b"__asan_init" in f.read()


def sanitizer_options(crashes=False):
    """The environment of a server; crashes: the test provokes them, so the sanitizer must not catch them first."""
    options = "abort_on_error=1:detect_leaks=0:handle_abort=0"
    if crashes:
        options += "".join(":handle_%s=0" % name for name in ("segv", "sigbus", "sigfpe", "sigill"))
    return {"ASAN_OPTIONS": options, "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


def needs_plain():
    if sanitized():
        raise Skip("measures the plain build; this one has sanitizers")


def needs_root():
    if os.geteuid() != 0:
        raise Skip("needs root")


def needs_program(name):
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if not path:
        raise Skip("needs " + name)
    return path


def compiler():
    return shlex.split(os.environ.get("CC", "cc"))


def pkg_config(*words):
    tool = os.environ.get("PKG_CONFIG", "pkg-config")
    return shlex.split(subprocess.run([tool, *words], check=True, text=True,
                                      stdout=subprocess.PIPE).stdout)


def compile_shared(source, name, flags=()):
    """Compiles a C file of tests/it/handlers to a shared object; its path.  Kept between runs."""
    path = os.path.join(HANDLER_SOURCES, source)
    command = compiler() + ["-shared", "-fPIC", "-g", "-O1", "-Wall", "-Wextra", "-Werror",
                            "-I", os.path.join(SOURCE, "src"), *flags]
    libraries = pkg_config("--cflags", "--libs", "jansson") + ["-lev"]
    digest = hashlib.sha256(repr((command, libraries)).encode())
    for part in (path, os.path.join(SOURCE, "src", "whitecap.h")):
        with open(part, "rb") as f:
            digest.update(f.read())
    target = os.path.join(cache_dir(), "%s-%s.so" % (name, digest.hexdigest()[:12]))
    with open(os.path.join(cache_dir(), name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(target):
            subprocess.run(command + ["-o", target + ".new", path] + libraries, check=True)
            os.rename(target + ".new", target)
    return target


def kit():
    """The handler whose route options say what it does: tests/it/handlers/kit.c."""
    return compile_shared("kit.c", "kit")


def version_handler(version):
    return compile_shared("version.c", "version-" + version, ["-DVERSION=\"%s\"" % version])


def move_handler(version="v1"):
    """What the clients of move_client.py ask: tests/it/handlers/move.c."""
    return compile_shared("move.c", "move-" + version, ["-DVERSION=\"%s\"" % version])
