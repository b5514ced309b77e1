"""A filter for system calls (classic BPF), for what neither mounts nor Landlock keep out.

Refused calls fail with EPERM. A 32-bit program has other numbers and gets no call through.
"""

from __future__ import annotations

import platform
import struct

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_HAS_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K

_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | 1  # SECCOMP_RET_ERRNO | EPERM
_UNKNOWN = 0x00050000 | 38  # SECCOMP_RET_ERRNO | ENOSYS
_KILL = 0x80000000

_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in struct seccomp_data; of arguments the lower half (little endian)."""

_X32 = 0x40000000
_AF_UNIX = 1
_CLONE_THREAD = 0x10000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

_CALLS = {
    # name: (x86_64, aarch64)
    "ioctl": (16, 29), "socket": (41, 198),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "kexec_load": (246, 104), "open_by_handle_at": (304, 265),
    "clone": (56, 220), "clone3": (435, 435),
}  # fmt: skip

_ALWAYS = (
    "add_key", "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd", "kexec_load",
    "open_by_handle_at", "io_uring_setup", "io_uring_enter", "io_uring_register",
)  # fmt: skip
"""Ways around the walls: keys of the session, kernel interfaces, a ring that makes sockets."""

_WITHOUT_NAMESPACES = ("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd")
"""What a process namespace would keep to its own processes."""


def supported() -> bool:
    """Tell whether there is a filter for this machine."""
    return platform.machine() in _ARCHITECTURES


_FORKS = {0: (57, 58), 1: ()}
"""fork and vfork, which arm64 does not have, by column."""


def program(*, namespaces: bool, network: bool, alone: bool = False) -> bytes:
    """Return the filter as an array of struct sock_filter.

    `namespaces` says that mounts, processes and the network are already apart. Without them no
    socket can be made at all, and with `network` none of a kind that reaches programs of this
    machine by name (AF_UNIX). `alone` lets a process start threads and no other process. Raises
    KeyError where `supported` is false.
    """
    architecture, column = _ARCHITECTURES[platform.machine()]
    code = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)]
    code.append((_LOAD, 0, 0, _NUMBER))
    if column == 0:
        code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    refused = _ALWAYS if namespaces else (*_ALWAYS, *_WITHOUT_NAMESPACES)
    for name in refused:
        code += _answered(_CALLS[name][column], _REFUSE)
    code += _by_argument(_CALLS["ioctl"][column], _SECOND, (_TIOCSTI, _TIOCLINUX))
    if not namespaces:
        socket = _CALLS["socket"][column]
        if network:
            code += _by_argument(socket, _FIRST, (_AF_UNIX,))
        else:
            code += _answered(socket, _REFUSE)
    if alone:
        code += _threads_only(column)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _threads_only(column: int) -> list[tuple[int, int, int, int]]:
    """Refuse to make processes; libraries go on with clone where there is no clone3."""
    forks = [part for fork in _FORKS[column] for part in _answered(fork, _REFUSE)]
    threads = [(_LOAD, 0, 0, _FIRST), (_HAS_BIT, 1, 0, _CLONE_THREAD), (_RETURN, 0, 0, _REFUSE)]
    inner = [*threads, (_LOAD, 0, 0, _NUMBER)]
    clone3 = _answered(_CALLS["clone3"][column], _UNKNOWN)
    return [*forks, *clone3, (_EQUAL, 0, len(inner), _CALLS["clone"][column]), *inner]


def _answered(number: int, answer: int) -> list[tuple[int, int, int, int]]:
    return [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, answer)]


def _by_argument(
    number: int, offset: int, values: tuple[int, ...]
) -> list[tuple[int, int, int, int]]:
    """Refuse one call where its argument is one of `values`; then the number is loaded again."""
    tests = [part for value in values for part in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _REFUSE))]
    inner = [(_LOAD, 0, 0, offset), *tests, (_LOAD, 0, 0, _NUMBER)]
    return [(_EQUAL, 0, len(inner), number), *inner]
