"""`opta permissions list|check|add|remove|why`: the rules by hand, and what they decide."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import shlex
from pathlib import Path
from typing import Any, TextIO

from agent import session
from agent.configuration import read_settings
from agent.errors import DONE, NEEDS_PERMISSION, USAGE, UserError
from agent.flags import add_command, add_subcommands
from agent.project import project_root, trust_in
from agent.session import SessionError
from agent.settings_edit import add_permission_rule, remove_permission_rule
from agent.settings_files import SettingsError
from agent.settings_values import Settings
from agent.settings_view import place_of
from agent.streams import write_json
from agent.team import team_tools
from tools import storage
from tools.builtin.kit import Services
from tools.builtin.run_command import prepare, tool
from tools.definition import Effect, Invocation, ResolvedCall, ToolError
from tools.engine.environment import child_environment
from tools.engine.output import sanitize
from tools.events import CallDecided
from tools.files.workspace import Workspace
from tools.permissions.command_verdict import PartVerdict
from tools.permissions.gate import Decision, Denial, PermissionGate
from tools.permissions.rule_review import review
from tools.permissions.rules import Rule, RuleError, RuleSet, Verdict, parse_rule
from tools.permissions.shell import Match
from tools.record import record

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


@record
class Finding:
    """What would happen to a command, or to a part of it."""

    command: str
    verdict: Verdict
    reason: str
    rule: Rule | None = None


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
    adding.add_argument("verdict", choices=[str(verdict) for verdict in Verdict])
    adding.add_argument("rule", metavar="RULE", help="e.g. 'run_command(npm test:*)'")
    adding.add_argument(
        "--everywhere", action="store_true", help="for all projects, not for this one alone"
    )
    adding.set_defaults(action=_add)
    removing = add_command(commands, "remove", "remove a rule from your own settings")
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
        gate = _gate(rules, root, default=default)
    else:
        settings = _settings(args, root)
        gate = _gate(
            settings.rules, root, default=settings.default_verdict, mode=settings.mode
        )  # fmt: skip
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


def check_command(gate: PermissionGate, line: str, root: Path) -> tuple[Finding, list[Finding]]:
    """Return what the gate says of a command run in `root`, whole and part by part.

    Raises UserError for a command that cannot be run at all.
    """
    services = Services(Workspace(root), child_environment(os.environ), gate.rules)
    call = ResolvedCall("check", tool().definition, {"command": line})
    try:
        invocation = prepare(call, services)
    except ToolError as error:
        raise UserError(str(error), USAGE) from None
    decision = asyncio.run(gate.authorise(call, invocation))
    judgement = gate.rules.judge(call, invocation)
    verdict = _verdict(decision)
    reason = gate.reason(invocation, judgement) if verdict is Verdict.ASK else decision.by
    rule = None if judgement is None else judgement.rule
    whole = Finding(line, verdict, reason, rule)
    effect = invocation.effects[0]
    parts = [_part(gate, part, call, effect, whole) for part in gate.rules.parts(effect)]
    return whole, parts


def _verdict(decision: Decision) -> Verdict:
    if decision.grant is not None:
        return Verdict.ALLOW
    return Verdict.ASK if decision.denial is Denial.NOBODY else Verdict.DENY


def _part(
    gate: PermissionGate, part: PartVerdict[Rule], call: ResolvedCall, effect: Effect,
    whole: Finding,
) -> Finding:  # fmt: skip
    """Say of one part what deny and ask rules say of it alone, else what allows it."""
    for verdict in (Verdict.DENY, Verdict.ASK):
        match, rule = gate.rules.concerning(verdict, part.text)
        if match is Match.YES or (match is Match.MAYBE and verdict is Verdict.ASK):
            return Finding(part.text, verdict, f"rule {_named(rule)}", rule)
        if match is Match.MAYBE:
            return Finding(part.text, Verdict.ASK, f"rule {_named(rule)} may forbid it", rule)
    alone = Effect(effect.kind, part.text, effect.subject, cwd=effect.cwd)
    judged = gate.rules.judge(call, _only(alone))
    if judged is not None and judged.verdict is not Verdict.ALLOW:
        return Finding(part.text, judged.verdict, f"rule {_named(judged.rule)}", judged.rule)
    if part.allowed:
        reason = f"it {part.why}" if part.rule is None else f"rule {_named(part.rule)}"
        return Finding(part.text, Verdict.ALLOW, reason, part.rule)
    if whole.verdict is Verdict.ALLOW:
        return Finding(part.text, Verdict.ALLOW, whole.reason, whole.rule)
    return Finding(part.text, gate.default, f"it {part.why}")


def _only(effect: Effect) -> Invocation:
    from tools.definition import TextDisplay

    async def run(grant: Any, progress: Any) -> Any:
        raise ToolError("Only looked at.")

    return Invocation(effect.value, (effect,), TextDisplay(effect.value), run)


def read_rules_file(path: Path) -> tuple[list[Rule], Verdict]:
    """Read the rules of a file: the `permissions:` part of a config, with or without that key.

    Returns them with the verdict where none speaks. Raises UserError.
    """
    from tools.yamltext import DocumentError, parse

    try:
        document = parse(path.read_bytes(), path)
        data = document.data or {}
        base = ("permissions",) if isinstance(data, dict) and "permissions" in data else ()
        data = (data["permissions"] or {}) if base else data
        if not isinstance(data, dict):
            raise document.error(base, "must hold deny, ask and allow lists")
        return _rules_of(document, data, base, path), Verdict(data.get("default", "ask"))
    except (OSError, DocumentError) as error:
        reason = getattr(error, "strerror", None)
        message = f"cannot read {path}: {reason.lower()}" if reason else str(error)
        raise UserError(message, USAGE) from None


def _rules_of(document: Any, data: dict[str, Any], base: Any, path: Path) -> list[Rule]:
    rules: list[Rule] = []
    for name, value in data.items():
        if name == "default":
            if value not in tuple(Verdict):
                raise document.error((*base, name), "must be allow, ask or deny")
        elif name not in tuple(Verdict):
            raise document.error((*base, name), "is none of deny, ask, allow and default")
        elif not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise document.error((*base, name), "must be a list of rules")
        else:
            for index, text in enumerate(value):
                line = document.position((*base, name, index))[0]
                try:
                    rules.append(parse_rule(Verdict(name), text, f"{path}:{line}"))
                except RuleError as error:
                    raise document.error((*base, name, index), str(error)) from None
    return rules


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
    out.write(f"Added {where}: {rule.verdict} {sanitize(rule.stored)} ({sanitize(str(path))})\n")
    for problem in problems:
        out.write(f"warning: {sanitize(str(problem))}\n")
    return DONE


def _remove(args: argparse.Namespace, root: Path, out: TextIO) -> int:
    places = remove_permission_rule(root, args.rule)
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


def _gate(rules: Any, root: Path, **more: Any) -> PermissionGate:
    return PermissionGate(RuleSet(rules, root, (storage.output_dir(),)), **more)


def _settings(args: argparse.Namespace, root: Path) -> Settings:
    return read_settings(root, {}, trusted=trust_in(root, given=args.trust).settings)


def _named(rule: Rule | None) -> str:
    return "" if rule is None else f"{rule.text} ({rule.origin})"


def _sentence(found: Finding) -> str:
    reason = found.reason
    if found.rule is not None and found.rule.origin not in reason and found.rule.text not in reason:
        reason = f"{reason} [rule {_named(found.rule)}]"
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
