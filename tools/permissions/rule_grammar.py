"""The grammar of permission rules: what their text means (R8-R11).

| Rule | Matches |
|---|---|
| `deploy` | every call of the tool of this name |
| `run_command`, `read_file`, `write_file` | every command, read, write, whichever tool does it |
| `run_command(npm test:*)` | commands that begin with these words |
| `run_command(make lint)` | this command |
| `write_file(src/**)` | paths: `*`, `?` within a name, `**` across; relative to the workspace |
| `tool:read` | tools with this tag; tools without tags never (X149) |
| `mcp:github/*` | tools of an MCP server |
| `network:api.github.com` | connections to a host; `*.github.com` its subdomains |
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from tools.definition import EffectKind
from tools.permissions.shell import CommandPattern
from tools.record import record


class Verdict(StrEnum):
    """What a rule says. The strictest of all matching rules wins."""

    DENY = "deny"
    ASK = "ask"
    ALLOW = "allow"


class RuleError(ValueError):
    """A rule cannot be read. The message names the rule, what is wrong and what is allowed."""


@record
class Rule:
    """One rule. `text` is the rule as written; `origin` says where (flag, file:line, answer).

    A rule that names a tool holds with a `tool_digest` (the first half of the definition's) for
    that definition only: an answer about a tool file says nothing of what the file holds later.
    It is written `deploy@<digest>`.
    """

    verdict: Verdict
    text: str
    origin: str
    tool_digest: str = ""

    @property
    def stored(self) -> str:
        """The rule as a settings file holds it."""
        return f"{self.text}@{self.tool_digest}" if self.tool_digest else self.text


@record
class ByName:
    """Matches calls of a tool, and effects of the kind that the name stands for."""

    name: str


@record
class ByTag:
    """Matches calls of tools with a tag."""

    tag: str


@record
class ByServer:
    """Matches calls of tools of an MCP server."""

    server: str
    tool: str


@record
class ByHost:
    """Matches connections to a host, or to its subdomains."""

    labels: tuple[str, ...]
    subdomains: bool


@record
class ByPath:
    """Matches reading or writing of files."""

    kind: EffectKind
    pattern: str


Pattern: TypeAlias = ByName | ByTag | ByServer | ByHost | ByPath | CommandPattern


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_DIGEST = re.compile(r"[0-9a-f]{32}")
DIGEST_CHARS = 32
"""How much of a definition's digest a stored rule holds."""

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
_FORMS = (
    "a tool's name, run_command(words:*), read_file(path), write_file(path), tool:tag, "
    "mcp:server/tool, network:host"
)


def parse_rule(verdict: Verdict, text: str, origin: str) -> Rule:
    """Return the rule written as `text`. Raises RuleError when it is none."""
    name, at, digest = text.strip().partition("@")
    if at and _NAME.fullmatch(name) and _DIGEST.fullmatch(digest):
        return Rule(verdict, name, origin, digest)
    _pattern(text)
    return Rule(verdict, text.strip(), origin)


def pattern_of(rule: Rule) -> Pattern:
    """Return what a rule matches, taken apart."""
    return _pattern(rule.text)


def parse_tag_rule(verdict: Verdict, text: str, origin: str) -> Rule:
    """Return the rule of an `--auto-approve` or `--auto-deny` flag, which is `tool:<tag>`.

    Raises RuleError.
    """
    if not isinstance(_pattern(text), ByTag):
        raise RuleError(f"{text!r} is not tool:<tag>, e.g. tool:read")
    return Rule(verdict, text.strip(), origin)


def _pattern(text: str) -> Pattern:
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
    return ByName(text)


def _with_argument(text: str, name: str, argument: str) -> Pattern:
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
    return ByPath(kind, argument)


def _prefixed(text: str, prefix: str, rest: str) -> Pattern:
    match prefix:
        case "tool" if _NAME.fullmatch(rest):
            return ByTag(rest)
        case "mcp" if rest.count("/") == 1 and all(rest.split("/")):
            server, tool = rest.split("/")
            return ByServer(server, tool)
        case "network":
            labels = host_labels(rest.removeprefix("*."))
            if labels:
                return ByHost(labels, rest.startswith("*."))
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
