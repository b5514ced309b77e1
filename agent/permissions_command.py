"""`opta permissions list|check|add|remove|why`: the rules by hand, and what they decide."""

from __future__ import annotations

import argparse
import itertools
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from agent import session
from agent.configuration import read_settings
from agent.errors import DONE, NEEDS_PERMISSION, USAGE, UserError
from agent.flags import add_command, add_subcommands
from agent.permission_check import Finding, check_command, named, read_rules_file
from agent.project import project_root, trust_in
from agent.session import SessionError
from agent.settings_edit import add_permission_rule, remove_permission_rule
from agent.settings_files import SettingsError
from agent.settings_values import Settings
from agent.settings_view import place_of
from agent.streams import write_json
from agent.team import team_tools
from tools import storage
from tools.engine.output import sanitize
from tools.events import CallDecided
from tools.formats.problems import shown_path
from tools.permissions.gate import PermissionGate
from tools.permissions.mode import Mode
from tools.permissions.rule_review import review
from tools.permissions.rules import Rule, RuleError, RuleSet, Verdict, parse_rule

DENIED = 5
EXIT_CODES = """\
exit codes of check:
  0    allowed
  3    a person would be asked
  5    denied
  2    wrong usage, or a rule that cannot be read
"""
_CODES = {Verdict.ALLOW: DONE, Verdict.ASK: NEEDS_PERMISSION, Verdict.DENY: DENIED}
_SHOWN_DECISIONS = 50


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags and subcommands."""
    parser.epilog = EXIT_CODES
    parser.set_defaults(action=_list, directory=None, trust=False, format="text")
    commands = add_subcommands(parser, metavar="COMMAND")
    listing = add_command(commands, "list", "the rules in force, and those that do nothing")
    listing.set_defaults(action=_list)
    does = "what would happen to a command, and why; runs nothing"
    checking = add_command(commands, "check", does, epilog=EXIT_CODES)
    checking.add_argument("--rules", metavar="FILE", help="the rules of FILE instead of yours")
    checking.add_argument("command", nargs="+", metavar="COMMAND", help="after --, best quoted")
    checking.set_defaults(action=_check)
    adding = add_command(commands, "add", "store a rule in your own settings")
    verdicts = [str(verdict) for verdict in Verdict]
    adding.add_argument("verdict", choices=verdicts)
    adding.add_argument("rule", metavar="RULE", help="e.g. 'run_command(npm test:*)'")
    adding.add_argument(
        "--everywhere", action="store_true", help="for all projects, not for this one alone"
    )
    adding.set_defaults(action=_add)
    removing = add_command(commands, "remove", "remove a rule from your own settings")
    removing.add_argument("verdict", nargs="?", choices=verdicts, help="only the rule of this kind")
    removing.add_argument("rule", metavar="RULE", help="as `opta permissions list` shows it")
    removing.set_defaults(action=_remove)
    why = add_command(commands, "why", "what decided the calls of a session")
    why.add_argument("id", nargs="?", metavar="ID", help="default: the newest of this directory")
    why.set_defaults(action=_why)
    for command in (listing, checking, adding, removing, why):
        command.add_argument("--format", choices=("text", "json"), default="text")
        command.add_argument("-C", "--directory", metavar="DIR", help="for the project in DIR")
    for command in (listing, checking):
        command.add_argument(
            "--trust", action="store_true", help="count the project's own rules too"
        )


def run(args: argparse.Namespace, out: TextIO) -> int:
    """Run the parsed command, writing to `out`; return the exit code. Raises UserError."""
    root = project_root(args.directory)
    try:
        code: int = args.action(args, root, out)
    except (RuleError, SettingsError) as error:
        raise UserError(str(error), USAGE) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(str(error)) from None
    return code


def _list(args: argparse.Namespace, root: Path, out: TextIO) -> int:
    settings = _settings(args, root)
    problems = review(settings.rules, root)
    if args.format == "json":
        listed = [_rule_json(rule) for rule in settings.rules]
        told = [{**_rule_json(p.rule), "problem": p.message} for p in problems]
        write_json(out, {"default": settings.default_verdict, "rules": listed, "problems": told})
        return DONE
    for rule in settings.rules:
        out.write(f"{rule.verdict:<6} {sanitize(rule.stored)}  ({sanitize(rule.origin)})\n")
    if not settings.rules:
        out.write("There are no rules.\n")
    out.write(f"Where no rule and no mode speaks: {settings.default_verdict}\n")
    for problem in problems:
        out.write(f"warning: {sanitize(str(problem))}\n")
    return DONE


def _check(args: argparse.Namespace, root: Path, out: TextIO) -> int:
    words = args.command
    line = words[0] if len(words) == 1 else shlex.join(words)
    if args.rules:
        rules, default = read_rules_file(Path(args.rules))
        gate = _gate(rules, root, default)
    else:
        settings = _settings(args, root)
        gate = _gate(settings.rules, root, settings.default_verdict, settings.mode)
        team_tools(settings, gate)
    whole, parts = check_command(gate, line, root)
    if args.format == "json":
        found = {**_finding_json(whole), "commands": [_finding_json(part) for part in parts]}
        write_json(out, found)
    else:
        out.write(f"{_sentence(whole)}\n")
        for part in parts:
            out.write(f"  {part.verdict:<6} {sanitize(part.command)}: {sanitize(part.reason)}\n")
    return _CODES[whole.verdict]


def _add(args: argparse.Namespace, root: Path, out: TextIO) -> int:
    rule = parse_rule(Verdict(args.verdict), args.rule, "opta permissions add")
    path = add_permission_rule(root, rule, everywhere=args.everywhere)
    settings = _settings(args, root)
    problems = [p for p in review(settings.rules, root) if p.rule.stored == rule.stored]
    if args.format == "json":
        told = [problem.message for problem in problems]
        write_json(out, {**_rule_json(rule), "path": str(path), "problems": told})
        return DONE
    where = "everywhere" if args.everywhere else f"for {sanitize(str(root))}"
    file = sanitize(shown_path(path))
    out.write(f"Added {where}: {rule.verdict} {sanitize(rule.stored)} ({file})\n")
    for problem in problems:
        out.write(f"warning: {sanitize(str(problem))}\n")
    return DONE


def _remove(args: argparse.Namespace, root: Path, out: TextIO) -> int:
    places = remove_permission_rule(root, args.rule, args.verdict)
    if args.format == "json":
        write_json(out, {"removed": places})
    for place in places if args.format == "text" else ():
        out.write(f"Removed {sanitize(args.rule)}: {sanitize(place)}\n")
    if not places:
        raise UserError(
            f"{args.rule!r} is not in your settings for {root}. `opta permissions list` shows the "
            "rules and where they stand; those of flags, projects and the machine are not yours "
            "to remove here."
        )
    return DONE


def _why(args: argparse.Namespace, root: Path, out: TextIO) -> int:
    path = session.find(args.id) if args.id else _newest(root)
    events = session.load(path).events
    decided = [event for event in events if isinstance(event, CallDecided)][-_SHOWN_DECISIONS:]
    if args.format == "json":
        told = [{"call": d.title, "allowed": d.allowed, "by": d.by} for d in decided]
        write_json(out, {"session": path.stem, "decisions": told})
        return DONE
    out.write(f"Session {path.stem}:\n")
    for event in decided:
        verb = "allowed" if event.allowed else "denied"
        out.write(f"  {verb}: {sanitize(event.title)}: {sanitize(event.by)}\n")
    if not decided:
        out.write("  No call was decided.\n")
    return DONE


def _newest(root: Path) -> Path:
    found = next(iter(itertools.islice(session.summaries(root), 1)), None)
    if found is None:
        raise SessionError(f"There are no sessions in {root}.")
    return found.path


def _gate(
    rules: Iterable[Rule], root: Path, default: Verdict, mode: Mode = Mode.ASK
) -> PermissionGate:
    return PermissionGate(RuleSet(rules, root, (storage.output_dir(),)), mode=mode, default=default)


def _settings(args: argparse.Namespace, root: Path) -> Settings:
    return read_settings(root, {}, trusted=trust_in(root, given=args.trust).settings)


def _sentence(found: Finding) -> str:
    reason = found.reason
    if found.rule is not None and found.rule.origin not in reason and found.rule.text not in reason:
        reason = f"{reason} [rule {named(found.rule)}]"
    return f"{found.verdict}: {sanitize(reason)}"


def _finding_json(found: Finding) -> dict[str, Any]:
    rule = None if found.rule is None else _rule_json(found.rule)
    return {
        "command": found.command, "verdict": found.verdict, "reason": found.reason, "rule": rule,
    }  # fmt: skip


def _rule_json(rule: Rule) -> dict[str, Any]:
    file, line = place_of(rule.origin)
    return {
        "verdict": rule.verdict, "rule": rule.stored, "origin": rule.origin,
        "file": file, "line": line,
    }  # fmt: skip
