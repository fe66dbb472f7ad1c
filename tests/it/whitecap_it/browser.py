# SPDX-License-Identifier: MIT
"""Headless Chromium, driven over its debugging pipe with the standard library alone."""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

from . import build, proc

FLAGS = ("--headless=new --no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
         "--disable-sync --no-first-run --disable-default-apps --disable-extensions --disable-breakpad "
         "--disable-crash-reporter --metrics-recording-only --no-default-browser-check --disable-dev-shm-usage "
         "--hide-scrollbars --no-zygote --disable-features=Translate,MediaRouter,OptimizationHints "
         "--remote-debugging-pipe about:blank").split()


class Browser:
    """with Browser() as b: b.open(url); b.wait("document.title == 'x'"); b.shot(path)"""

    def __init__(self):
        program = build.needs_program("chromium")
        self.folder = tempfile.mkdtemp(prefix="whitecap-chromium-")
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        words = [program, "--user-data-dir=" + self.folder] + FLAGS
        self.process = subprocess.Popen(
            ["bash", "-c", 'exec "$@" 3<&%d 4>&%d' % (to_read, to_write), "bash"] + words,
            pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, env=dict(os.environ, HOME=self.folder))
        os.close(to_read)
        os.close(to_write)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None

    def __enter__(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for pid in proc.children(os.getpid()):  # its crash reporters have left its session
            if self.folder in proc.title(pid):
                proc.kill_quietly(pid)
                os.waitpid(pid, 0)
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                raise proc.Timeout("chromium does not answer")
            data = os.read(self.back, 1 << 20)
            assert data, "chromium has ended"
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(line)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 40 * proc.scale()
        while True:
            answer = self.receive(deadline)
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, expression, seconds=20):
        """The first true value of a JavaScript expression; that a page is not there yet is no error."""
        tried = "(() => { try { return %s } catch (e) { return null } })()" % expression
        return proc.wait_until(lambda: self.evaluate(tried), lambda: expression + "\n" + self.text(), seconds)

    def open(self, url, width=1280, height=1400, dark=False, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode={"Tab": 9, "ArrowLeft": 37}[name])

    def text(self):
        return self.evaluate("document.body.innerText") or ""

    def shot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def complaints(self):
        """What the console says, but for requests that failed."""
        self.evaluate("1")
        out = []
        for event in self.events:
            entry = event["params"].get("entry", {})
            if event["method"] == "Runtime.exceptionThrown" or event["method"] == "Runtime.consoleAPICalled":
                out.append(event["params"])
            elif event["method"] == "Log.entryAdded" and entry.get("source") != "network":
                out.append(entry)
        return out

    def requested(self):
        """URLs that the page asked for."""
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
