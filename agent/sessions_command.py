"""`opta sessions list|show|export|rm|undo|redo`: earlier sessions by hand."""

from __future__ import annotations

import argparse
import itertools
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from agent import log, session
from agent.errors import UserError
from agent.flags import add_command, add_subcommands
from agent.redaction import Redactor
from agent.session import SessionError
from agent.session_export import as_json, as_markdown
from agent.session_summary import SessionSummary, labels, local_time
from agent.streams import write_json
from tools.definition import JsonObject
from tools.engine.output import sanitize

SHOWN_LINES = 12
LISTED = 50
LEAST_TITLE = 20
"""How much of a title is shown in any terminal, in columns."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags and subcommands."""
    parser.set_defaults(action=_list, all=False, limit=LISTED)
    parser.add_argument(
        "--format", "--output-format", choices=("text", "json"), default="text",
        help=argparse.SUPPRESS,
    )  # fmt: skip
    commands = add_subcommands(parser, metavar="COMMAND")

    listing = add_command(commands, "list", "the sessions of this directory, newest first")
    listing.add_argument(
        "--all", action="store_true", help="of all directories, also those never answered"
    )
    listing.add_argument(
        "--limit", type=_count, default=LISTED, metavar="N", help=f"at most N ({LISTED}; 0: all)"
    )
    listing.set_defaults(action=_list)

    showing = add_command(commands, "show", "what was said and done, long outputs shortened")
    showing.set_defaults(action=_write_session, shown_lines=SHOWN_LINES)

    exporting = add_command(commands, "export", "the whole session, on standard output")
    exporting.set_defaults(action=_write_session, shown_lines=None)

    removing = add_command(commands, "rm", "remove sessions for good")
    removing.add_argument("id", nargs="+", metavar="ID")
    removing.set_defaults(action=_remove)

    undoing = add_command(
        commands, "undo", "take back what the last turn of a session changed in files"
    )
    undoing.set_defaults(action=_restore, undoing=True)

    redoing = add_command(commands, "redo", "put again what was taken back")
    redoing.set_defaults(action=_restore, undoing=False)

    for command in (showing, exporting, undoing, redoing):
        command.add_argument(
            "id", nargs="?", default="", metavar="ID",
            help="a session, by as much of its id as is unique; else the newest here",
        )  # fmt: skip
    for command, formats in (
        (listing, ("text", "json")),
        (showing, ("text", "json")),
        (exporting, ("markdown", "json")),
        (removing, ("text", "json")),
    ):
        command.add_argument("--format", choices=formats, default=formats[0])
        command.add_argument(  # As `opta -p` calls it.
            "--output-format", dest="format", choices=formats,
            default=argparse.SUPPRESS, help=argparse.SUPPRESS,
        )  # fmt: skip


def run(args: argparse.Namespace, out: TextIO) -> int:
    """Run the parsed command, writing to `out`; return the exit code. Raises SessionError."""
    code: int = args.action(args, out)
    return code


def _list(args: argparse.Namespace, out: TextIO) -> int:
    from agent.ui.wrap import UNWRAPPED, columns_of, shorten

    cwd = None if args.all else _current_directory()
    listed = (s for s in session.summaries(cwd) if s.answered or args.all)
    found = list(itertools.islice(listed, args.limit or None))
    if args.format == "json":
        write_json(out, [_summary_json(summary) for summary in found])
        return 0
    if not found:
        where = "" if args.all else f" in {sanitize(str(cwd))} (--all lists every directory)"
        out.write(f"There are no sessions{where}.\n")
        return 0
    columns = columns_of(out) if out.isatty() else UNWRAPPED
    head = f"{'ID':<18}  {'LAST USED':<16}  {'TURNS':>5}  {'TOKENS':>9}  "
    out.write(f"{head}TITLE\n")
    for summary, label in zip(found, labels(found), strict=True):
        place = f"  ({sanitize(summary.cwd)})" if args.all else ""
        room = max(columns - len(head) - len(place), LEAST_TITLE)
        out.write(
            f"{summary.id:<18}  {local_time(summary.updated)}  {summary.turns:>5}  "
            f"{summary.tokens:>9,}  {shorten(label, room)}{place}\n"
        )
    if len(found) == args.limit:
        out.write(f"The newest {args.limit}; --limit 0 lists all.\n")
    return 0


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return int(text)


