"""Permission rules: their grammar, and how a call is judged by them (R8-R11).

| Rule | Matches |
|---|---|
| `deploy` | every call of the tool of this name |
| `run_command`, `read_file`, `write_file` | every command, read, write, whichever tool does it |
| `run_command(npm test:*)` | commands that begin with these words |
| `run_command(make lint)` | this command |
| `write_file(src/**)` | paths: `*`, `?` within a name, `**` across; relative to the workspace |
| `tool:read` | tools with this tag; tools without tags never (X149) |
| `mcp:github/*`, `mcp:github/get_*` | tools of an MCP server |
| `network:api.github.com` | connections to a host; `*.github.com` its subdomains |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from tools.actions import AliasAction
from tools.definition import (
    Effect,
    EffectKind,
    Invocation,
    ResolvedCall,
    Source,
    ToolDefinition,
)
from tools.permissions.paths import PathPattern
from tools.permissions.shell import (
    AllowedCommands,
    CommandPattern,
    Match,
    RestrictedCommands,
    suggest_command,
)


class Verdict(StrEnum):
    """What a rule says. The strictest of all matching rules wins."""

    DENY = "deny"
    ASK = "ask"
    ALLOW = "allow"


class RuleError(ValueError):
    """A rule cannot be read. The message names the rule, what is wrong and what is allowed."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `text` is the rule as written; `origin` says where (flag, file:line, answer).

    A rule that names a tool holds with a `tool_digest` for that definition only: an answer about a
    tool file says nothing of what the file holds later.
    """

    verdict: Verdict
    text: str
    origin: str
    tool_digest: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rules say of a call, and the rule that decided.

    ASK with a DENY rule means that the rule may apply: the command hides what it runs. A person
    must answer then, whatever else is allowed.
    """

    verdict: Verdict
    rule: Rule


@dataclass(frozen=True, slots=True)
class _ByName:
    """Matches calls of a tool, and effects of the kind that the name stands for."""

    name: str


@dataclass(frozen=True, slots=True)
class _ByTag:
    tag: str


@dataclass(frozen=True, slots=True)
class _ByServer:
    server: str
    tool: str


@dataclass(frozen=True, slots=True)
class _ByHost:
    labels: tuple[str, ...]
    subdomains: bool


@dataclass(frozen=True, slots=True)
class _ByPath:
    kind: EffectKind
    pattern: str


_Pattern = _ByName | _ByTag | _ByServer | _ByHost | _ByPath | CommandPattern

_SUBJECTS = {
    EffectKind.READ: "read_file",
    EffectKind.WRITE: "write_file",
    EffectKind.EXECUTE: "run_command",
    EffectKind.NETWORK: "",
    EffectKind.SERVER: "",
}
_MODEST = frozenset({"tool:read", "tool:write"})
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
_FORMS = (
    "a tool's name, run_command(words:*), read_file(path), write_file(path), tool:tag, "
    "mcp:server/tool, network:host"
)


def parse_rule(verdict: Verdict, text: str, origin: str) -> Rule:
    """Return the rule written as `text`. Raises RuleError when it is none."""
    _pattern(text)
    return Rule(verdict, text.strip(), origin)


def parse_tag_rule(verdict: Verdict, text: str, origin: str) -> Rule:
    """Return the rule of an `--auto-approve` or `--auto-deny` flag, which is `tool:<tag>`.

    Raises RuleError.
    """
    if not isinstance(_pattern(text), _ByTag):
        raise RuleError(f"{text!r} is not tool:<tag>, e.g. tool:read")
    return Rule(verdict, text.strip(), origin)


def _pattern(text: str) -> _Pattern:
    text = text.strip()
    name, parenthesis, rest = text.partition("(")
    if parenthesis:
        if not rest.endswith(")"):
            raise RuleError(f"the rule {text!r} has no closing parenthesis at its end")
        return _with_argument(text, name, rest[:-1].strip())
    prefix, colon, rest = text.partition(":")
    if colon:
        return _prefixed(text, prefix, rest)
    if not _NAME.fullmatch(text):
        raise RuleError(f"{text!r} is not a rule. Rules are: {_FORMS}")
    return _ByName(text)


