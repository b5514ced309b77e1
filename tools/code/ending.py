"""What the model is told of a program's end: its result, or why there is none."""

from __future__ import annotations

import json

from tools.code.program import Program
from tools.definition import JsonObject, Outcome, TextDisplay, ToolResult
from tools.engine.capture import Captured
from tools.engine.masking import Masker
from tools.engine.output import bounded_text, for_model
from tools.engine.process import ProcessResult
from tools.record import record

_SIGKILL = 9
_AROUND_KILLED = 128 + _SIGKILL
"""The exit code of the walls around a program that was killed."""


@record
class Ending:
    """Makes the result of a call of `program`, which had `timeout_ms` and `memory_bytes`."""

    program: Program
    timeout_ms: int
    masker: Masker
    memory_bytes: int | None = None

    def result(self, answer: JsonObject | None, process: ProcessResult | None) -> ToolResult:
        """Return the result for the last frame, and for how the process ended, if it did."""
        if answer is not None and answer["type"] == "returned":
            return self._returned(answer.get("json"), process)
        if answer is not None and answer["type"] == "threw":
            message = str(answer.get("message"))
            place = self.program.place(f"{answer.get('trace')}\n{message}")
            return self._told(f"{place or self.program.shown}: {message}", process)
        if answer is not None:
            return self.failed(str(answer.get("message")), process)
        if process is not None and process.timed_out:
            text = f"[timed out after {self.timeout_ms} ms; the program was ended]"
            return self._told(text, process, Outcome.TIMED_OUT)
        return self.failed(f"the program ended without a result{self._code(process)}", process)

    def failed(self, reason: str, process: ProcessResult | None = None) -> ToolResult:
        """Return the result of a program that gave none that can be used (E58)."""
        place = "" if process is None else self.program.place(for_model(_printed(process)).text)
        text = f"Tool execution failed: {reason}"
        return self._told(f"{place}: {text}" if place else text, process)

    def _told(
        self, text: str, process: ProcessResult | None, outcome: Outcome = Outcome.ERROR
    ) -> ToolResult:
        """Return a failure, with what the program printed (E64)."""
        told = bounded_text(self.masker.text(text))
        if process is None:
            return ToolResult(told.text, outcome, full_output=told.full_output)
        printed = for_model(_printed(process))
        text = "\n".join(filter(None, (told.text, printed.text.rstrip("\n"))))
        return ToolResult(text, outcome, full_output=printed.full_output or told.full_output)

    def _returned(self, text: object, process: ProcessResult | None) -> ToolResult:
        """Return what the program returned; an object may be a whole result (E12).

        What it printed is for the person alone.
        """
        outcome = Outcome.OK
        try:
            value = json.loads(text) if isinstance(text, str) else None
            if isinstance(value, dict) and value.get("success") in (True, False):
                outcome = Outcome.OK if value["success"] else Outcome.ERROR
                parts = (value.get("output"), value.get("error"))
                value = "\n".join(as_text(part) for part in parts if part)
            shown = as_text(value)
        except (ValueError, RecursionError):
            return self.failed("its result is not JSON, or nested too deep")
        clipped = bounded_text(self.masker.text(shown))
        printed = "" if process is None else for_model(_printed(process)).text.rstrip("\n")
        display = TextDisplay("\n".join(filter(None, (printed, clipped.text))))
        text = clipped.text or "(no output)"
        return ToolResult(text, outcome, display, full_output=clipped.full_output)

    def _code(self, process: ProcessResult | None) -> str:
        if process is None:
            return ""
        code = f"code {process.exit_code}" if process.signal is None else process.signal_name
        killed = process.signal == _SIGKILL or process.exit_code == _AROUND_KILLED
        if not killed or self.memory_bytes is None:
            return f" ({code})"
        return f" ({code}: it was killed, as it is beyond {self.memory_bytes >> 20} MB of memory)"


def as_text(value: object) -> str:
    """Return a JSON value as text for the model: text as it is, null as nothing."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)


def _printed(process: ProcessResult) -> Captured:
    """Return what the program printed: nothing on standard output where the channel has that."""
    return process.stdout if process.stdout.total_bytes else process.stderr
