# SPDX-License-Identifier: MIT
"""Integration tests of whitecap: the real binary, driven by Python's standard library alone."""
from .build import Skip, needs_plain, needs_program, needs_root, sanitized, version_handler
from .client import Client, Response, connect, get, post, refused, request, rules
from .proc import Timeout, pause, wait_until
from .server import Server, hello_and, kit_route, run