def _with_argument(text: str, name: str, argument: str) -> _Pattern:
    if not argument:
        raise RuleError(
            f"the rule {text!r} has nothing between its parentheses; {name} alone is all"
        )
    if name == "run_command":
        try:
            return CommandPattern.parse(argument)
        except ValueError as error:
            raise RuleError(f"the rule {text!r} cannot be used: {error}") from None
    kind = {"read_file": EffectKind.READ, "write_file": EffectKind.WRITE}.get(name)
    if kind is None:
        raise RuleError(
            f"the rule {text!r} has an argument, which only run_command(…), read_file(…) and "
            f"write_file(…) take; they cover every tool that runs, reads or writes"
        )
    if ".." in Path(argument).parts or "\0" in argument:
        raise RuleError(f"the rule {text!r} holds '..'; write the path it means")
    return _ByPath(kind, argument)


def _prefixed(text: str, prefix: str, rest: str) -> _Pattern:
    match prefix:
        case "tool" if _NAME.fullmatch(rest):
            return _ByTag(rest)
        case "mcp" if rest.count("/") == 1 and all(rest.split("/")):
            server, tool = rest.split("/")
            return _ByServer(server, tool)
        case "network":
            labels = host_labels(rest.removeprefix("*."))
            if labels:
                return _ByHost(labels, rest.startswith("*."))
            raise RuleError(f"the rule {text!r} names no host, e.g. network:api.github.com")
        case _:
            raise RuleError(f"{text!r} is not a rule. Rules are: {_FORMS}")


def host_labels(host: str) -> tuple[str, ...]:
    """Return the labels of a host name, lower case, IDNA encoded; empty when it is none (R31)."""
    try:
        name = host.encode("idna").decode("ascii").lower() if not host.isascii() else host.lower()
    except UnicodeError:
        return ()
    labels = tuple(name.removesuffix(".").split("."))
    return labels if all(_LABEL.fullmatch(label) for label in labels) else ()


class RuleSet:
    """All rules in force. Deny beats ask beats allow, whatever their order (R8).

    Patterns of paths are relative to `root`, a real path; programs found below it are never
    allowed by their bare name (R10).
    """

    def __init__(self, rules: Iterable[Rule] = (), root: Path | None = None) -> None:
        self._root = (root or Path.cwd()).resolve()
        self._rules: list[Rule] = []
        self._tables = {verdict: _Table(verdict, self._root) for verdict in Verdict}
        for rule in rules:
            self.add(rule)

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
        deny, doubtful = self._tables[Verdict.DENY].restricts(call, invocation)
        if deny is not None:
            return Judgement(Verdict.ASK if doubtful else Verdict.DENY, deny)
        ask, _ = self._tables[Verdict.ASK].restricts(call, invocation)
        if ask is not None:
            return Judgement(Verdict.ASK, ask)
        allow = self._tables[Verdict.ALLOW].covers(call, invocation)
        return Judgement(Verdict.ALLOW, allow) if allow is not None else None

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


