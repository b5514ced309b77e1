"""What a tool is, what a call of it is, and what comes back.

Every source (built-in, custom file, MCP, team, session) is read into a `ToolDefinition`; every
call of every source is a `ToolCall`, becomes a `ResolvedCall` once its arguments are known to be
valid, an `Invocation` once the tool has said what it will do, and ends as one `ToolResult`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, field
from enum import IntEnum, StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tools.record import open_record, record

if TYPE_CHECKING:
    from tools.actions import Action
    from tools.confinement import Confinement
    from tools.permissions.grant import Grant

JsonObject: TypeAlias = dict[str, Any]


class Source(StrEnum):
    """Where a tool comes from, stamped by its loader and never by the tool file (E9, X57)."""

    BUILTIN = "built-in"
    CUSTOM = "custom"
    MCP = "mcp"
    TEAMS = "teams"
    SESSION = "session"


class Scope(StrEnum):
    """Whose tool it is; the nearer scope wins (X2)."""

    LOCAL = "local"
    USER = "user"
    GLOBAL = "global"
    TEAM = "team"


class Risk(IntEnum):
    """How much a call can do; the highest of several statements counts (X9)."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2
    CRITICAL = 3


@record
class Origin:
    """Where a definition was read.

    `path` and `line` (1-based) are None for tools that no file defines; `digest` is the sha256 of
    the file's bytes, to which trust is bound. `enforced` tools of a team cannot be switched off.
    """

    source: Source
    format: str
    scope: Scope | None = None
    path: Path | None = None
    line: int | None = None
    digest: str = ""
    enforced: bool = False


@record
class Limits:
    """Bounds of one call. `timeout_ms` None means that the tool sets its own deadline.

    `max_memory_bytes` bounds the process tree as far as the machine can (None: no bound).
    """

    timeout_ms: int | None = None
    max_memory_bytes: int | None = None


@record
class Security:
    """What a definition declares about rights (C59-C62).

    `privilege`: same-as-user, reduced, elevated. `isolation`: none, process, sandbox, container.
    `permissions` are templates such as `filesystem:write:{DIR}`.
    """

    privilege: str = "same-as-user"
    isolation: str = "process"
    permissions: tuple[str, ...] = ()
    justification: str = ""


@record
class ToolTest:
    """A test that a tool carries (C75-C81). `expected` maps expectation keys to values."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    expected: Mapping[str, Any] = field(default_factory=dict)
    cleanup: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()


@open_record
class ToolDefinition:
    """A tool as data: everything the model, the gate and the engine need to know about it.

    `parameters` is the JSON Schema object exactly as the model sees it. `enabled` is what the
    definition itself says; the registry decides whether the tool is really on. `unavailable`
    says why the tool cannot run on this machine, `deprecated` what to use instead. `metadata`
    holds what only people read: `tags`, `category`, `version`, `changelog`, `search-keywords`.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    action: Action
    origin: Origin
    risk: Risk = Risk.HIGH
    parallel: bool = False
    limits: Limits = Limits()
    declared_token_cost: int | None = None
    enabled: bool = True
    unavailable: str = ""
    security: Security = Security()
    tests: tuple[ToolTest, ...] = ()
    deprecated: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def wire_name(self) -> str:
        """The name sent to the model: legal for the API, the same for the same `name` (X12)."""
        return wire_name(self.name)

    @cached_property
    def wire(self) -> JsonObject:
        """The function schema as it is sent (A13)."""
        return {
            "type": "function",
            "function": {
                "name": self.wire_name,
                "description": self.description,
                "parameters": dict(self.parameters),
            },
        }

    @cached_property
    def digest(self) -> str:
        """Sha256 (hex) over what the model sees and what would run: grants are bound to it."""
        return digest_of([self.wire, type(self.action).__name__, asdict(self.action)])


