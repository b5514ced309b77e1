"""`opta demo`: a real job on a small real project, with a scripted model in place of a real one."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from agent import session
from agent.app import Options, build_chat
from agent.chat import Chat
from agent.errors import DONE, FAILED, INTERRUPTED, UserError
from agent.events import TurnEnd
from agent.interactive import Port, show
from agent.project import trust_in
from agent.ui.wrap import columns_of, wrap
from tools.engine.process import settle

HERE = Path(__file__).parent
TASK = "One of this project's tests fails. Find out why and fix it."

INTRODUCTION = """\
A small project with a failing test was made in {directory}.
It brings a tool of its own, .opta/tools/run_tests.json. The model is a script ({script});
the loop, the tools, the files, the tests and the permission questions are real.

"""

CONCLUSION = """\
That was the whole job: read, search, edit, test. To work with a real model:

  OpenAI:  export OPENAI_API_KEY=…    and then: opta --model gpt-4o
  Ollama:  opta --base-url http://localhost:11434/v1 --model qwen3

docs/models.md has settings for OpenAI, Ollama, vLLM, llama.cpp and OpenRouter.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--yes", action="store_true", help="answer the permission questions with yes"
    )
    parser.add_argument("--keep", action="store_true", help="keep the project to look at it")


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Play the demo; return the exit code. Raises UserError."""
    base = Path(tempfile.mkdtemp(prefix="opta-demo-"))
    root = base.resolve() / "slugs"
    try:
        shutil.copytree(HERE / "project", root, ignore=shutil.ignore_patterns("__pycache__"))
        text = INTRODUCTION.format(directory=root, script=HERE / "script.yml")
        out.write(_wrapped(text, out))
        out.flush()
        end = asyncio.run(_play(root, arguments, out))
        text = CONCLUSION if end is TurnEnd.DONE else "The demo ended early."
        out.write(_wrapped(f"\n{text}\n", out))
    except OSError as error:
        raise UserError(f"the demo cannot be set up in {root}: {error}") from None
    finally:
        if arguments.keep:
            out.write(f"The project is in {root}\n")
        else:
            shutil.rmtree(base, ignore_errors=True)
    codes = {TurnEnd.DONE: DONE, TurnEnd.CANCELLED: INTERRUPTED, None: INTERRUPTED}
    return codes.get(end, FAILED)


def _wrapped(text: str, out: TextIO) -> str:
    return "\n".join(wrap(text, columns_of(out), words=True))


async def _play(root: Path, arguments: argparse.Namespace, out: TextIO) -> TurnEnd | None:
    options = Options(
        {"model": f"script:{HERE / 'script.yml'}", "mode": "ask"}, arguments.version_text
    )
    if arguments.yes or not (sys.stdin.isatty() and out.isatty()):
        return await _print_it(root, options, out, arguments.yes)
    return await _show_it(root, options)


async def _print_it(root: Path, options: Options, out: TextIO, yes: bool) -> TurnEnd | None:
    from agent.ui.plain import PlainFrontEnd

    front_end = PlainFrontEnd(out, "--yes" if yes else "there is no terminal to ask in")
    chat = build_chat(trust_in(root, given=True), options, approver=front_end)
    chat.show_on(front_end.emit)
    try:
        await chat.say(TASK)
    finally:
        await chat.aclose()
        await settle()
    _forget(chat)
    return _end(chat)


async def _show_it(root: Path, options: Options) -> TurnEnd | None:
    from agent.ui.repl import Repl

    port = _OneTurn(root, "script")
    repl = Repl(
        root=root,
        warm_up=port.opener(
            lambda: build_chat(trust_in(root, given=True), options, approver=repl),
            lambda chat: chat.show_on(repl.emit),
        ),
    )
    await show(repl, port, TASK)
    if port.chat is None:
        return None
    _forget(port.chat)
    return _end(port.chat)


def _forget(chat: Chat) -> None:
    """Remove the record: the project is gone after the demo, there is nothing to go on with."""
    if chat.session.journal.recorded:
        session.delete(chat.session.journal.path)


def _end(chat: Chat) -> TurnEnd | None:
    return chat.last_outcome.end if chat.last_outcome else None


class _OneTurn(Port):
    """The chat for the terminal, which leaves it after the first turn."""

    async def submit(self, text: str, waiting: Callable[[], Sequence[str]]) -> None:
        """Run the turn."""
        await super().submit(text, waiting)
        self.repl.leave()

    def goodbye(self) -> str:
        """Nothing: the project does not outlive the demo."""
        return ""