class _Table:
    """The rules of one verdict, arranged so that a call is looked up and not searched (R42)."""

    def __init__(self, verdict: Verdict, root: Path) -> None:
        self.strict = verdict is not Verdict.ALLOW
        self.root = root
        self.names: dict[str, Rule] = {}
        self.definitions: dict[tuple[str, str], Rule] = {}
        self.tags: dict[str, Rule] = {}
        self.servers: list[tuple[_ByServer, Rule]] = []
        self.hosts: dict[_ByHost, Rule] = {}
        self.paths: list[tuple[EffectKind, PathPattern, Rule]] = []
        self.allowed: AllowedCommands[Rule] = AllowedCommands()
        self.restricted: RestrictedCommands[Rule] = RestrictedCommands()

    def add(self, rule: Rule) -> None:
        match _pattern(rule.text):
            case _ByName(name) if rule.tool_digest:
                self.definitions.setdefault((name, rule.tool_digest), rule)
            case _ByName(name):
                self.names.setdefault(name, rule)
            case _ByTag(tag):
                self.tags.setdefault(tag, rule)
            case _ByServer() as server:
                self.servers.append((server, rule))
            case _ByHost() as host:
                self.hosts.setdefault(host, rule)
            case _ByPath(kind, pattern):
                compiled = PathPattern(pattern, self.root, generous=self.strict)
                self.paths.append((kind, compiled, rule))
            case CommandPattern() as command:
                (self.restricted if self.strict else self.allowed).add(command, rule)

    def restricts(self, call: ResolvedCall, invocation: Invocation) -> tuple[Rule | None, bool]:
        """Return a rule that matches anything of the call, and whether that is only possible."""
        tools = (call.tool, *invocation.uses)
        found = next(filter(None, map(self._of_tool, tools)), None)
        doubtful: Rule | None = None
        for effect in invocation.effects:
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

    def covers(self, call: ResolvedCall, invocation: Invocation) -> Rule | None:
        """Return a rule of those that together allow all of the call; None when they do not."""
        whole = self._of_tool(call.tool) or self._of_base(call.tool, invocation)
        if whole is not None and invocation.hazards and whole.text in _MODEST:
            # The tag says how little the tool does, which these values may change (X10, X88).
            whole = None
        rules: list[Rule] = [] if whole is None else [whole]
        for effect in invocation.effects:
            rule = self._allowing(effect, whole)
            if rule is not None:
                rules.append(rule)
            elif not _needs_no_rule(effect):
                return None
        return rules[0] if rules else None

    def _allowing(self, effect: Effect, whole: Rule | None) -> Rule | None:
        if effect.sensitive:
            # Only a rule that writes out the path opens what asks even to be read (R40).
            return self.rule_for_path(effect.kind, effect.value, literal=True)
        found = whole or self._of_kind(effect) or self._of_value(effect)
        if found is None and effect.kind is EffectKind.EXECUTE:
            found = self.allowed.covering(effect.value, self.root)
        return found

    def _of_base(self, tool: ToolDefinition, invocation: Invocation) -> Rule | None:
        """Return the rule for the tags that an alias without its own has from its base (C141)."""
        if not isinstance(tool.action, AliasAction) or tool.metadata.get("tags"):
            return None
        of_base = [used for used in invocation.uses if not isinstance(used.action, AliasAction)]
        return self._of_tags(of_base[0]) if of_base else None

    def _of_tool(self, tool: ToolDefinition) -> Rule | None:
        if (tool.name, tool.digest) in self.definitions:
            return self.definitions[tool.name, tool.digest]
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
        exact = self.hosts.get(_ByHost(labels, False))
        parents = (self.hosts.get(_ByHost(labels[i:], True)) for i in range(1, len(labels)))
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


def suggest_rules(call: ResolvedCall, invocation: Invocation) -> tuple[Rule, ...]:
    """Return the narrowest allow rules that would cover this call next time.

    Empty when no rule can say it without saying more.
    """
    if call.tool.origin.source is not Source.BUILTIN or not invocation.effects:
        secrets = [effect for effect in invocation.effects if effect.sensitive]
        texts = [call.tool.name, *map(_suggestion, secrets)]
    else:
        needed = [effect for effect in invocation.effects if not _needs_no_rule(effect)]
        texts = [_suggestion(effect) for effect in needed]
    if None in texts:
        return ()
    unique = dict.fromkeys(text for text in texts if text is not None)
    rules = (_allow_rule(text, call.tool) for text in unique)
    found = tuple(rule for rule in rules if rule is not None)
    return found if len(found) == len(unique) else ()


def _allow_rule(text: str, tool: ToolDefinition) -> Rule | None:
    try:
        rule = parse_rule(Verdict.ALLOW, text, "your answer")
    except RuleError:
        return None
    return replace(rule, tool_digest=tool.digest) if text == tool.name else rule


def _suggestion(effect: Effect) -> str | None:
    match effect.kind:
        case EffectKind.EXECUTE:
            command = suggest_command(effect.value)
            return f"run_command({command})" if command else None
        case EffectKind.NETWORK:
            return f"network:{effect.value}"
        case _:
            special = any(character in effect.value for character in "*?")
            subject = _SUBJECTS[effect.kind]
            return None if special else f"{subject}({effect.value})"
