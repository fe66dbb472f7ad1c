# SPDX-License-Identifier: MIT
"""The examples, built outside the tree against an installed whitecap, and run by it."""
import glob
import os
import shutil
import subprocess
import tempfile

from whitecap_it import Server, build


def clean_environment(**more):
    return dict({k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "DESTDIR"))}, **more)


def make(*words, **more):
    done = subprocess.run(["make", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=clean_environment(**more))
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


class Installed:
    """whitecap installed into a folder, and the examples built beside it; words for make."""

    def __init__(self, *words):
        self.words = words

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="whitecap-it-")
        self.root = os.path.join(self.folder, "root")
        self.make("install")
        self.examples = os.path.join(self.folder, "examples")
        shutil.copytree(os.path.join(build.SOURCE, "examples"), self.examples)
        # A source tree may be read-only (distcheck).
        subprocess.run(["chmod", "-R", "u+w", self.examples], check=True)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def make(self, *words):
        return make("-C", build.build_dir(), "DESTDIR=" + self.root, *self.words, *words)

    def find(self, path):
        (found,) = glob.glob(self.root + "/**/" + path, recursive=True)
        return found

    def files(self):
        """All of them, with the paths that they have once the root is /."""
        return {os.path.join(folder, name)[len(self.root):]
                for folder, _, names in os.walk(self.root) for name in names}

    def make_examples(self):
        """The shared objects that make builds from the examples, by name."""
        out = {}
        for path in sorted(glob.glob(self.examples + "/**/Makefile", recursive=True)):
            folder = os.path.dirname(path)
            make("-C", folder, PKG_CONFIG_PATH=os.path.dirname(self.find("pkgconfig/whitecap.pc")), PKG_CONFIG_SYSROOT_DIR=self.root)
            for built in glob.glob(folder + "/*.so"):
                out[os.path.basename(built)[:-3]] = built
        return out


def test_examples_build_against_the_installed_whitecap_and_run():
    with Installed() as installed:
        handlers = installed.make_examples()
        assert len(handlers) >= 2, handlers
        routes = [{"path": "/" + name, "handler": path} for name, path in handlers.items()]
        with Server({"routes": routes, "handler_dir": "/nonexistent"}, binary=installed.find("sbin/whitecap")) as s, s.client() as c:
            for name in handlers:
                r = c.get("/" + name)
                assert r.status == 200 and r.body, (name, r)
            for name in handlers:
                c.send(b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % name.encode())
            for name in handlers:
                assert c.receive().status == 200
