"""`opta -p`: one job without a person, and an exit code that says how it went."""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from dataclasses import dataclass

from agent import streams
from agent.app import Options, build_chat
from agent.chat import Chat, start_sources
from agent.errors import DONE, FAILED, INTERRUPTED, LIMIT, NEEDS_PERMISSION, USAGE, UserError
from agent.events import Level, TurnEnd
from agent.loop import TurnOutcome
from agent.project import ProjectTrust, project_root, trust_in
from agent.signals import cancel_on_signals
from agent.ui.batch import (
    BatchFrontEnd,
    JsonFrontEnd,
    Progress,
    StreamJsonFrontEnd,
    Summary,
    TextFrontEnd,
)
from tools.clock import elapsed_ms
from tools.engine.process import settle

MAX_PROMPT_BYTES = 4 * 1024 * 1024
"""About a million tokens: more than any model takes."""

SILENCE_S = 2.0
"""How long standard input is waited for without a word."""


def run(arguments: argparse.Namespace) -> int:
    """Do the job that the command line asks for; return the exit code. Raises UserError."""
    prompt = _prompt(arguments.print)
    front_end = _front_end(arguments.output_format)
    root = project_root(arguments.directory)
    options = Options.of(arguments)
    trust = trust_in(root, given=arguments.trust, remembered=False)
    chat = build_chat(trust, options)
    chat.show_on(front_end.emit)
    _reopen(chat, arguments)
    tell_trust(chat, trust, given=arguments.trust)
    job = _Job(chat, prompt, front_end)
    return asyncio.run(job.run())


def tell_trust(chat: Chat, trust: ProjectTrust, *, given: bool) -> None:
    """Say that the project is not trusted, where that makes a difference."""
    if not given and trust.report.anything:
        chat.notice(
            "this directory is not trusted: its own tools, settings and AGENTS.md are not used; "
            "--trust uses them for this run",
            Level.WARNING,
        )


@dataclass(slots=True)
class _Job:
    chat: Chat
    prompt: str
    front_end: BatchFrontEnd

    async def run(self) -> int:
        started = time.monotonic()
        start_sources(self.chat)
        turn = asyncio.ensure_future(self.chat.say(self.prompt))
        cancel_on_signals(turn)
        try:
            outcome = await _outcome(turn)
            if self.chat.team is not None:
                # What its source said meanwhile: there is no next turn to tell it before.
                self.chat.tell_problems()
            duration_ms = elapsed_ms(started)
            code = _exit_code(outcome, self.chat.gate.unanswered)
            self._finish(self._summary(outcome, code, duration_ms))
        finally:
            await self.chat.aclose()
            await settle()
        return code

    def _finish(self, summary: Summary) -> None:
        try:
            self.front_end.finish(summary)
        except streams.OutputError as error:
            kept = self.chat.session.journal.recorded
            way = f" The answer is kept: opta sessions show {summary.session_id}" if kept else ""
            raise streams.OutputError(f"{error}{way}") from None

    def _summary(self, outcome: TurnOutcome, code: int, duration_ms: int) -> Summary:
        usage = self.chat.conversation.usage
        return Summary(
            text=outcome.text,
            end=outcome.end,
            exit_code=code,
            session_id=self.chat.session.id,
            model=self.chat.model_name,
            requests=usage.requests,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cached_tokens=usage.cached,
            cost_usd=self.chat.prices.cost_usd(usage),
            duration_ms=duration_ms,
            denied=self.chat.gate.unanswered,
            error=outcome.detail,
            next_step=outcome.next_step,
            way_back=self.chat.goodbye(),
        )


async def _outcome(turn: asyncio.Future[TurnOutcome]) -> TurnOutcome:
    try:
        return await turn
    except asyncio.CancelledError:
        return TurnOutcome(TurnEnd.CANCELLED, detail="interrupted")


def _exit_code(outcome: TurnOutcome, unanswered: int) -> int:
    if outcome.unusable:
        return USAGE
    codes = {
        TurnEnd.FAILED: FAILED,
        TurnEnd.LIMIT: LIMIT,
        TurnEnd.CANCELLED: INTERRUPTED,
        TurnEnd.REFUSED: NEEDS_PERMISSION,
    }
    return codes.get(outcome.end) or (NEEDS_PERMISSION if unanswered else DONE)


def _front_end(output_format: str) -> BatchFrontEnd:
    progress = Progress(sys.stderr)
    match output_format:
        case "json":
            return JsonFrontEnd(sys.stdout, progress)
        case "stream-json":
            return StreamJsonFrontEnd(sys.stdout)
        case _:
            return TextFrontEnd(sys.stdout, progress)


def _reopen(chat: Chat, arguments: argparse.Namespace) -> None:
    if arguments.continue_ or arguments.resume is not None:
        chat.open_session(arguments.resume or "")


def _prompt(given: str) -> str:
    piped = "" if sys.stdin is None or sys.stdin.isatty() else _standard_input()
    prompt = "\n\n".join(filter(None, [given, piped]))
    if not prompt.strip():
        raise UserError(
            "there is no prompt. Give one: opta -p 'what to do', or on standard input.", USAGE
        )
    return prompt


def _standard_input() -> str:
    hint = threading.Timer(
        SILENCE_S, streams.tell,
        ["waiting for standard input to end; without any, run opta with </dev/null"],
    )  # fmt: skip
    hint.daemon = True
    hint.start()
    try:
        data = sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1)
    finally:
        hint.cancel()
    if len(data) > MAX_PROMPT_BYTES:
        raise UserError(
            f"standard input holds more than {MAX_PROMPT_BYTES // 2**20} MiB, more than a model "
            "takes. Put it in a file and name the file in the prompt.",
            USAGE,
        )
    try:
        return data.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise UserError(
            f"standard input is not UTF-8 text (byte {error.start}). Convert it, or put it in a "
            "file and name the file in the prompt.",
            USAGE,
        ) from None