def _current_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise SessionError("The current directory is gone. Go to another, or use --all.") from None


def _remove(args: argparse.Namespace, out: TextIO) -> int:
    # All are found before any is removed, so that a typing error removes nothing.
    paths = dict.fromkeys(session.find(identity) for identity in args.id)
    for path in paths:
        session.delete(path)
        if args.format == "text":
            out.write(f"Removed {path.stem}.\n")
    if args.format == "json":
        write_json(out, {"removed": [path.stem for path in paths]})
    return 0


def _restore(args: argparse.Namespace, out: TextIO) -> int:
    """Put files back by hand; 1 where nothing was, or not all of it."""
    import asyncio

    from agent.undo import FileHistory, Restored, told
    from tools.files.versions import VersionsError
    from tools.files.workspace import Workspace
    from tools.permissions.gate import PermissionGate
    from tools.permissions.rules import RuleSet

    path = _named(args)
    info = session.load(path).info
    if info is None:
        raise SessionError(f"The session {path.stem} does not say which directory it worked in.")
    if session.in_use(path):
        way = "/undo" if args.undoing else "/redo"
        raise SessionError(
            f"The session {path.stem} is open in another opta. Type {way} there, or close it."
        )
    workspace = Workspace(Path(info.cwd))
    history = FileHistory(workspace, PermissionGate(RuleSet((), workspace.root), None))

    async def restore() -> Restored | None:
        try:
            return await (history.undo if args.undoing else history.redo)(path.stem)
        finally:
            await history.aclose()

    try:
        restored = asyncio.run(restore())
    except VersionsError as error:
        raise SessionError(str(error)) from error
    way_back = f"opta sessions {'redo' if args.undoing else 'undo'} {path.stem}"
    out.write(f"{told(restored, undoing=args.undoing, way_back=way_back)}\n")
    return 0 if restored is not None and not restored.kept else 1


def _named(args: argparse.Namespace) -> Path:
    """Return the session that was asked for, or the newest of this directory."""
    if args.id:
        return session.find(args.id)
    newest = next(session.summaries(_current_directory(), 1), None)
    if newest is None:
        raise SessionError("There are no sessions in this directory. Name one by its id.")
    return newest.path


def _write_session(args: argparse.Namespace, out: TextIO) -> int:
    path = _named(args)
    recording = session.load(path)
    hidden = _redactor()
    if args.format == "json":
        write_json(out, hidden.tree(as_json(path, recording)))
        return 0
    for part in as_markdown(path, recording, args.shown_lines):
        out.write(f"{hidden(sanitize(part))}\n\n")
    return 0


def _redactor() -> Redactor:
    """Return what hides the secrets that opta is given now: not all were known when it was said."""
    from agent.configuration import mcp_configured, read_settings
    from agent.project import project_root, trust_in

    with suppress(UserError):
        # Mistakes in the settings keep nobody from reading what was said.
        trust = trust_in(project_root(None), given=False)
        mcp_configured(trust, read_settings(trust.root, {}, trusted=trust.settings))
    return log.redactor()


def _summary_json(summary: SessionSummary) -> JsonObject:
    return {
        "id": summary.id,
        "cwd": summary.cwd,
        "model": summary.model,
        "title": summary.title,
        "created": summary.created,
        "updated": summary.updated,
        "last": summary.last,
        "kind": summary.kind,
        "turns": summary.turns,
        "tokens": summary.tokens,
        "path": str(summary.path),
    }
