# SPDX-License-Identifier: MIT
"""Core files: where the kernel leaves them, and what they say of the fault."""
import glob
import os
import platform
import struct

from .build import Skip

PATTERN = "/proc/sys/kernel/core_pattern"
PT_NOTE, NT_PRSTATUS, NT_SIGINFO = 4, 1, 0x53494749
# In struct elf_prstatus of x86-64: the registers, and which of them is the instruction pointer.
REGISTERS, RIP = 112, 16


def wrap():
    """Words before a command whose processes shall leave core files in its folder; Skip where they do not."""
    with open(PATTERN, encoding="utf-8") as f:
        pattern = f.read().strip()
    if not pattern or pattern[0] in "|/@":
        raise Skip("needs a kernel.core_pattern that is a plain name, and it is %r" % pattern)
    return ["prlimit", "--core=unlimited"]


def find(folder):
    return [path for path in glob.glob(os.path.join(folder, "*")) if is_core(path)]


def is_core(path):
    with open(path, "rb") as f:
        head = f.read(18)
    return head[:4] == b"\x7fELF" and head[16:18] == b"\x04\x00"


def notes(path):
    """(type, contents), in their order; the first thread's are those of the one that faulted.  64 bits only."""
    with open(path, "rb") as f:
        data = f.read()
    offset, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for n in range(count):
        kind, _, at, _, _, length = struct.unpack_from("<IIQQQQ", data, offset + n * size)
        end = at + length
        while kind == PT_NOTE and at < end:
            name, length, what = struct.unpack_from("<III", data, at)
            at += 12 + (name + 3) // 4 * 4
            yield what, data[at:at + length]
            at += (length + 3) // 4 * 4


def fault(path):
    """(signal, si_code, si_addr, instruction pointer); the last is None on machines not known here."""
    found = {}
    for what, contents in notes(path):
        found.setdefault(what, contents)
    number, _, code, _, address = struct.unpack_from("<iiiiQ", found[NT_SIGINFO])
    rip = None
    if platform.machine() == "x86_64":
        rip, = struct.unpack_from("<Q", found[NT_PRSTATUS], REGISTERS + 8 * RIP)
    return number, code, address, rip
