# SPDX-License-Identifier: MIT
"""The dashboard in a real browser.  WHITECAP_IT_SHOTS=DIR keeps screenshots there, to be looked at."""
import os
import signal
import socket
import threading

from whitecap_it import Server, kit_route, needs_plain
from whitecap_it.browser import Browser

SHOTS = os.environ.get("WHITECAP_IT_SHOTS")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def shot(browser, name):
    if SHOTS:
        browser.shot(os.path.join(SHOTS, name + ".png"))


class Load:
    """Requests on some connections until the end of the block."""

    def __init__(self, server, connections=4):
        self.server, self.over = server, threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(connections)]

    def run(self):
        while not self.over.is_set():
            try:
                with self.server.client() as c:
                    while not self.over.is_set():
                        c.get("/")
            except (OSError, AssertionError):
                pass

    def __enter__(self):
        for t in self.threads:
            t.start()

    def __exit__(self, *_):
        self.over.set()
        for t in self.threads:
            t.join()


def test_page_shows_load_a_crash_a_reload_and_a_stopped_server():
    needs_plain()
    port = free_port()
    url = "http://127.0.0.1:%d/" % port
    with Server({"workers": 2, "admin": {"listen": "127.0.0.1:%d" % port},
                 "routes": [{"path": "/*", "handler": "hello"}, kit_route("/crash", "crash")]},
                fds=False, errors=["ended", "SIG", "reload failed", "crash"]) as s, Browser() as b:
        b.open(url)
        b.wait("document.getElementById('state').textContent == 'serving'")
        assert b.evaluate("document.querySelectorAll('.worker').length") == 2
        with Load(s):
            b.wait("samples.filter(p => p.rate > 0).length > %d" % (14 if SHOTS else 3), 40)
            b.wait("samples.some(p => p.p99 > 0)")
            shot(b, "load-light")
            b.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
            b.evaluate("drawAll()")
            shot(b, "load-dark")
            b.open(url, width=390, height=1800, mobile=True)
            b.wait("document.getElementById('state').textContent == 'serving'")
            b.wait("samples.length > 3")
            assert b.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than a phone"
            shot(b, "phone")
            b.open(url)
            b.wait("samples.length > 2")
            s.kill_worker(s.workers()[0], signal.SIGKILL)
            b.wait("document.getElementById('events').innerText.includes('killed by SIGKILL')")
            s.write_text('{"wrokers": 1}')
            s.reload_refused("wrokers")
            b.wait("!document.getElementById('reload-error').hidden")
            assert "wrokers" in b.evaluate("document.getElementById('reload-error').textContent")
            shot(b, "crash-and-failed-reload")
            s.write_config()
            s.kill(signal.SIGHUP)
            b.wait("document.getElementById('about').textContent.includes('generation 2')", 40)
            b.wait("document.getElementById('reload-error').hidden")
        for _ in range(3):
            b.key("Tab")
        assert b.evaluate("document.activeElement.tagName") in ("CANVAS", "A", "DIV")
        b.evaluate("document.getElementById('rate').focus()")
        b.key("ArrowLeft")
        assert b.evaluate("document.getElementById('rate-key').innerText.includes('at ')")
        s.stop()
        b.wait("document.getElementById('state').textContent == 'gone'")
        assert b.evaluate("!document.getElementById('gone').hidden")
        shot(b, "gone")
        s.start()
        b.wait("document.getElementById('state').textContent == 'serving' && document.getElementById('gone').hidden")
        shot(b, "back")
        assert b.complaints() == [], b.complaints()
        assert all(u.startswith(url) for u in b.requested()), set(b.requested())


test_page_shows_load_a_crash_a_reload_and_a_stopped_server.long = True
