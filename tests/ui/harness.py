"""Runs a real Repl with a scripted conversation behind it: what is typed names what happens.

Started by tests in a terminal: `python tests/ui/harness.py [first message]`.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agent.events import (
    AssistantFinished,
    Level,
    Notice,
    RequestStarted,
    RetryScheduled,
    TurnEnd,
    TurnFinished,
    TurnStarted,
)
from agent.messages import AssistantMessage, UserMessage
from agent.model.base import ReasoningDelta, TextDelta
from agent.ui.menu import Option
from agent.ui.port import Signals, StatusLine
from agent.ui.repl import Repl
from tools.actions import BuiltinAction
from tools.definition import (
    CommandDisplay,
    DiffDisplay,
    Display,
    Invocation,
    Origin,
    Outcome,
    ResolvedCall,
    Risk,
    Source,
    TextDisplay,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from tools.events import CallFinished, CallOutput, CallStarted
from tools.permissions.question import PermissionRequest
from tools.permissions.rules import Rule, Verdict
from tools.storage import state_dir

ANSWER = (
    "# Plan\n\nFirst I **read** the file, then I change it. [red]not markup[/red]\n\n"
    "- one\n- two\n\n```python\ndef f():\n    return 1\n```\n\nDone, `ok`."
)
HOSTILE = (
    "\x1b[2J\x1b[1;1Hgone\x1b]52;c;aGk=\x07\x1b]0;title\x07" + " " * 10_000 + "\rrm\x9b5A\x1bc"
)
TOOL = ToolDefinition(
    "run_command", "Runs a command.", {"type": "object"}, BuiltinAction("run_command"),
    Origin(Source.BUILTIN, "python"), risk=Risk.HIGH,
)  # fmt: skip


async def _never(grant: object, progress: object) -> ToolResult:
    raise NotImplementedError


def request(number: int, preview: Display, *, rule: str = "run_command(npm test:*)"):
    call = ResolvedCall(f"call-{number}", TOOL, {})
    warnings = ("it also deletes files",) if number % 2 else ()
    title = "Edit src/a.py" if isinstance(preview, DiffDisplay) else "run_command npm test"
    invocation = Invocation(title, (), preview, _never, warnings)
    rules = (Rule(Verdict.ALLOW, rule, "answer"),)
    return PermissionRequest(call, invocation, Risk.HIGH, "no rule allows it", rules)


class Conversation:
    """Stands for everything behind the front end."""

    def __init__(self, repl: Repl) -> None:
        self.repl = repl
        self.modes = itertools.cycle(["accept-edits", "plan", "ask"])
        self.mode = "ask"
        self.numbers = itertools.count(1)

    def status(self) -> StatusLine:
        return StatusLine("gpt-x", self.mode, 12_345, 128_000, 0.12)

    def signals(self) -> Signals:
        return Signals()

    def cycle_mode(self) -> None:
        self.mode = next(self.modes)

    def commands(self) -> Sequence[tuple[str, str]]:
        more = [(f"more{number}", f"help {number}") for number in range(7)]
        return [
            ("help", "list the commands"), ("tools", "show the tools"), *more, ("exit", "leave"),
        ]  # fmt: skip

    def references(self) -> Sequence[tuple[str, str]]:
        return []

    def following(self, name: str, before: Sequence[str]) -> Sequence[tuple[str, str]]:
        return [("info", "about one"), ("list", "all")] if name == "tools" and not before else []

    def goodbye(self) -> str:
        return "Resume with: opta --resume 42"

    async def submit(self, text: str, waiting: Callable[[], Sequence[str]]) -> None:
        if text.startswith("/"):
            await self.command(text)
            return
        self.repl.emit(TurnStarted(UserMessage(text)))
        self.repl.emit(RequestStarted(1))
        name, _, argument = text.partition(" ")
        try:
            await getattr(self, f"do_{name}")(argument)
        except asyncio.CancelledError:
            self.repl.emit(TurnFinished(TurnEnd.CANCELLED))
            raise
        self.repl.emit(TurnFinished(TurnEnd.DONE, duration_ms=10))

    async def command(self, text: str) -> None:
        if text == "/exit":
            self.repl.leave()
        elif text == "/tools":
            self.repl.show("name   tokens\n" + "\n".join(f"tool{n}  {n}" for n in range(20)))
        elif text == "/resume":
            self.repl.emit(TurnStarted(UserMessage("an earlier question")))
            self.repl.emit(AssistantFinished(AssistantMessage("An *earlier* answer.")))
            self.repl.emit(TurnFinished(TurnEnd.DONE))
        elif text == "/pick":
            chosen = await self.repl.select(
                "Which session?", [Option(n, f"session {n}") for n in range(30)]
            )
            self.repl.show(f"picked {chosen}")
        else:
            self.repl.emit(Notice(f"There is no command {text}.", Level.WARNING))

    async def stream(self, text: str, size: int, pause_s: float) -> None:
        for start in range(0, len(text), size):
            self.repl.emit(TextDelta(text[start : start + size]))
            await asyncio.sleep(pause_s)
        self.repl.emit(AssistantFinished(AssistantMessage(text)))

    async def do_say(self, argument: str) -> None:
        await self.stream(argument or ANSWER, 4, 0.002)

    async def do_slow(self, argument: str) -> None:
        await self.stream("word " * 10_000, 5, 0.02)

    async def do_bench(self, argument: str) -> None:
        """Stream so many pieces of four characters at 200 a second, then leave."""
        text = (
            ANSWER.replace("\n\nDone", "\n\n" + "Some more prose here. " * 12 + "\n\nDone") + "\n\n"
        ) * 999
        loop = asyncio.get_running_loop()
        started = loop.time()
        for number in range(int(argument)):
            self.repl.emit(TextDelta(text[4 * number : 4 * number + 4]))
            await asyncio.sleep(max(started + number / 200 - loop.time(), 0))
        self.repl.leave()

    async def do_wait(self, argument: str) -> None:
        await asyncio.sleep(3600)

    async def do_retry(self, argument: str) -> None:
        self.repl.emit(TextDelta("half an answer"))
        self.repl.emit(RetryScheduled("The server said 503.", 30.0, 1))
        await asyncio.sleep(30)

    async def do_fail(self, argument: str) -> None:
        raise RuntimeError("it broke")

    async def do_stubborn(self, argument: str) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(1.0)

    async def do_tool(self, argument: str) -> None:
        call = ToolCall("t1", "run_command", "{}")
        self.repl.emit(CallStarted(call, "run_command make"))
        for number in range(int(argument or 3)):
            self.repl.emit(CallOutput("t1", f"output line {number}\n"))
            await asyncio.sleep(0.05)
        shown = TextDisplay("first\n[bold]second[/bold]\n\x1b[31mthird")
        result = ToolResult("x", display=shown, duration_ms=1234)
        self.repl.emit(CallFinished(call, "run_command make", result))

    async def do_hold(self, argument: str) -> None:
        call = ToolCall("t1", "run_command", "{}")
        self.repl.emit(CallStarted(call, "run_command sleep"))
        await asyncio.sleep(3600)

    async def do_diff(self, argument: str) -> None:
        body = "".join(f"+line {number}\n" for number in range(int(argument or 5)))
        await self.approve(
            DiffDisplay("src/a.py", f"--- a\n+++ b\n@@ -1 +1 @@\n-old\n{body}"),
            rule=f"write_file({Path.cwd()}/src/a.py)",
        )  # fmt: skip

    async def do_ask(self, argument: str) -> None:
        await asyncio.sleep(float(argument or 0))
        await self.approve(CommandDisplay("npm test && \u202erm -rf build\x1b[2K", "/work/app"))

    async def do_hostile(self, argument: str) -> None:
        call = ToolCall("t9", "run_command", "{}")
        self.repl.emit(TextDelta(f"model {HOSTILE}\n\n"))
        self.repl.emit(CallStarted(call, f"run_command {HOSTILE}"))
        self.repl.emit(CallOutput("t9", HOSTILE))
        result = ToolResult("x", display=TextDisplay(HOSTILE), duration_ms=5)
        self.repl.emit(CallFinished(call, f"run_command {HOSTILE}", result))
        self.repl.emit(Notice(HOSTILE))
        await self.approve(CommandDisplay(f"echo start {HOSTILE} end", "/work/app"))

    async def do_refuse(self, argument: str) -> None:
        asked = request(next(self.numbers), CommandDisplay("npm test", "/work/app"))
        await self.repl.ask(asked)
        call = ToolCall(asked.call.id, "run_command", "{}")
        denied = ToolResult("Permission denied.", Outcome.DENIED)
        self.repl.emit(CallFinished(call, "run_command npm test", denied))

    async def do_think(self, argument: str) -> None:
        self.repl.emit(ReasoningDelta("I wonder about it"))
        await asyncio.sleep(float(argument))
        await self.stream("An answer.", 4, 0.0)

    async def approve(self, preview: Display, **options: str) -> None:
        answer = await self.repl.ask(request(next(self.numbers), preview, **options))
        self.repl.emit(Notice(f"answer: {answer.choice.value} {answer.feedback}".strip()))


async def main() -> int:
    repl = Repl(root=Path.cwd(), history=state_dir() / "history")
    return await repl.run(Conversation(repl), " ".join(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
