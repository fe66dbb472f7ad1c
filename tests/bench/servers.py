# SPDX-License-Identifier: MIT
"""The servers under test: for each, how it is set up for a scenario.

A set-up writes what the server needs into a folder and returns the command.  All give the same
answer, of `scenario.answer` octets, to the same request.
"""
import json
import os
import shutil
from typing import Callable, NamedTuple

from processes import Trouble

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TEXT = b"hello world!"


class Tools(NamedTuple):
    """What was built, and the limits of the machine."""
    whitecap: str  # build tree
    loop: str      # binary
    start: str     # binary
    files: int     # RLIMIT_NOFILE

    @property
    def connections(self):
        return self.files - 200


def answer_body(size):
    return (TEXT * (size // len(TEXT) + 1))[:size]


def write_file(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path


def fill_template(name, folder, values):
    with open(os.path.join(HERE, name), encoding="ascii") as file:
        text = file.read()
    for key, value in values.items():
        text = text.replace(f"@{key}@", str(value))
    return write_file(folder, name, text)


def set_up_loop(tools, scenario, folder, port, workers):
    command = [tools.loop, "-p", str(port), "-w", str(workers), "-b", str(scenario.answer)]
    if scenario.depth > 1:
        command += ["-r", str(len(scenario.request))]
    return command + (["-c"] if scenario.close else [])


def handler_path(build, name):
    """With libtool the object is in .libs, without it beside its source's name."""
    for place in ("src/handlers", "src/handlers/.libs"):
        path = os.path.join(build, place, f"{name}.so")
        if os.path.exists(path):
            return path
    raise Trouble(f"{build}: no handler {name}.so")


def whitecap_config(build, port, workers, routes):
    """routes: path → (handler, options)."""
    return {
        "workers": workers,
        "listen": [f"127.0.0.1:{port}"],
        "admin": {"listen": None},
        "routes": [{"path": path, "handler": handler_path(build, handler), "options": options}
                   for path, (handler, options) in routes.items()],
        "timeouts": {"keepalive": "1h"},
        "log": {"level": "warn"},
    }


def whitecap_command(build, folder, config):
    path = write_file(folder, "whitecap.json", json.dumps(config, indent=1))
    return [os.path.join(build, "src/whitecap"), "-c", path]


def bidder_options():
    return {"file": os.path.join(ROOT, "tests/openrtb/campaigns.json")}


def set_up_whitecap(tools, scenario, folder, port, workers):
    route = (scenario.handler, {})
    if scenario.handler == "hello" and scenario.answer != len(TEXT):
        route = ("hello", {"text": answer_body(scenario.answer).decode()})
    config = whitecap_config(tools.whitecap, port, workers, {"/": route})
    return whitecap_command(tools.whitecap, folder, config)


def set_up_bidder(tools, scenario, folder, port, workers):
    config = whitecap_config(tools.whitecap, port, workers, {"/": ("bidder", bidder_options())})
    return whitecap_command(tools.whitecap, folder, config)


def nginx_answer(scenario, folder):
    """Small ones from the configuration, a large one from a file by sendfile."""
    if scenario.answer <= 4096:
        return f'return 200 "{answer_body(scenario.answer).decode()}";'
    write_file(folder, "answer", answer_body(scenario.answer))
    return f"root {folder}; try_files /answer =404;"


def set_up_nginx(tools, scenario, folder, port, workers, daemon="off"):
    path = fill_template("nginx.conf", folder, {
        "daemon": daemon, "workers": workers, "files": tools.files, "connections": tools.connections, "port": port,
        "folder": folder, "answer": nginx_answer(scenario, folder),
        "header_buffer": "16k" if len(scenario.request) > 2048 else "2k",
    })
    return [shutil.which("nginx"), "-c", path]  # by its path, which it executes to upgrade


def set_up_haproxy(tools, scenario, folder, port, workers):
    write_file(folder, "answer", answer_body(scenario.answer))
    path = fill_template("haproxy.cfg", folder, {
        "workers": workers, "connections": tools.connections, "port": port, "folder": folder,
        "buffer": max(16384, scenario.answer + 4096),
    })
    return ["haproxy", "-db", "-f", path]


class Kind(NamedTuple):
    name: str
    set_up: Callable


LOOP = Kind("loop", set_up_loop)
WHITECAP = Kind("whitecap", set_up_whitecap)
BIDDER = Kind("whitecap bidder", set_up_bidder)
NGINX = Kind("nginx", set_up_nginx)
HAPROXY = Kind("haproxy", set_up_haproxy)
