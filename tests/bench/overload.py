# SPDX-License-Identifier: MIT
"""What is answered in time at three times the capacity: scripts/bench overload.

Every request costs the same CPU time in the server's own worker: in whitecap in a handler (spin.c), in nginx in a
loop of LuaJIT.  The capacity is what a closed loop of a few connections gets out of that same server.
Then openloop asks at a constant rate, whatever the server does; an answer is in time when it is 200 and
there within DEADLINE_MS of when its request was due.
"""
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
from typing import Callable, NamedTuple

import build
from load import run_wrk
from processes import HELLO, Server, Trouble, affinity, free_port
from report import NONE, number, table
from scenarios import SCENARIOS
from servers import set_up_nginx, whitecap_command, write_file

SERVER_CPUS, LOAD_CPUS = {0}, {1}
COST_US, TIMES, DEADLINE_MS = 1000, 3, 100
CONNECTIONS, CLOSED_LOOP = 512, 8
BURST = 50  # of nginx's limit_req: 50 ms of work

LUA_INIT = """
	init_worker_by_lua_block {
		local function loop(rounds)
			local x = 1
			for i = 1, rounds do x = (x * 69069 + 1) % 4294967296 end
			return x
		end
		loop(1e6)
		local best = 1
		for i = 1, 5 do
			local before = os.clock()
			loop(2e6)
			best = math.min(best, (os.clock() - before) / 2e6)
		end
		spin_rounds, spin = math.floor(@us@ / 1e6 / best), loop
	}
"""
LUA_HANDLER = 'content_by_lua_block { spin(spin_rounds) ngx.header.content_length = 12 ngx.print("hello world!") }'


class Tools(NamedTuple):
    servers: object  # of servers.py
    openloop: str
    spin: str


def set_up_whitecap(shed, clock="read"):
    def set_up(tools, folder, port, _):
        config = {
            "workers": 1, "admin": {"listen": None}, "log": {"level": "warn"},
            "listen": [{"address": f"127.0.0.1:{port}", "arrival_clock": clock}],
            "routes": [{"path": "/", "handler": tools.spin, "options": {"us": COST_US}, "shed": shed}],
        }
        return whitecap_command(tools.servers.whitecap, folder, config)
    return set_up


def set_up_spinning_nginx(limited):
    def set_up(tools, folder, port, capacity):
        command = set_up_nginx(tools.servers, SCENARIOS[0], folder, port, 1)
        with open(command[-1], encoding="ascii") as file:
            text = file.read()
        before, _, answer = text.partition("return 200")
        handler, zone = LUA_HANDLER, ""
        if limited:
            handler = f"limit_req zone=all burst={BURST} nodelay; limit_req_status 503;\n\t\t\t{LUA_HANDLER}"
            zone = f"\tlimit_req_zone $server_port zone=all:1m rate={int(capacity)}r/s;\n"
        text = before + handler + answer.partition(";")[2]
        text = text.replace("http {\n", "http {\n" + zone + LUA_INIT.replace("@us@", str(COST_US)))
        modules = "".join(f"load_module modules/{name}_module.so;\n" for name in ("ndk_http", "ngx_http_lua"))
        write_file(folder, "nginx.conf", modules + text)
        return command
    return set_up


class Subject(NamedTuple):
    name: str
    set_up: Callable
    after: str = ""  # the subject whose capacity it is told; else its own is measured


SUBJECTS = (
    Subject("whitecap, shed.after 80 ms, kernel clock", set_up_whitecap({"after": "80ms"}, "kernel")),
    Subject("whitecap, shed.after 40 ms, read clock", set_up_whitecap({"after": "40ms"})),
    Subject("whitecap, no shedding", set_up_whitecap(None)),
    Subject("nginx", set_up_spinning_nginx(False)),
    Subject("nginx, limit_req at its capacity", set_up_spinning_nginx(True), "nginx"),
)


