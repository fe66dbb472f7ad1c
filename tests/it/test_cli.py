# SPDX-License-Identifier: MIT
"""The command line: options, the configuration test, exit codes."""
import json
import os
import socket
import tempfile

from whitecap_it import Server, build, kit_route, run, version_handler
from whitecap_it.server import DEFAULTS


def config(**changes):
    out = dict(DEFAULTS, handler_dir=build.handler_dir())
    out.update(changes)
    return out


def expect(done, code, *patterns):
    text = done.stdout + done.stderr
    assert done.returncode == code, "exit code %d, wanted %d:\n%s" % (done.returncode, code, text)
    for pattern in patterns:
        assert pattern in text, "no %r in:\n%s" % (pattern, text)


def test_version_and_help():
    expect(run(["-V"]), 0, "whitecap")
    expect(run(["--version"]), 0, "whitecap")
    for help_option in ("-h", "--help"):
        done = run([help_option])
        expect(done, 0)
        for word in ("-c", "-t", "-T", "-o", "-V", "-h", "-j", "-p", "stats", "top", "reload", "stop", "upgrade", "reopen"):
            assert "\n  %s" % word in done.stdout, word


def test_wrong_usage_is_64():
    for args in (["-x"], ["-c"], ["surplus"], ["-o"]):
        expect(run(args), 64)


def test_good_configuration_passes_the_test():
    expect(run(["-t", "-c", "{config}"], config()), 0)


def test_every_mistake_is_reported_in_one_run():
    broken = config(wrokers=3, limits={"body_size": "1x", "headers": -1}, timeouts={"keepalive": 1.5},
                    routes=[{"path": "/", "handler": "hello", "timout": "1s"}])
    done = run(["-t", "-c", "{config}"], broken)
    expect(done, 2, "{config}", "wrokers", "workers", "limits.body_size", "limits.headers",
           "timeouts.keepalive", "routes[0].timout", "timeout")
    # The same at start.
    expect(run(["-c", "{config}"], broken), 2, "wrokers", "routes[0].timout")


def test_ambiguous_json_is_refused():
    """B31."""
    good = json.dumps(config())
    for text in ['{"workers": 1, "workers": 2}', '{"limits": {"headers": 1, "headers": 2}}',
                 '{"log": {"path": "/tmp/a\\u0000b"}}', "[" * 100000, '{"limits": ' * 100000, good + "{}", good + " x",
                 "\ufeff" + good, "", "   ", "null", "[]", '{"workers": NaN}', "{} // no", '{"Workers": 1}',
                 good[:-1], '{"workers": 1.5}', '{"workers": 1e3}', '{"workers": 99999999999999999999}',
                 '{"workers": "1"}', '{"listen": 8080}', '{"routes": {}}', "{'workers': 1}", '{"workers": 1,}',
                 b'{"pidfile": "\xff\xfe"}', '{"limits": null}']:
        done = run(["-t", "-c", "{config}"], text=text)
        assert done.returncode == 2, (text[:60], done.returncode, done.stderr[-500:])
        assert "{config}" in done.stderr and len(done.stderr) < 20000, (text[:60], done.stderr[:500])


def test_syntax_errors_have_line_and_column():
    done = run(["-t", "-c", "{config}"], text='{\n  "workers": 1,\n  "listen" "x"\n}')
    expect(done, 2, "{config}:3:")


def test_unreadable_files_are_reported():
    expect(run(["-t", "-c", "/nonexistent/whitecap.json"]), 2, "/nonexistent/whitecap.json")
    expect(run(["-t", "-c", "/"]), 2)


def test_dump_is_valid_input_and_gives_the_same():
    first = run(["-T", "-c", "{config}", "-o", "limits.body_size=2m"], config())
    expect(first, 0)
    parsed = json.loads(first.stdout)
    assert parsed["limits"]["body_size"] in ("2m", 2097152), parsed["limits"]
    second = run(["-T", "-c", "{config}"], text=first.stdout)
    expect(second, 0)
    assert second.stdout == first.stdout
    assert json.loads(run(["-T"]).stdout)["listen"], "the defaults without -c"


def test_overrides():
    with Server(args=["-o", "workers=2", "-o", "limits.body_size=5"]) as s:
        assert len(s.workers()) == 2
        with s.client() as c:
            assert c.post("/echo", b"123456").status == 413
    expect(run(["-t", "-c", "{config}", "-o", "limits.bdy_size=5"], config()), 2, "bdy_size", "body_size")
    expect(run(["-t", "-c", "{config}", "-o", "workers=many"], config()), 2, "workers")


