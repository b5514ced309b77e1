"""How a call is judged by all permission rules together (R8); see `rule_grammar` for each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias

from tools.actions import AliasAction
from tools.definition import (
    Effect,
    EffectKind,
    Invocation,
    ResolvedCall,
    Source,
    ToolDefinition,
)
from tools.permissions.command_check import Checked, CommandChecker
from tools.permissions.command_cover import suggest_command
from tools.permissions.command_verdict import PartJudge, PartVerdict, narrow_suggestions
from tools.permissions.paths import PathPattern
from tools.permissions.rule_grammar import (
    DIGEST_CHARS,
    ByHost,
    ByName,
    ByPath,
    ByServer,
    ByTag,
    Rule,
    RuleError,
    Verdict,
    host_labels,
    parse_rule,
    parse_tag_rule,
    pattern_of,
)
from tools.permissions.shell import (
    AllowedCommands,
    CommandPattern,
    Match,
    RestrictedCommands,
)
from tools.record import record

__all__ = [
    "READ_ONLY",
    "Judgement",
    "Rule",
    "RuleError",
    "RuleSet",
    "Verdict",
    "parse_rule",
    "parse_tag_rule",
]


@record
class Judgement:
    """What the rules say of a call, and the rule that decided.

    ASK with a DENY rule means that the rule may apply: the command hides what it runs. A person
    must answer then, whatever else is allowed.
    """

    verdict: Verdict
    rule: Rule


READ_ONLY = Rule(Verdict.ALLOW, "commands that only read", "built in")
"""Stands for the rule where no rule was needed."""

_SUBJECTS = {
    EffectKind.READ: "read_file",
    EffectKind.WRITE: "write_file",
    EffectKind.EXECUTE: "run_command",
    EffectKind.NETWORK: "",
    EffectKind.SERVER: "",
    EffectKind.PROGRAM: "",
}
_MODEST = frozenset({"tool:read", "tool:write"})


class RuleSet:
    """All rules in force. Deny beats ask beats allow, whatever their order (R8).

    Patterns of paths are relative to `root`, a real path; programs found below it are never
    allowed by their bare name (R10).
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        root: Path | None = None,
        readable: Iterable[Path] = (),
    ) -> None:
        """Make the set. `readable` are directories outside `root` that count as inside it."""
        self._root = (root or Path.cwd()).resolve()
        self._checker = CommandChecker(self._root, tuple(readable))
        self.use(rules)

    def use(self, rules: Iterable[Rule]) -> None:
        """Let these rules hold from the next call on, and no others. Raises RuleError."""
        self._rules: list[Rule] = []
        self._tables = {verdict: _Table(verdict, self._root) for verdict in Verdict}
        self._parts: PartJudge[Rule] = PartJudge(
            self._tables[Verdict.ALLOW].allowed,
            lambda path, literal: self._tables[Verdict.ALLOW].rule_for_path(
                EffectKind.READ, path, literal=literal
            ),
            lambda directory: bool(self.kept_below(directory)),
        )
        for rule in rules:
            self.add(rule)

    @property
    def root(self) -> Path:
        """The real path of the workspace."""
        return self._root

    def __iter__(self) -> Iterator[Rule]:
        """Yield the rules in the order they were added."""
        return iter(self._rules)

    def add(self, rule: Rule) -> None:
        """Add a rule; it holds from the next call on. Raises RuleError."""
        self._tables[rule.verdict].add(rule)
        self._rules.append(rule)

    def judge(self, call: ResolvedCall, invocation: Invocation) -> Judgement | None:
        """Return the strictest matching rule, or None when no rule speaks.

        A deny or ask rule matches when it matches any effect; an allow verdict needs a matching
        allow rule for every effect, except reads that need no permission anyway.
        """
        checks = self._checks(invocation)
        reads = list(_named_reads(checks))
        deny, doubtful = self._tables[Verdict.DENY].restricts(call, invocation, reads)
        if deny is not None:
            return Judgement(Verdict.ASK if doubtful else Verdict.DENY, deny)
        ask, _ = self._tables[Verdict.ASK].restricts(call, invocation, reads)
        if ask is not None:
            return Judgement(Verdict.ASK, ask)
        allow = self._tables[Verdict.ALLOW].covers(
            call, invocation, lambda effect: self._command_rule(effect, checks[effect])
        )
        if allow is None or any(self._opens_secret(effect, checks[effect]) for effect in checks):
            return None
        if allow is READ_ONLY and call.tool.origin.source is not Source.BUILTIN:
            # What a tool of the person's own reads, it reads for a reason of its own: it asks.
            return None
        return Judgement(Verdict.ALLOW, allow)

    def only_reads(self, invocation: Invocation) -> bool:
        """Tell whether nothing of a call does more than read, commands included."""
        checks = self._checks(invocation)
        return all(
            effect.kind is EffectKind.READ or (effect in checks and checks[effect].only_reads)
            for effect in invocation.effects
        )

    def reads_secrets(self, invocation: Invocation) -> bool:
        """Tell whether a command of a call names a secret that no rule opens (R40)."""
        checks = self._checks(invocation)
        return any(self._opens_secret(effect, checks[effect]) for effect in checks)

    def checked(self, effect: Effect) -> Checked:
        """Return what is known of a command: what it reads, and what must be kept quiet (R12)."""
        return self._checker.check(effect.value, effect.cwd)

    def parts(self, effect: Effect) -> list[PartVerdict[Rule]]:
        """Return what allow rules and the built-in list say of each part of a command."""
        return list(self._parts.verdicts(self._checker.check(effect.value, effect.cwd)))

    def concerning(self, verdict: Verdict, command: str) -> tuple[Match, Rule | None]:
        """Return the deny or ask rule about commands that concerns a text, and how surely."""
        return self._tables[verdict].restricted.concerning(command)

    def suggest(self, call: ResolvedCall, invocation: Invocation) -> tuple[Rule, ...]:
        """Return the narrowest allow rules that would cover this call next time; see below."""
        return suggest_rules(
            call, invocation, lambda effect: narrow_suggestions(effect.value, self.parts(effect))
        )

    def _checks(self, invocation: Invocation) -> dict[Effect, Checked]:
        return {
            effect: self._checker.check(effect.value, effect.cwd)
            for effect in invocation.effects
            if effect.kind is EffectKind.EXECUTE and effect.cwd
        }

    def _opens_secret(self, effect: Effect, checked: Checked) -> bool:
        """Tell whether a command reads a secret that no rule writes out, as path or command."""
        allow = self._tables[Verdict.ALLOW]
        return not allow.allowed.names(effect.value) and any(
            file.sensitive and allow.rule_for_path(EffectKind.READ, file.path, literal=True) is None
            for file in checked.files
        )

    def _command_rule(self, effect: Effect, checked: Checked) -> Rule | None:
        """Return a rule of those that together allow every part of a command (R7)."""
        found = None
        for verdict in self._parts.verdicts(checked):
            if not verdict.allowed:
                return None
            found = found or verdict.rule
        return found or READ_ONLY

    def keeping_from(self, path: Path) -> Rule | None:
        """Return the deny or ask rule that names the real `path` as not to be read silently.

        For tools that come across files: the gate was asked about a directory only.
        """
        tables = (self._tables[verdict] for verdict in (Verdict.DENY, Verdict.ASK))
        rules = (table.rule_for_path(EffectKind.READ, str(path)) for table in tables)
        return next((rule for rule in rules if rule is not None), None)

    def kept_below(self, directory: Path) -> list[tuple[str, ...]]:
        """Return what `keeping_from` speaks of below a real directory, as patterns by component.

        Nothing in them is special but `*`, `?` and `**`; letters count in any case, and each
        also means all that lies below what it matches.
        """
        tables = (self._tables[verdict] for verdict in (Verdict.DENY, Verdict.ASK))
        return [
            rest
            for table in tables
            for kind, pattern, _ in table.paths
            if kind is EffectKind.READ
            for rest in pattern.below(directory)
        ]


