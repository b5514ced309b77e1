"""The process in which JavaScript is evaluated: it reads scripts on stdin, answers on stdout.

A native function of the engine, such as `join` of a huge array, looks at no clock and cannot be
stopped but with its process. Started by `tools.engine.javascript`, which knows the protocol:

    asked:     script length, data length, a newline, script, data (JSON); lengths in bytes
    answered:  `value` or `error`, length, a newline, text

Nothing of opta is imported here: the process must start fast, and holds nothing worth reading.
"""

from __future__ import annotations

import signal
import sys
from typing import Any


def main(path: str, memory: str, stack: str, seconds: str, give_up: str) -> None:
    """Answer until stdin ends. `path` is where the engine is installed; limits are numbers."""
    sys.path.append(path)
    import _quickjs as quickjs  # type: ignore[import-untyped,import-not-found,unused-ignore]

    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while header := requests.readline():
        script_length, data_length = map(int, header.split())
        script = requests.read(script_length).decode()
        data = requests.read(data_length).decode()
        _end_myself_after(float(give_up))
        context = quickjs.Context()
        context.set_memory_limit(int(memory))
        context.set_time_limit(float(seconds))
        context.set_max_stack_size(int(stack))
        kind, text = _evaluate(context, script, data, quickjs.JSException)
        _end_myself_after(0)
        body = text.encode("utf-8", "surrogatepass")
        answers.write(b"%s %d\n%s" % (kind, len(body), body))
        answers.flush()


def _evaluate(context: Any, script: str, data: str, failure: type[Exception]) -> tuple[bytes, str]:
    try:
        context.set("input", context.parse_json(data))
        return b"value", str(context.eval(script))
    except failure as error:
        return b"error", str(error)


def _end_myself_after(seconds: float) -> None:
    """Let the system end this process, whatever it does then, also when opta is gone; 0: do not."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
