"""Standard streams as opta needs them: there, in UTF-8, failing with one message."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO, cast

from agent.errors import UserError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputError(UserError):
    """Standard output takes nothing more."""


class _Bytes(io.BufferedWriter):
    """The bytes of standard output; its failures are `OutputError`.

    A reader that left is BrokenPipeError. What is written as text comes through here too.
    """

    def write(self, data: ReadableBuffer) -> int:
        """Write as any binary file."""
        try:
            return super().write(data)
        except OSError as error:
            raise _told(error) from None

    def flush(self) -> None:
        """Flush as any binary file."""
        try:
            super().flush()
        except OSError as error:
            raise _told(error) from None


def prepare() -> None:
    """Make the standard streams usable, whatever the program was started with.

    A closed one is opened on the null device first: otherwise the next file that is opened would
    take its number, and be read or written in its place. Standard output stays unwritable then.
    """
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        _open_if_closed(descriptor, flags)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=_encoding(stream), errors=errors)
    out = sys.stdout
    if type(out) is io.TextIOWrapper and not isinstance(out.buffer, _Bytes):
        encoding, handling, line_buffering = out.encoding, out.errors, out.line_buffering
        taken = _Bytes(_raw(out))
        sys.stdout = io.TextIOWrapper(taken, encoding, handling, line_buffering=line_buffering)


def silence_stdout() -> None:
    """Let what is still unwritten go nowhere, so that the interpreter's exit has nothing to say."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def tell(message: str) -> None:
    """Write one message to standard error, where that is possible.

    It may repeat what files and arguments say: nothing in it acts on a terminal (R36), and the
    secrets that are known, and logins in addresses, are left out (R39).
    """
    from agent import log
    from tools.engine.output import visible

    text = visible(log.shown(message))
    with suppress(OSError, ValueError):
        sys.stderr.write(f"opta: {text}\n")
        sys.stderr.flush()


def write_json(out: TextIO, value: object) -> None:
    """Write a value for programs, safe to look at in a terminal (R36)."""
    from tools.engine.output import json_text

    out.write(f"{json_text(value, indent=2)}\n")


def confirm(question: str) -> bool | None:
    """Ask the person yes or no; return None where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _raw(stream: io.TextIOWrapper) -> io.RawIOBase:
    """Take the unbuffered stream out of `stream`, which `python -u` has made of nothing else."""
    buffer = stream.detach()
    return buffer.detach() if isinstance(buffer, io.BufferedWriter) else cast(io.RawIOBase, buffer)


def _open_if_closed(descriptor: int, flags: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, flags)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)
        os.set_inheritable(descriptor, True)


def _encoding(stream: io.TextIOWrapper) -> str:
    """A terminal's own encoding where it has one; what is piped is UTF-8 in every locale."""
    plain = codecs.lookup(stream.encoding).name == "ascii"
    return "utf-8" if plain or not stream.isatty() else stream.encoding


def _told(error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):
        return error
    reason = "it is closed" if error.errno == errno.EBADF else (error.strerror or str(error))
    return OutputError(f"cannot write to standard output: {reason.lower()}.")
