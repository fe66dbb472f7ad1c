# SPDX-License-Identifier: MIT
"""Instruction counts on record: tests/bench/instructions.json, one entry per kind of build.

Counts mean something only beside those of the same compiler, flags and libraries; an entry names
its own, and a build without an entry is not compared.
"""
import json
import os
import re
import subprocess

from processes import Trouble, read_file
from report import first_line
from servers import HERE

FILE = os.path.join(HERE, "instructions.json")
LIMIT = 1.03
KEPT_SHARE = 0.005  # a function's part of a request from which it is recorded by name
CPU_FEATURES = ("avx2", "bmi2", "erms")  # by which the C library chooses its functions
MACROS = {
    "libev": ("ev.h", ("EV_VERSION_MAJOR", "EV_VERSION_MINOR")),
    "http-parser": ("http_parser.h", ("HTTP_PARSER_VERSION_MAJOR", "HTTP_PARSER_VERSION_MINOR",
                                      "HTTP_PARSER_VERSION_PATCH")),
    "jansson": ("jansson.h", ("JANSSON_MAJOR_VERSION", "JANSSON_MINOR_VERSION",
                              "JANSSON_MICRO_VERSION")),
}


def make_variable(build, name):
    match = re.search(rf"^{name} *= *(.*)$", read_file(os.path.join(build, "Makefile")), re.M)
    return match[1].strip() if match else ""


def header_version(compiler, header, macros):
    source = f"#include <{header}>\n@ {' '.join(macros)}\n"
    done = subprocess.run([*compiler, "-E", "-P", "-"], input=source, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("@")]
    return ".".join(lines[-1].split()[1:]) if lines else "unknown"


def code_flags(build):
    """Those that change the code: not the warnings."""
    words = " ".join(make_variable(build, name) for name in ("CPPFLAGS", "CFLAGS", "WC_CFLAGS",
                                                             "LDFLAGS")).split()
    return " ".join(word for word in words if not word.startswith("-W") or word.startswith("-Wl"))


def describe_build(build):
    """All that the counts hang on, besides the sources."""
    compiler = make_variable(build, "CC").split()
    if not compiler:
        raise Trouble(f"{build} is not a configured build")
    features = re.search(r"^flags\s*:(.*)$", read_file("/proc/cpuinfo"), re.M)
    known = features[1].split() if features else []
    return {
        "compiler": first_line(*compiler, "--version"),
        "flags": code_flags(build),
        "libc": first_line("ldd", "--version").split()[-1],
        **{name: header_version(compiler, *where) for name, where in MACROS.items()},
        "valgrind": first_line("valgrind", "--version"),
        "machine": " ".join([os.uname().machine, *(f for f in CPU_FEATURES if f in known)]),
    }


def has_sanitizers(build):
    return "-fsanitize" in code_flags(build)


def load():
    try:
        with open(FILE, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return []


def recorded(description):
    return next((entry["counts"] for entry in load() if entry["build"] == description), None)


def differences(description):
    """Why no entry fits: what is different in the nearest one."""
    entries = [{key: entry["build"].get(key) for key in description
                if entry["build"].get(key) != description[key]} for entry in load()]
    nearest = min(entries, key=len, default={})
    return [f"{key} {was} is on record, here it is {description[key]}"
            for key, was in nearest.items()]


def abridge(functions):
    """Total and the functions that matter, rounded: what is kept of one kind."""
    total = sum(functions.values())
    return {"instructions": round(total, 1),
            "functions": {name: round(cost, 1) for name, cost in functions.items()
                          if cost >= total * KEPT_SHARE}}


def record(description, counted):
    entries = [entry for entry in load() if entry["build"] != description]
    entries.append({"build": description,
                    "counts": {name: abridge(functions) for name, functions in counted.items()}})
    with open(FILE, "w", encoding="utf-8") as file:
        json.dump(entries, file, indent=1, ensure_ascii=False)
        file.write("\n")


def growth(before, functions, lines=8):
    """The functions that grew most, as text."""
    grown = {name: functions.get(name, 0) - before["functions"].get(name, 0)
             for name in {**before["functions"], **abridge(functions)["functions"]}}
    worst = sorted(grown.items(), key=lambda item: -item[1])[:lines]
    return [f"{name}: {before['functions'].get(name, 0):.1f} → {functions.get(name, 0):.1f}"
            for name, more in worst if more > 0.05]


def compare(before, counted):
    """Yields (name, now / before, what grew) for each kind on record."""
    for name, functions in counted.items():
        if name in before:
            ratio = sum(functions.values()) / before[name]["instructions"]
            yield name, ratio, growth(before[name], functions) if ratio > LIMIT else []
