# SPDX-License-Identifier: MIT
"""Figures as text: Markdown tables that read well in a terminal too."""
import os
import platform
import subprocess

NONE = "–"


def number(digits):
    return lambda value: NONE if value is None else f"{value:,.{digits}f}"


COLUMNS = (
    ("req/s", "rps", number(0)),
    ("CPU µs/req", "cpu_us", number(2)),
    ("user", "user_us", number(2)),
    ("system", "system_us", number(2)),
    ("p50 µs", "p50_us", number(0)),
    ("p99 µs", "p99_us", number(0)),
    ("p99.9 µs", "p999_us", number(0)),
    ("errors", "errors", number(0)),
    ("CPU × loop", "cpu_to_loop", number(2)),
    ("CPU × nginx", "cpu_to_nginx", number(2)),
    ("req/s × loop", "rps_to_loop", number(2)),
    ("req/s × nginx", "rps_to_nginx", number(2)),
)
IDLE_COLUMNS = (
    ("CPU × none idle", "cpu_to_none_idle", number(3)),
    ("idle lost", "idle_closed", number(0)),
)


def table(rows):
    """rows: lists of texts, the first is the head; the first column is left-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]

    def line(cells):
        first, *others = (cell.ljust(width) if column == 0 else cell.rjust(width)
                          for column, (cell, width) in enumerate(zip(cells, widths)))
        return "| " + " | ".join([first, *others]) + " |"

    rule = "|" + "|".join("-" * (width + 1) + ("-" if column == 0 else ":")
                          for column, width in enumerate(widths)) + "|"
    return "\n".join([line(rows[0]), rule, *map(line, rows[1:])])


def scenario_table(scenario, results):
    columns = COLUMNS + (IDLE_COLUMNS if len(scenario.connections) > 1 else ())
    rows = [["server", *(title for title, _, _ in columns)]]
    rows += [[label, *(text(result[figure]) for _, figure, text in columns)]
             for label, result in results.items()]
    note = "\n×2: two processes (HAProxy: threads) on both CPUs with wrk beside them; " \
        "not comparable with the others\n" if max(scenario.workers) > 1 else ""
    return f"\n### {scenario.title}\n{note}\n{table(rows)}"


def extras_table(idle, starts):
    rows = [["server", "bytes per idle connection", "ms from start to first answer"]]
    rows += [[name, number(0)(idle.get(name)), number(1)(starts.get(name, {}).get("median"))]
             for name in {**idle, **starts}]
    return f"\n### Memory and start\n\n{table(rows)}"


def first(scenario, label, figure):
    return lambda report: report["scenarios"][scenario][label][figure]


def tail_to_nginx(report):
    scenario = report["scenarios"]["get"]
    return scenario["whitecap"]["p999_us"] / scenario["nginx"]["p999_us"]


TARGETS = (
    ("GET: CPU × loop", "≤", 1.15, first("get", "whitecap", "cpu_to_loop")),
    ("bid POST to echo: CPU × loop", "≤", 1.25, first("bid", "whitecap", "cpu_to_loop")),
    ("bid POST to echo: CPU × nginx", "≤", 1.0, first("bid", "whitecap", "cpu_to_nginx")),
    ("pipelined: req/s × nginx", "≥", 9.0, first("pipelined", "whitecap", "rps_to_nginx")),
    ("GET: p99.9 × nginx", "≤", 1.0, tail_to_nginx),
    ("10,000 connections: CPU × none idle", "≤", 1.03,
     first("connections", "whitecap, 10,000", "cpu_to_none_idle")),
    ("bytes per idle connection", "≤", 256, lambda report: report["idle_bytes"]["whitecap"]),
    ("ms from start to first answer", "≤", 10,
     lambda report: report["start_ms"]["whitecap"]["median"]),
)


def targets_table(report):
    """Only the targets of what was measured."""
    rows = [["target", "wanted", "measured", ""]]
    for title, relation, wanted, find in TARGETS:
        try:
            value = find(report)
        except KeyError:
            continue
        met = value <= wanted if relation == "≤" else value >= wanted
        rows.append([title, f"{relation} {wanted:g}", f"{value:.2f}", "met" if met else "MISSED"])
    return f"\n### Targets\n\n{table(rows)}" if len(rows) > 1 else ""


def first_line(*command):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
    except OSError:
        return "missing"
    return done.stdout.splitlines()[0].strip() if done.stdout else ""


def machine():
    return {"kernel": platform.release(), "arch": platform.machine(), "cpus": os.cpu_count(),
            "load": os.getloadavg()[0]}


def versions(tools):
    return {"whitecap": first_line(os.path.join(tools.whitecap, "src/whitecap"), "-V"),
            "nginx": first_line("nginx", "-v"), "haproxy": first_line("haproxy", "-v"),
            "wrk": first_line("wrk", "-v"), "compiler": first_line("cc", "--version")}
