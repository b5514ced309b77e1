"""`opta` in a terminal: asks for trust where needed, then opens the chat.

The prompt is painted before the chat behind it exists: settings, tools and the session are put
together in a thread while the person reads or types, and the first message waits for them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import DONE, UserError
from agent.events import Notice
from agent.ui.port import Signals, StatusLine
from agent.ui.repl import Repl
from tools import storage

if TYPE_CHECKING:
    from agent.chat import Chat
    from agent.project import ProjectTrust
    from tools.permissions.trust import Trust, TrustReport


def run(arguments: argparse.Namespace) -> int:
    """Open the chat; return the exit code. Raises UserError."""
    from agent.project import project_root, trust_in

    root = project_root(arguments.directory)
    trust = trust_in(root, given=arguments.trust, may_ask=True)
    return asyncio.run(_run(trust, arguments))


async def _run(trust: ProjectTrust, arguments: argparse.Namespace) -> int:
    root = trust.root
    port = Port(root, arguments.model or os.environ.get("OPTA_MODEL", ""))

    def build() -> Chat:
        from agent.app import Options, build_chat

        return build_chat(trust, Options.of(arguments), approver=repl, ask_trust=port.ask_trust)

    def opened(chat: Chat) -> None:
        if not first and not arguments.continue_ and not arguments.resume:
            repl.emit(Notice(_greeting(arguments.version_text, chat.model_name, root)))
        chat.show_on(repl.emit)
        chat.tell_problems()
        if arguments.continue_ or arguments.resume:
            chat.resume(arguments.resume or "")

    first = "/resume" if arguments.resume == "" else " ".join(arguments.prompt)
    repl = Repl(
        root=root, history=storage.state_dir() / "history", warm_up=port.opener(build, opened)
    )
    return await show(repl, port, first)


async def show(repl: Repl, port: Port, first: str) -> int:
    """Run the chat in the terminal until the person leaves; return the exit code."""
    port.repl = repl
    port.loop = asyncio.get_running_loop()
    try:
        code = await repl.run(port, first)
        if port.failure is not None:
            raise port.failure
        return code
    finally:
        if port.chat is not None:
            await port.chat.aclose()
        from tools.engine.process import settle

        await settle()


LEAVING = ("exit", "quit")
"""What leaves the chat without a slash, as it leaves a shell."""


OTHER_INSTRUCTIONS = (
    "CLAUDE.md", "GEMINI.md", ".cursorrules", ".windsurfrules", ".github/copilot-instructions.md",
)  # fmt: skip
"""Where other programs look for what `AGENTS.md` says here."""


class Port:
    """The chat as the terminal front end wants it, from before the chat exists."""

    repl: Repl
    loop: asyncio.AbstractEventLoop

    def __init__(self, root: Path, model: str) -> None:
        self.chat: Chat | None = None
        self.failure: BaseException | None = None
        self._root = root
        self._model = model
        self._ready = asyncio.Event()

    def opener(
        self, build: Callable[[], Chat], opened: Callable[[Chat], None]
    ) -> Callable[[], None]:
        """Return what builds the chat in a thread of its own and then opens it here."""

        def work() -> None:
            try:
                chat = build()
                # Read in this thread, so that the screen need not wait for many tool files.
                chat.registry.entries()
            except BaseException as error:
                self.loop.call_soon_threadsafe(self._fail, error)
            else:
                self.loop.call_soon_threadsafe(self._open, chat, opened)
                _import_for_first_answer()

        return work

    async def submit(self, text: str, waiting: Callable[[], Sequence[str]]) -> None:
        """Do what the person typed: a message, a slash command or a `!` command."""
        from agent.slash import LeaveChat, is_command

        chat = await self._opened()
        try:
            if text.strip() in LEAVING:
                self.repl.leave(DONE)
            elif text.startswith("!"):
                await chat.run_as_person(text[1:].strip())
            elif is_command(text):
                self.repl.show(await self._command(chat, text))
            else:
                await chat.say(text, waiting=lambda: takewhile(_is_message, waiting()))
        except LeaveChat:
            self.repl.leave(DONE)
        except UserError as error:
            self.repl.show(str(error))

    async def ask_trust(self, report: TrustReport, changed: str) -> Trust:
        """Show what of the project has changed and ask how far to trust that, too."""
        from agent.ui.ansi import Colour
        from agent.ui.trust import answers, describe
        from agent.ui.wrap import UNWRAPPED
        from tools.permissions.trust import Trust

        self.repl.show(describe(report, changed, UNWRAPPED, Colour.PLAIN))
        options = answers("go on without the project's tools and settings")
        return (
            await self.repl.select("Trust what has changed?", options, escape="no") or Trust.NOTHING
        )

    def status(self) -> StatusLine:
        """What the bottom line shows."""
        if self.chat is None:
            return StatusLine(model=self._model, mode="starting")
        return status_line(self.chat)

    def signals(self) -> Signals:
        """How the person wants to be told that they are waited for."""
        return Signals() if self.chat is None else self.chat.signals

    def cycle_mode(self) -> None:
        """Go to the next permission mode."""
        if self.chat is not None:
            self.chat.gate.next_mode()

    def commands(self) -> Sequence[tuple[str, str]]:
        """The slash commands."""
        from agent.mcp_chat import prompt_commands
        from agent.slash import offered

        prompts = [] if self.chat is None else prompt_commands(self.chat.servers)
        return offered() + prompts

    def references(self) -> Sequence[tuple[str, str]]:
        """What may follow an `@` beside files: resources of MCP servers."""
        from agent.mcp_chat import resource_references

        return [] if self.chat is None else resource_references(self.chat.servers)

    def following(self, name: str, before: Sequence[str]) -> Sequence[tuple[str, str]]:
        """What may follow a slash command."""
        from agent.slash_words import following

        return [] if self.chat is None else following(self.chat, name.lower(), before)

    def goodbye(self) -> str:
        """The way back into this session."""
        return self.chat.goodbye() if self.chat is not None else ""

    async def _opened(self) -> Chat:
        await self._ready.wait()
        assert self.chat is not None
        return self.chat

    def _open(self, chat: Chat, opened: Callable[[Chat], None]) -> None:
        from agent.chat import start_sources
        from agent.ui.elicitation import answer_for_server

        try:
            opened(chat)
        except Exception as error:
            self._fail(error)
        else:
            self.chat = chat
            chat.servers.elicit = partial(answer_for_server, self.repl)
            start_sources(chat)
            self._ready.set()
            self.repl.refresh()

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self.repl.leave()

    async def _command(self, chat: Chat, text: str) -> str:
        from agent import choices
        from agent.slash import run as run_command

        match text.strip():
            case "/resume":
                return await choices.resume(self.repl, chat, self._root)
            case "/rewind":
                return await choices.rewind(self.repl, chat)
        return await run_command(chat, text)


def _is_message(text: str) -> bool:
    """Tell whether what was typed is for the model."""
    from agent.slash import is_command

    return not (text.strip() in LEAVING or text.startswith("!") or is_command(text))


def status_line(chat: Chat) -> StatusLine:
    """Return what the bottom line says of a chat."""
    chat.conversation.hold_tools(chat.registry.wire())
    return StatusLine(
        model=chat.model_name or "no model",
        mode="skip permissions" if chat.gate.skip_permissions else chat.gate.mode.value,
        tokens_used=chat.conversation.context_tokens,
        context_window=chat.limits.context_window,
        cost_usd=chat.prices.cost_usd(chat.conversation.usage),
    )


def _greeting(version: str, model: str, root: Path) -> str:
    from agent.instructions import FILE_NAME

    home = Path.home()
    place = str(Path("~") / root.relative_to(home)) if root.is_relative_to(home) else str(root)
    lines = [f"opta {version} · {model or 'no model'} · {place}", "/help for commands and keys"]
    others = [name for name in OTHER_INSTRUCTIONS if (root / name).is_file()]
    if others and not (root / FILE_NAME).is_file():
        lines.append(f"{others[0]} is not read here: /init writes an AGENTS.md that takes it over")
    return "\n".join(lines)


def _import_for_first_answer() -> None:
    import jsonschema_rs  # noqa: F401

    import agent.model.http_client  # noqa: F401
