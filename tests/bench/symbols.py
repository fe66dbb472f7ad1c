# SPDX-License-Identifier: MIT
"""Names for code addresses.  A worker runs handlers from private copies in memory (memfd), in
which perf and valgrind find no symbols: they are those of the files that were copied."""
import bisect
import os
import re
import subprocess

from processes import read_file
from servers import handler_path

MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) .*/memfd:(.*)\.so", re.M)


def readable(function, thing):
    """Code without symbols goes under its file's name; copies made by the compiler are one."""
    if function.startswith("0x") or function in ("???", "[unknown]"):
        return f"in {os.path.basename(thing or '?')}"
    return re.sub(r"(\.(part|constprop|isra|cold)\.?\d*)+$|'\d+$", "", function)


class HandlerSymbols:
    """The handlers' code in one process."""

    def __init__(self, pid, build):
        self.mappings = []  # first address, address past the last, of the file's start, symbols
        for first, end, offset, name in MAPPING.findall(read_file(f"/proc/{pid}/maps")):
            first, end, offset = (int(number, 16) for number in (first, end, offset))
            self.mappings.append((first, end, first - offset, read_symbols(build, name)))

    def find(self, address):
        """The function's name; None outside the handlers."""
        for first, end, base, symbols in self.mappings:
            if first <= address < end:
                index = bisect.bisect(symbols, (address - base, "\uffff"))
                return symbols[index - 1][1] if index else None
        return None


def read_symbols(build, name):
    """Pairs of address and name, in order."""
    nm = subprocess.run(["nm", "--defined-only", handler_path(build, name)], text=True,
                        capture_output=True, check=False)
    fields = (line.split() for line in nm.stdout.splitlines())
    return sorted((int(address, 16), readable(symbol, name)) for address, kind, symbol in fields
                  if kind in "tT")