def prepare(folder, servers):
    build.install("overload")
    return Tools(servers, build.build_program(folder, "openloop"), build.build_handler(folder, "spin"))


@contextlib.contextmanager
def running(tools, subject, capacity):
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        os.chmod(folder, 0o755)
        port = free_port()
        command = subject.set_up(tools, folder, port, capacity)
        request = write_file(folder, "request", HELLO)
        with Server(command, port, SERVER_CPUS, os.path.join(folder, "log")) as server:
            yield server, request


def openloop_command(tools, port, rate, seconds, connections):
    return [tools.openloop, "-p", str(port), "-c", str(connections), "-r", f"{rate:.1f}", "-s", str(seconds),
            "-d", str(DEADLINE_MS)]


def run_openloop(tools, port, rate, seconds, connections=CONNECTIONS):
    command = openloop_command(tools, port, rate, seconds, connections)
    with affinity(LOAD_CPUS):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=3 * seconds + 60)
    if done.returncode:
        raise Trouble(f"openloop failed: {done.stderr}")
    return json.loads(done.stdout)


def measure_once(tools, subject, seconds, known):
    capacity = known.get(subject.after)
    with running(tools, subject, capacity) as (server, request):
        if not capacity:
            figures = run_wrk(server.port, request, 1, CLOSED_LOOP, max(1, seconds // 2), LOAD_CPUS)
            capacity = figures["requests"] / (figures["us"] / 1e6)
        result = run_openloop(tools, server.port, TIMES * capacity, seconds)
    known[subject.name] = capacity
    refused = sum(result["status"].get(status, 0) for status in ("204", "503"))
    return {
        "capacity": capacity, "asked": result["due"] / seconds, "in_time": result["in_time"] / seconds,
        "share": result["in_time"] / seconds / capacity, "refused": refused / seconds,
        "late": (result["status"].get("200", 0) - result["in_time"]) / seconds,
        "unanswered": (result["due"] - result["answered"]) / seconds, "closed": result["closed"],
        "p50_us": result["ok"].get("p50_us"), "p99_us": result["ok"].get("p99_us"), "raw": result,
    }


def summarize(samples):
    figures = [name for name in samples[0] if name != "raw"]
    summary = {name: statistics.median(sample[name] or 0 for sample in samples) for name in figures}
    return dict(summary, rounds=samples)


def milliseconds(value):
    return NONE if value is None else number(1)(value / 1000)


COLUMNS = (
    ("capacity/s", "capacity", number(0)),
    ("asked/s", "asked", number(0)),
    ("in time/s", "in_time", number(0)),
    ("of capacity", "share", lambda value: f"{value:.0%}"),
    ("late/s", "late", number(0)),
    ("refused/s", "refused", number(0)),
    ("no answer/s", "unanswered", number(0)),
    ("p50 ms", "p50_us", milliseconds),
    ("p99 ms", "p99_us", milliseconds),
    ("closed", "closed", number(0)),
)


def results_table(results):
    rows = [["server", *(title for title, _, _ in COLUMNS)]]
    rows += [[name, *(text(result[figure]) for _, figure, text in COLUMNS)] for name, result in results.items()]
    title = f"### {TIMES} × capacity: {COST_US} µs of CPU per request, {CONNECTIONS} connections, in time: " \
        f"200 within {DEADLINE_MS} ms; p50 and p99 of the answers that are 200"
    return f"{title}\n\n{table(rows)}"


def measure_overload(tools, rounds, seconds):
    samples = {subject.name: [] for subject in SUBJECTS}
    for _ in range(rounds):
        known = {}
        for subject in SUBJECTS:
            samples[subject.name].append(measure_once(tools, subject, seconds, known))
    results = {name: summarize(each) for name, each in samples.items()}
    print(results_table(results), flush=True)
    return {"cost_us": COST_US, "times": TIMES, "deadline_ms": DEADLINE_MS, "servers": results}