def test_comment_keys_are_allowed():
    expect(run(["-t", "-c", "{config}"], config(**{"// note": "a comment", "limits": {"//": ["anything"]}})), 0)


def test_address_in_use_is_exit_code_3():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        address = "127.0.0.1:%d" % s.getsockname()[1]
        expect(run(["-c", "{config}"], config(listen=[address])), 3, address)
    expect(run(["-c", "{config}"], config(listen=["192.0.2.77:80"])), 3, "192.0.2.77:80")


def test_bad_handlers_are_exit_code_2_at_test_and_start():
    folder = tempfile.mkdtemp(prefix="whitecap-it-")
    text = os.path.join(folder, "text.so")
    empty = os.path.join(folder, "empty.so")
    with open(text, "w") as f:
        f.write("not a shared object\n" * 100)
    open(empty, "w").close()
    bad = [
        ("nosuch", ["nosuch"]),
        ("/nonexistent/handler.so", ["/nonexistent/handler.so"]),
        (text, [text]),
        (empty, [empty]),
        (folder + "/", []),
        (build.compile_shared("bad_abi.c", "bad_abi"), ["%d" % (1 + 1000), "1"]),
        (build.compile_shared("no_descriptor.c", "no_descriptor"), ["wc_handler_descriptor"]),
        (build.compile_shared("no_handle.c", "no_handle"), ["handle"]),
        (build.compile_shared("missing_symbol.c", "missing_symbol"), ["nobody_has_this"]),
    ]
    try:
        for handler, words in bad:
            broken = config(routes=[{"path": "/", "handler": handler}])
            for args in (["-t", "-c", "{config}"], ["-c", "{config}"]):
                done = run(args, broken)
                expect(done, 2, "routes[0]", *words)
    finally:
        os.remove(text)
        os.remove(empty)
        os.rmdir(folder)


def test_failing_init_is_exit_code_2_at_test_and_start():
    for how, words in (("fail", ["routes[1]", "told to fail"]), ("crash", ["routes[1]", "SIGSEGV"]), ("abort", ["routes[1]", "SIGABRT"]),
                       ("exit", ["exit code 7"])):
        broken = config(routes=[{"path": "/fine", "handler": "hello"}, kit_route("/", "ok", init=how)])
        for args in (["-t", "-c", "{config}"], ["-c", "{config}"]):
            expect(run(args, broken), 2, *words)
    expect(run(["-t", "-c", "{config}"], config(routes=[kit_route("/", "no such action")])), 2, "routes[0]")


def test_logs_that_cannot_be_opened_are_seen_by_the_test_too():
    for change in ({"log": {"path": "/nonexistent/x"}}, {"access_log": {"path": "/nonexistent/x"}}):
        expect(run(["-t", "-c", "{config}"], config(**change)), 2, "log.path: /nonexistent/x")


def test_hanging_init_ends_at_the_start_deadline():
    broken = config(routes=[kit_route("/", "ok", init="hang")], timeouts={"start": "300ms"})
    for args in (["-t", "-c", "{config}"], ["-c", "{config}"]):
        done = run(args, broken)
        expect(done, 2)
        assert done.seconds < 10, done.seconds


def test_one_bad_handler_does_not_hide_another():
    broken = config(routes=[{"path": "/a", "handler": "nosuch1"}, {"path": "/b", "handler": "nosuch2"}])
    expect(run(["-t", "-c", "{config}"], broken), 2, "nosuch1", "nosuch2")


def test_two_routes_of_one_path_are_refused():
    expect(run(["-t", "-c", "{config}"], config(routes=[{"path": "/", "handler": "hello"},
                                                        {"path": "/", "handler": "echo"}])), 2, "routes[1]")


def test_the_test_binds_nothing():
    """-t beside a running server."""
    with Server({"routes": [{"path": "/", "handler": version_handler("v1")}]}) as s:
        expect(run(["-t", "-c", "{config}"], dict(s.config, listen=[s.address])), 0)
        assert s.get().text == "v1"


def test_keys_without_effect_warn():
    done = run(["-t", "-c", "{config}"], config(listen=[{"address": "unix:here", "arrival_clock": "kernel"}]))
    expect(done, 0, "listen[0].arrival_clock: set, but has no effect on a unix socket")
