"""What would happen to a command, whole and part by part; nothing is run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import USAGE, UserError
from tools.builtin.kit import Services
from tools.builtin.run_command import prepare, tool
from tools.definition import (
    Effect,
    Invocation,
    Progress,
    ResolvedCall,
    TextDisplay,
    ToolError,
    ToolResult,
)
from tools.engine.environment import child_environment
from tools.files.workspace import Workspace
from tools.permissions.command_verdict import PartVerdict
from tools.permissions.gate import Decision, Denial, PermissionGate
from tools.permissions.grant import Grant
from tools.permissions.rules import Rule, RuleError, Verdict, parse_rule
from tools.permissions.shell import Match
from tools.record import record

if TYPE_CHECKING:
    from tools.yamltext import Document, KeyPath


@record
class Finding:
    """What would happen to a command, or to a part of it."""

    command: str
    verdict: Verdict
    reason: str
    rule: Rule | None = None


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
            return Finding(part.text, verdict, f"rule {named(rule)}", rule)
        if match is Match.MAYBE:
            return Finding(part.text, Verdict.ASK, f"rule {named(rule)} may forbid it", rule)
    alone = Effect(effect.kind, part.text, effect.subject, cwd=effect.cwd)
    judged = gate.rules.judge(call, _only(alone))
    if judged is not None and judged.verdict is not Verdict.ALLOW:
        return Finding(part.text, judged.verdict, f"rule {named(judged.rule)}", judged.rule)
    if part.allowed:
        reason = f"it {part.why}" if part.rule is None else f"rule {named(part.rule)}"
        return Finding(part.text, Verdict.ALLOW, reason, part.rule)
    if whole.verdict is Verdict.ALLOW:
        return Finding(part.text, Verdict.ALLOW, whole.reason, whole.rule)
    return Finding(part.text, gate.default, f"it {part.why}")


def _only(effect: Effect) -> Invocation:
    async def run(grant: Grant, progress: Progress) -> ToolResult:
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
        base: KeyPath = ()
        if isinstance(data, dict) and "permissions" in data:
            base = ("permissions",)
        data = (data["permissions"] or {}) if base else data
        if not isinstance(data, dict):
            raise document.error(base, "must hold deny, ask and allow lists")
        return _rules_of(document, data, base), Verdict(data.get("default", "ask"))
    except (OSError, DocumentError) as error:
        reason = getattr(error, "strerror", None)
        message = f"cannot read {path}: {reason.lower()}" if reason else str(error)
        raise UserError(message, USAGE) from None


def _rules_of(document: Document, data: Mapping[str, Any], base: KeyPath) -> list[Rule]:
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
                    rules.append(parse_rule(Verdict(name), text, f"{document.path}:{line}"))
                except RuleError as error:
                    raise document.error((*base, name, index), str(error)) from None
    return rules


def named(rule: Rule | None) -> str:
    """Return a rule with the place where it stands; nothing for none."""
    return "" if rule is None else f"{rule.text} ({rule.origin})"
