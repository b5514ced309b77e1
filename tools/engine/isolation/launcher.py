"""Confines itself with Landlock and seccomp, then becomes the program it was given.

It runs in an interpreter of its own (see `landlock.argv`), so that nothing happens between fork
and exec of opta itself, and imports nothing of opta. The descriptor holds what `landlock.encode`
wrote. Exit code 126 with a line on stderr where a wall cannot be put up: the program is not
started then.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys

# What this costs, every command pays: typing takes longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446

_FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
"""Execute, write, read, truncate, device control: all that a rule for a file may name."""

_KNOWN_SINCE = ((1, 13), (2, 14), (3, 15), (5, 16))
"""ABI version and how many of the file rights it knows."""

_NET_RIGHTS = 0b11  # bind and connect TCP: ABI 4
_SCOPES = 0b11  # abstract sockets, signals: ABI 6

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_PR_CAPBSET_READ, _PR_CAPBSET_DROP = 23, 24
_PR_CAP_AMBIENT, _CLEAR_ALL = 47, 4
_CAP_DAC_OVERRIDE = 1
_CAPABILITIES = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def main() -> NoReturn:
    """Put up the walls and run the program: the arguments are a descriptor and its words."""
    descriptor, program = int(sys.argv[1]), sys.argv[2:]
    try:
        with open(descriptor, "rb") as file:
            network, rules, filter_ = _decode(file.read())
        _prctl("no_new_privs", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if os.geteuid() == 0:
            _drop_capabilities()
        _restrict_files(rules, network)
        _install(filter_)
    except OSError as error:
        _fail(f"cannot confine the command: {error}", 126)
    try:
        os.execvp(program[0], program)
    except OSError as error:
        _fail(f"cannot start {program[0]!r}: {error.strerror}", 127)


def abi() -> int:
    """Return the version of Landlock that the kernel has, 0 for none."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, 0, 1)))


def _decode(data: bytes) -> tuple[bool, list[tuple[int, bytes]], bytes]:
    network, size = struct.unpack_from("=BI", data)
    start = struct.calcsize("=BI")
    rules = []
    for entry in data[start + size :].split(b"\0")[:-1]:
        rights, _, path = entry.partition(b" ")
        rules.append((int(rights), path))
    return bool(network), rules, data[start : start + size]


def _restrict_files(rules: list[tuple[int, bytes]], network: bool) -> None:
    version = abi()
    if version < 1:
        raise OSError("this kernel has no Landlock")
    handled = (1 << max(count for since, count in _KNOWN_SINCE if version >= since)) - 1
    attributes = [handled]
    if version >= 4:
        attributes.append(0 if network else _NET_RIGHTS)
    if version >= 6:
        attributes.append(_SCOPES)
    packed = struct.pack(f"={len(attributes)}Q", *attributes)
    ruleset = _call("make a ruleset", _CREATE_RULESET, packed, len(packed), 0)
    for rights, path in rules:
        _add_rule(ruleset, rights & handled, path)
    _call("restrict itself", _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _add_rule(ruleset: int, rights: int, path: bytes) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        # Gone since the rules were made: no rule means no access.
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _FILE_RIGHTS
        if rights:
            rule = struct.pack("=Qi", rights, place)
            _call(f"allow {os.fsdecode(path)}", _ADD_RULE, ruleset, 1, rule, 0)
    finally:
        os.close(place)


def _drop_capabilities() -> None:
    """Keep none but the one that lets root write what others own; the walls hold for it too."""
    _prctl("ambient capabilities", _PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    for capability in range(64):
        present = _libc.prctl(_PR_CAPBSET_READ, capability, 0, 0, 0)
        if present < 0:
            break
        if present and capability != _CAP_DAC_OVERRIDE:
            _prctl("bounding set", _PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = struct.pack("=Ii", _CAPABILITIES, 0)
    held = ctypes.create_string_buffer(24)
    if _libc.capget(header, held) != 0:
        raise _error("read capabilities")
    permitted = struct.unpack("=6I", held.raw)[1] & (1 << _CAP_DAC_OVERRIDE)
    wanted = struct.pack("=6I", permitted, permitted, 0, 0, 0, 0)
    if _libc.capset(header, wanted) != 0:
        raise _error("drop capabilities")


def _install(filter_: bytes) -> None:
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    program = Program(len(filter_) // 8, filter_)
    if _libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) != 0:
        raise _error("install the system call filter")


def _prctl(what: str, *arguments: int) -> None:
    if _libc.prctl(*map(ctypes.c_ulong, arguments)) != 0:
        raise _error(what)


def _call(what: str, *arguments: object) -> int:
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(_libc.syscall(*given))
    if result < 0:
        raise _error(what)
    return result


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def _fail(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"opta: {message}\n")
    sys.stderr.flush()
    os._exit(code)