_OfCommand: TypeAlias = Callable[[Effect], Rule | None]


class _Table:
    """The rules of one verdict, arranged so that a call is looked up and not searched (R42)."""

    def __init__(self, verdict: Verdict, root: Path) -> None:
        self.strict = verdict is not Verdict.ALLOW
        self.root = root
        self.names: dict[str, Rule] = {}
        self.definitions: dict[tuple[str, str], Rule] = {}
        self.tags: dict[str, Rule] = {}
        self.servers: list[tuple[ByServer, Rule]] = []
        self.hosts: dict[ByHost, Rule] = {}
        self.paths: list[tuple[EffectKind, PathPattern, Rule]] = []
        self.allowed: AllowedCommands[Rule] = AllowedCommands()
        self.restricted: RestrictedCommands[Rule] = RestrictedCommands()

    def add(self, rule: Rule) -> None:
        match pattern_of(rule):
            case ByName(name) if rule.tool_digest:
                self.definitions.setdefault((name, rule.tool_digest), rule)
            case ByName(name):
                self.names.setdefault(name, rule)
            case ByTag(tag):
                self.tags.setdefault(tag, rule)
            case ByServer() as server:
                self.servers.append((server, rule))
            case ByHost() as host:
                self.hosts.setdefault(host, rule)
            case ByPath(kind, pattern):
                compiled = PathPattern(pattern, self.root, generous=self.strict)
                self.paths.append((kind, compiled, rule))
            case CommandPattern() as command:
                (self.restricted if self.strict else self.allowed).add(command, rule)

    def restricts(
        self, call: ResolvedCall, invocation: Invocation, reads: Iterable[Effect]
    ) -> tuple[Rule | None, bool]:
        """Return a rule that matches anything of the call, and whether that is only possible.

        `reads` are what its commands read beside its effects.
        """
        tools = (call.tool, *invocation.uses)
        found = self._of_definition(call.tool, invocation)
        found = found or next(filter(None, map(self._of_tool, tools)), None)
        doubtful: Rule | None = None
        for effect in (*invocation.effects, *reads):
            found = found or self._of_kind(effect) or self._of_value(effect)
            if found is None and effect.kind is EffectKind.EXECUTE:
                match, rule = self.restricted.concerning(effect.value)
                if match is Match.YES:
                    found = rule
                elif match is Match.MAYBE:
                    doubtful = doubtful or rule
            if found is not None:
                return found, False
        return (found, False) if found is not None else (doubtful, doubtful is not None)

    def covers(
        self, call: ResolvedCall, invocation: Invocation, of_parts: _OfCommand
    ) -> Rule | None:
        """Return a rule of those that together allow all of the call; None when they do not.

        `of_parts` returns the rule for a command whose directory is known.
        """
        whole = self._of_definition(call.tool, invocation) or self._of_tool(call.tool)
        whole = whole or self._of_base(call.tool, invocation)
        if whole is not None and invocation.hazards and whole.text in _MODEST:
            # The tag says how little the tool does, which these values may change (X10, X88).
            whole = None
        rules: list[Rule] = [] if whole is None else [whole]
        for effect in invocation.effects:
            rule = self._allowing(effect, whole, of_parts)
            if rule is not None:
                rules.append(rule)
            elif not _needs_no_rule(effect):
                return None
        return rules[0] if rules else None

    def _allowing(self, effect: Effect, whole: Rule | None, of_parts: _OfCommand) -> Rule | None:
        if effect.sensitive:
            # Only a rule that writes out the path opens what asks even to be read (R40).
            return self.rule_for_path(effect.kind, effect.value, literal=True)
        found = whole or self._of_kind(effect) or self._of_value(effect)
        if found is not None or effect.kind is not EffectKind.EXECUTE:
            return found
        if effect.cwd:
            return self.allowed.covering_text(effect.value) or of_parts(effect)
        return self.allowed.covering(effect.value, self.root)

    def _of_base(self, tool: ToolDefinition, invocation: Invocation) -> Rule | None:
        """Return the rule for the tags that an alias without its own has from its base (C141)."""
        if not isinstance(tool.action, AliasAction) or tool.metadata.get("tags"):
            return None
        of_base = [used for used in invocation.uses if not isinstance(used.action, AliasAction)]
        return self._of_tags(of_base[0]) if of_base else None

    def _of_definition(self, tool: ToolDefinition, invocation: Invocation) -> Rule | None:
        """Return the rule that an answer made for exactly this tool, and the tools it uses."""
        return self.definitions.get((tool.name, _digest(tool, invocation.uses)))

    def _of_tool(self, tool: ToolDefinition) -> Rule | None:
        names = (tool.name, tool.wire_name, f"custom.{tool.name}", f"custom_{tool.name}")
        for name in names if tool.origin.source is Source.CUSTOM else names[:2]:
            if name in self.names:
                return self.names[name]
        return self._of_tags(tool)

    def _of_tags(self, tool: ToolDefinition) -> Rule | None:
        tags = tool.metadata.get("tags")
        for tag in tags if isinstance(tags, list | tuple) else ():
            if isinstance(tag, str) and tag in self.tags:
                return self.tags[tag]
        return None

    def _of_server(self, value: str) -> Rule | None:
        """Return the rule for `server/tool`; without a tool, one for the whole server."""
        server, _, tool = value.partition("/")
        for pattern, rule in self.servers:
            if pattern.server in ("*", server) and fnmatchcase(tool, pattern.tool):
                return rule
        return None

    def _of_kind(self, effect: Effect) -> Rule | None:
        return self.names.get(effect.subject) or self.names.get(_SUBJECTS[effect.kind])

    def _of_value(self, effect: Effect) -> Rule | None:
        if effect.kind is EffectKind.NETWORK:
            return self._of_host(effect.value)
        if effect.kind is EffectKind.SERVER:
            return self._of_server(effect.value)
        return self.rule_for_path(effect.kind, effect.value)

    def _of_host(self, host: str) -> Rule | None:
        labels = host_labels(host)
        if not labels:
            return None
        exact = self.hosts.get(ByHost(labels, False))
        parents = (self.hosts.get(ByHost(labels[i:], True)) for i in range(1, len(labels)))
        return exact or next((rule for rule in parents if rule is not None), None)

    def rule_for_path(self, kind: EffectKind, path: str, *, literal: bool = False) -> Rule | None:
        """Return the first rule that names `path`; with `literal` only if it writes it out."""
        for its_kind, pattern, rule in self.paths:
            usable = its_kind is kind and (pattern.literal or not literal)
            if usable and pattern.matches(path):
                return rule
        return None