def wire_name(name: str) -> str:
    """Return `name` as the API accepts it: other characters become `_`, long names get a hash."""
    legal = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    if len(legal) <= 64:
        return legal
    return f"{legal[:55]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def digest_of(value: object) -> str:
    """Return the sha256 (hex) of `value` as canonical JSON."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@record
class ToolCall:
    """What the model (or a person) asked for: `arguments_json` is the text as it arrived."""

    id: str
    name: str
    arguments_json: str


def outer_id(id_: str) -> str:
    """Return the id of the call that made the call `id_`; empty where none did."""
    return id_.rpartition("/")[0]


@open_record
class ResolvedCall:
    """A call whose tool exists, is on, and whose arguments fit its schema.

    `background` asks for a call of a custom tool that gives its result later.
    """

    id: str
    tool: ToolDefinition
    arguments: JsonObject
    background: bool = False

    @cached_property
    def arguments_digest(self) -> str:
        """Sha256 (hex) of the arguments a grant is given for."""
        return digest_of(self.arguments)

    def made(self, number: int, tool: ToolDefinition, arguments: JsonObject) -> ResolvedCall:
        """Return a call that this one makes while it runs."""
        return ResolvedCall(f"{self.id}/{number}", tool, arguments)

    @property
    def outermost_id(self) -> str:
        """The id of the call that made this one; its own where nobody did."""
        return self.id.partition("/")[0]

    def as_call(self) -> ToolCall:
        """Return it as it would have been asked for."""
        return ToolCall(self.id, self.tool.name, json.dumps(self.arguments))


class EffectKind(StrEnum):
    """What a call may do to the world, as far as rules are concerned."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"
    SERVER = "server"
    PROGRAM = "program"


@record
class Effect:
    """One thing a call will do, which permission rules are matched against.

    `value` is a resolved absolute path (READ, WRITE), a command line (EXECUTE), a host (NETWORK),
    an MCP server and the name of its tool, `server/tool` (SERVER), or the tool whose own program
    runs behind walls (PROGRAM): what that does beyond itself is a call of its own. `subject` is the
    tool name that rules use for it: a custom tool's command also carries `run_command` (A43).
    `inside` says that a path lies in the workspace. `protected` marks what asks in every mode (R14,
    R27), `sensitive` what asks even to be read (R40); both give the reason in words, or are empty.
    `cwd` is the absolute directory in which a command starts; without it nothing is known of the
    files that the command names.
    """

    kind: EffectKind
    value: str
    subject: str
    inside: bool = False
    protected: str = ""
    sensitive: str = ""
    cwd: str = ""


@record
class TextDisplay:
    """Plain text for the person."""

    text: str


@record
class DiffDisplay:
    """A change of one file: `diff` is a unified diff, `created` says that the file is new."""

    path: str
    diff: str
    created: bool = False


@record
class CommandDisplay:
    """A command as it will run: `command` whole, `cwd` the directory, `note` one line more."""

    command: str
    cwd: str
    note: str = ""


Display: TypeAlias = TextDisplay | DiffDisplay | CommandDisplay


class Outcome(StrEnum):
    """How a call ended."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


@record
class ToolResult:
    """What a call gave.

    `text` is for the model and never empty; `display` is for the person. `duration_ms` covers the
    run, not the wait for an answer (E13). `full_output` is a 0600 file with what was cut from
    `text` (R43). `image` is the file asked for where it holds an image, which text cannot show: a
    message of the person can take it along. `stop_turn` says that the person refused without a
    word: the turn ends.
    """

    text: str
    outcome: Outcome = Outcome.OK
    display: Display | None = None
    exit_code: int | None = None
    duration_ms: int = 0
    full_output: Path | None = None
    image: Path | None = None
    stop_turn: bool = False

    @property
    def success(self) -> bool:
        """True when the call did what it was asked to do (E12)."""
        return self.outcome is Outcome.OK


Progress: TypeAlias = Callable[[str], None]
"""Takes output (already safe for a terminal) while a call runs."""


@record
class Invocation:
    """A call that is ready to run: what it will do, how that looks, and the function that does it.

    Making one has no effect on the world beyond reading files. `exclusive` holds keys such as
    `file:/a/b`: calls of one message that share a key run in their order, all others at once. A
    `dependent` one was made from what an earlier call with the same key may still change: it is
    made again, and asked about, when that call has run. `hazards` say in words what makes this
    call, with its values, a high risk (X85, X88, X89). `uses` are the tools it is made of: the
    base of an alias, the tools of its steps. A rule against one of them is a rule against the call.
    `permissions` are those that the tool declares to need (X121). `confinement` is what its
    processes run behind, None where they run as the user.
    """

    title: str
    effects: tuple[Effect, ...]
    preview: Display
    run: Callable[[Grant, Progress], Awaitable[ToolResult]]
    warnings: tuple[str, ...] = ()
    hazards: tuple[str, ...] = ()
    exclusive: frozenset[str] = frozenset()
    dependent: bool = False
    uses: tuple[ToolDefinition, ...] = ()
    confinement: Confinement | None = None
    permissions: tuple[str, ...] = ()


class ToolError(Exception):
    """A call cannot be done. The message goes to the model: what was wrong and what to do next."""