def _needs_no_rule(effect: Effect) -> bool:
    return effect.kind is EffectKind.READ and effect.inside and not effect.sensitive


def _named_reads(checks: Mapping[Effect, Checked]) -> Iterator[Effect]:
    """Yield the reading of files that commands name, which is reading like any other."""
    for checked in checks.values():
        for file in checked.files:
            yield Effect(EffectKind.READ, file.path, "read_file", inside=file.inside)


def suggest_rules(
    call: ResolvedCall,
    invocation: Invocation,
    commands: Callable[[Effect], tuple[str, ...]],
) -> tuple[Rule, ...]:
    """Return the narrowest allow rules that would cover this call next time.

    Empty when no rule can say it without saying more. `commands` returns the arguments of rules
    for a command.
    """
    texts: list[str | None] = []
    if call.tool.origin.source is not Source.BUILTIN or not invocation.effects:
        secrets = [effect for effect in invocation.effects if effect.sensitive]
        texts = [call.tool.name, *map(_suggestion, secrets)]
    else:
        for effect in invocation.effects:
            if effect.kind is EffectKind.EXECUTE and effect.cwd:
                texts += [f"run_command({command})" for command in commands(effect)] or [None]
            elif not _needs_no_rule(effect):
                texts.append(_suggestion(effect))
    if None in texts:
        return ()
    unique = dict.fromkeys(text for text in texts if text is not None)
    rules = (_allow_rule(text, call.tool, invocation.uses) for text in unique)
    found = tuple(rule for rule in rules if rule is not None)
    return found if len(found) == len(unique) else ()


def _digest(tool: ToolDefinition, uses: Iterable[ToolDefinition]) -> str:
    """Return what stands for a tool with all that it runs: another tool's change is its own."""
    digests = [tool.digest, *sorted({used.digest for used in uses} - {tool.digest})]
    if len(digests) > 1:
        digests = [hashlib.sha256("\n".join(digests).encode()).hexdigest()]
    return digests[0][:DIGEST_CHARS]


def _allow_rule(text: str, tool: ToolDefinition, uses: Iterable[ToolDefinition]) -> Rule | None:
    try:
        rule = parse_rule(Verdict.ALLOW, text, "your answer")
    except RuleError:
        return None
    return replace(rule, tool_digest=_digest(tool, uses)) if text == tool.name else rule


def _suggestion(effect: Effect) -> str | None:
    match effect.kind:
        case EffectKind.EXECUTE:
            command = suggest_command(effect.value)
            return f"run_command({command})" if command else None
        case EffectKind.NETWORK:
            return f"network:{effect.value}"
        case EffectKind.PROGRAM:
            return effect.subject
        case _:
            special = any(character in effect.value for character in "*?")
            subject = _SUBJECTS[effect.kind]
            return None if special else f"{subject}({effect.value})"
