"""The architecture, read from the source: who may import what, and who may act on the world.

The tables below are the rules. A test that fails names the line and what to do about it; a new
module is placed by adding it to `LAYERS`.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("prompts", "tools", "agent")

LAYERS = (
    ("prompts",),
    ("tools.record", "tools.clock", "tools.jsontext"),
    ("tools.actions", "tools.confinement", "tools.hook_settings", "tools.yaml_mistakes"),
    (
        "tools.definition",
        "tools.hosts",
        "tools.logins",
        "tools.secret_values",
        "tools.storage",
        "tools.yamltext",
    ),
    ("tools.connecting",),
    ("tools.events", "tools.cost"),
    ("tools.formats",),
    ("tools.files.paths", "tools.files.programs", "tools.files.protected"),
    ("tools.permissions",),
    ("tools.engine",),
    ("tools.files",),
    ("tools.builtin",),
    ("tools.code",),
    ("tools.sources",),
    ("tools.schema", "tools.tool_names", "tools.tool_search", "tools.advertising"),
    ("tools.registry",),
    ("tools.find_tools",),
    ("tools.hooks",),
    ("tools.executor",),
    ("tools.commands",),
    (
        "agent.errors",
        "agent.streams",
        "agent.log",
        "agent.redaction",
        "agent.flags",
        "agent.signals",
        "agent.messages",
        "agent.model.base",
    ),
    ("agent.events", "agent.event_json"),
    (
        "agent.settings",
        "agent.settings_files",
        "agent.settings_hooks",
        "agent.settings_keys",
        "agent.settings_values",
        "agent.settings_edit",
        "agent.settings_write",
        "agent.settings_view",
        "agent.instructions",
        "agent.user_commands",
    ),
    ("agent.model", "agent.conversation", "agent.tokens"),
    ("agent.retry",),
    ("agent.aside",),
    ("agent.compaction",),
    ("agent.loop",),
    ("agent.images",),
    (
        "agent.journal",
        "agent.replay",
        "agent.session_summary",
        "agent.session",
        "agent.shown_events",
        "agent.context",
        "agent.undo",
    ),
    ("agent.tool_use",),
    ("agent.ui",),
    ("agent.configuration", "agent.configured_model", "agent.project", "agent.team"),
    ("agent.mcp_by_hand", "agent.tool_registry"),
    ("agent.chat",),
    ("agent.jobs_chat", "agent.mcp_chat", "agent.team_chat", "agent.undo_chat"),
    ("agent.slash_words",),
    ("agent.slash",),
    ("agent.choices",),
    ("agent.spec_loop",),
    ("agent.ui.loop_view",),
    ("agent.app",),
    (
        "agent.batch",
        "agent.interactive",
        "agent.config_change",
        "agent.config_command",
        "agent.permission_check",
        "agent.permissions_command",
        "agent.session_export",
        "agent.sessions_command",
        "agent.tools_command",
    ),
    ("agent.doctor", "agent.doctor_command"),
    ("agent.serving",),
    ("agent.mcp_command",),
    ("agent.team_command",),
    ("agent.help_command",),
    ("agent.loop_report", "agent.loop_run"),
    ("agent.loop_command",),
    ("agent.session_by_hand",),
    ("agent.tool_by_hand",),
    ("agent.tool_command",),
    ("agent.demo",),
    ("agent.parser",),
    ("agent.cli",),
)
"""From the ground up: a module imports from its own layer and those above this line, never from
one below. A name stands for the module and all within it; the longest name that fits counts."""

BARE_PACKAGES = frozenset({"tools", "agent"})
"""Packages whose own `__init__` belongs to no layer and therefore imports nothing."""

DATA = ("agent/demo/project", "agent/data")
"""Folders with files that are shipped but never imported."""

STARTS_PROCESSES = {
    "tools.engine.process": "runs what was granted",
    "tools.engine.service": "runs MCP servers that were granted",
    "tools.engine.group": "ends what those started",
    "tools.engine.watchdog": "ends it where opta is killed, with a script of opta's own",
    "tools.engine.javascript": "evaluates expressions in a child; no program of anyone's",
    "tools.code.runtimes": "asks node for its version",
    "tools.code.syntax": "lets deno or node parse code, without running it",
    "tools.engine.isolation.launcher": "confines itself and becomes the program it was given",
    "tools.engine.isolation.proof": "tries what this machine can enforce, with opta's own program",
    "tools.engine.isolation.memory": "tries memory limits, with head and tail",
    "tools.engine.isolation.container": "removes the container of a call that was stopped",
    "agent.ui.editor": "opens the person's editor, at the person's command",
    "agent.ui.clipboard": "asks a program of the machine for what the person pastes",
    "agent.ui.browser": "shows an address that the person agreed to visit",
}
WRITES_FILES = {
    "tools.files.workspace": "writes what was granted",
    "tools.files.directory": "does it for the workspace",
    "tools.storage": "opta's own files",
    "tools.engine.isolation.guard": "renames what a confined call made against the rules",
    "tools.engine.isolation.memory": "makes and removes control groups",
    "tools.engine.isolation.inside": "tries to write what it must not be able to",
    "agent.demo": "its project in a temporary directory",
    "agent.settings_write": "gives a project's settings file its own mode back",
    "agent.ui.editor": "hands the person's text to the person's editor",
    "agent.tool_command": "exports a tool where the person said",
    "tools.commands.tool.store": "gives tool files the modes of the project or the machine",
    "agent.serving.stdio": "writes messages to standard output",
    "tools.engine.capture": "spools long output to a private file",
}
GUARDED = {
    "tools.files.directory": ("tools.files.workspace", "tools.files.walk"),
    "tools.engine.group": ("tools.engine.process", "tools.engine.service"),
    "tools.engine.watchdog": ("tools.engine.group",),
    "tools.engine.isolation.enter": ("tools.engine.process", "tools.engine.service"),
}
"""Modules that act without asking for a grant, and who may use them because they do ask."""

MINTS_GRANTS = {"tools.permissions.gate": "the one gate"}
TALKS_TO_TERMINAL = {
    "tools.code.bootstrap": "is a process of its own, which prints what the program prints",
    "tools.engine.javascript_worker": "is a process of its own, which talks to opta through pipes",
    "agent.ui": "the front ends",
    "agent.cli": "the command line",
    "agent.parser": "its usage errors and --help",
    "agent.streams": "makes the standard streams usable before anything else runs",
    "agent.batch": "opta -p",
    "tools.engine.isolation.launcher": "a program of its own, behind walls",
    "tools.engine.isolation.inside": "a program of its own, behind walls",
    "agent.demo": "opta demo",
    "agent.loop_run": "opta loop",
    "agent.interactive": "the chat",
    "agent.sessions_command": "opta sessions",
    "agent.mcp_command": "opta mcp",
    "agent.serving.command": "opta mcp serve",
    "agent.team_command": "opta team",
    "agent.tool_command": "opta tool",
    "agent.tools_command": "opta tools",
    "tools.commands": "the same things by hand",
}
USES_NETWORK = {
    "agent.model": "the model client",
    "tools.code.bootstrap": "talks over the pair of sockets it was given",
    "tools.code.channel": "a pair of sockets to a program that was started",
    "tools.engine.isolation.inside": "tries whether a sandbox has one",
    "agent.serving.http": "listens on loopback, for clients with the token",
    "tools.connecting": "how servers are reached",
    "tools.sources.mcp.http": "servers that have an address",
    "tools.sources.mcp.authorization": "signs requests to them",
    "tools.sources.mcp.login": "logins to them",
    "tools.sources.mcp.renewal": "renews those logins",
    "tools.sources.team.http": "the team's server",
}

HEAVY = {
    "httpx2": ("agent.model",),
    "jsonschema_rs": (),
    "mcp": (),
    "pathspec": (),
    "prompt_toolkit": ("agent.ui",),
    "pygments": (),
    "rich": ("agent.ui",),
    "ruamel": (),
    "tiktoken": (),
    "tree_sitter": (),
    "tree_sitter_bash": (),
}
"""What takes tens of milliseconds to import, and who may do so while being imported itself."""

FUNCTION_LINES = 60
CLASS_METHODS = 20
MODULE_LINES = 500

PROCESS_CALLS = re.compile(
    r"os\.(system|popen|fork|forkpty|exec\w+|spawn\w+|posix_spawnp?|startfile)"
    r"|(.*\.)?create_subprocess_(exec|shell)|(.*\.)?subprocess_(exec|shell)"
    r"|(.*\.)?ProcessPoolExecutor"
)
PROCESS_MODULES = frozenset({"subprocess", "pty", "multiprocessing", "ctypes", "webbrowser"})
WRITE_CALLS = re.compile(
    r"os\.(replace|rename|renames|remove|unlink|rmdir|removedirs|mkdir|makedirs|mkfifo|chmod|chown"
    r"|symlink|link|truncate|write|utime)"
    r"|shutil\.(copy\w*|move|rmtree|chown|make_archive|unpack_archive)"
    r"|tempfile\.\w+"
    r"|.*\.(write_text|write_bytes|unlink|rmdir|mkdir|touch|chmod|symlink_to|hardlink_to)"
)
WRITE_FLAGS = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)")
NETWORK_MODULES = frozenset(
    {"httpx2", "socket", "ssl", "urllib.request", "http.client", "mcp.client.streamable_http"}
)


@dataclass(frozen=True)
class Module:
    """A source file, parsed."""

    name: str
    path: Path
    root: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @cached_property
    def type_only(self) -> frozenset[ast.AST]:
        """All nodes below `if TYPE_CHECKING:`, which never run."""
        guards = (n for n in ast.walk(self.tree) if isinstance(n, ast.If))
        bodies = (n.body for n in guards if ast.unparse(n.test).endswith("TYPE_CHECKING"))
        return frozenset(node for body in bodies for top in body for node in ast.walk(top))

    def imports(self, within: ast.AST | None = None) -> Iterator[tuple[int, str]]:
        """Yield line and dotted name of each import that runs; `from a import b` gives `a.b`."""
        for node in ast.walk(within or self.tree):
            if node in self.type_only:
                continue
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    parents = self.package.split(".")
                    base = ".".join([*parents[: len(parents) - node.level + 1], base]).strip(".")
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)

    def top_level_imports(self) -> Iterator[tuple[int, str]]:
        """Yield the imports that run when the module itself is imported."""
        pending: list[ast.AST] = [self.tree]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self.imports(node)
            elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                pending.extend(ast.iter_child_nodes(node))

    @cached_property
    def calls(self) -> list[tuple[ast.Call, str]]:
        """Each call with the dotted name of what is called, `from` imports resolved."""
        names = {target.rpartition(".")[2]: target for _, target in self.imports()}
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        called = [ast.unparse(node.func) for node in nodes]
        return [(node, names.get(name, name)) for node, name in zip(nodes, called, strict=True)]

    def at(self, line: int) -> str:
        return f"{self.path.relative_to(self.root)}:{line}"


def read_modules(root: Path) -> list[Module]:
    files = sorted(file for package in PACKAGES for file in (root / package).rglob("*.py"))
    modules = []
    for file in files:
        if file.relative_to(root).as_posix().startswith(DATA):
            continue
        parts = file.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules.append(Module(name, file, root))
    return modules


@cache
def source() -> list[Module]:
    """Return all modules of opta, read once for all tests."""
    return read_modules(ROOT)


def within(name: str, places: tuple[str, ...] | dict[str, str]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


def layer_of(name: str) -> int | None:
    fitting = [
        (len(place), number)
        for number, layer in enumerate(LAYERS)
        for place in layer
        if within(name, (place,))
    ]
    return max(fitting)[1] if fitting else None


def own_module(target: str, known: frozenset[str]) -> str | None:
    """Return the module of ours that an import loads, or None for other people's code."""
    while target and target not in known:
        target = target.rpartition(".")[0]
    return target or None


def check_layers(modules: list[Module]) -> Iterator[str]:
    known = frozenset(module.name for module in modules)
    for module in modules:
        mine = layer_of(module.name)
        if mine is None and module.name not in BARE_PACKAGES:
            yield f"{module.at(1)}: {module.name} has no place: add it to LAYERS in {__name__}"
            continue
        for line, other in dict.fromkeys((n, own_module(t, known)) for n, t in module.imports()):
            theirs = layer_of(other) if other else None
            if theirs is not None and (mine is None or theirs > mine):
                yield (
                    f"{module.at(line)}: {module.name} imports {other}, which stands above it. "
                    "Move what is needed down, or pass it in as an argument"
                )


def check_cycles(modules: list[Module]) -> Iterator[str]:
    known = frozenset(module.name for module in modules)
    graph = {
        module.name: sorted(
            {t for _, n in module.top_level_imports() if (t := own_module(n, known))}
        )
        for module in modules
    }
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> Iterator[str]:
        if name in path:
            yield f"import cycle: {' -> '.join([*path[path.index(name) :], name])}: break it"
        elif name not in done:
            for target in graph[name]:
                if target != name:
                    yield from visit(target, (*path, name))
            done.add(name)

    for name in graph:
        yield from visit(name, ())


def check_processes(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        if within(module.name, STARTS_PROCESSES):
            continue
        found = [(line, n) for line, n in module.imports() if n.split(".")[0] in PROCESS_MODULES]
        found += [(c.lineno, name) for c, name in module.calls if PROCESS_CALLS.fullmatch(name)]
        for line, name in found:
            yield (
                f"{module.at(line)}: {name} can start a process. Use "
                "tools.engine.process.run_process, which takes a grant"
            )


def opens_for_writing(call: ast.Call, name: str) -> bool:
    """Tell whether an `open` may write; a mode that is not a literal counts as writing.

    What a method `open` takes first may be anything, so there only a literal is judged.
    """
    if name == "os.open":
        return "os.devnull" not in (text := ast.unparse(call)) and bool(WRITE_FLAGS.search(text))
    if name != "open" and not name.endswith(".open"):
        return False
    given = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    if name in ("open", "io.open"):
        given += call.args[1:2]
    else:
        given += [mode for mode in call.args[:1] if isinstance(mode, ast.Constant)]
    return any(
        not (isinstance(mode, ast.Constant) and isinstance(mode.value, str))
        or bool(set(mode.value) & set("wax+"))
        for mode in given
    )


def renames_path(call: ast.Call, name: str) -> bool:
    """Tell `path.rename(x)` and `path.replace(x)` from `text.replace(a, b)`."""
    return name.endswith((".rename", ".replace")) and len(call.args) == 1 and not call.keywords


def check_writes(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        if within(module.name, WRITES_FILES):
            continue
        for call, name in module.calls:
            if WRITE_CALLS.fullmatch(name) or opens_for_writing(call, name):
                pass
            elif not renames_path(call, name):
                continue
            yield (
                f"{module.at(call.lineno)}: {name} changes files. Use tools.files (a user's file, "
                "takes a grant) or tools.storage (opta's own)"
            )


def check_grants(modules: list[Module]) -> Iterator[str]:
    home = "tools.permissions.grant"
    for module in modules:
        if module.name == home or within(module.name, MINTS_GRANTS):
            continue
        found = [line for line, name in module.imports() if name == f"{home}.mint"]
        found += [c.lineno for c, name in module.calls if name.endswith((".mint", "._SEAL"))]
        for line in found:
            yield f"{module.at(line)}: only the gate makes grants: take one as an argument"


def check_guards(modules: list[Module]) -> Iterator[str]:
    known = frozenset(module.name for module in modules)
    for module in modules:
        for line, target in module.imports():
            other = own_module(target, known)
            if other in GUARDED and module.name not in GUARDED[other]:
                users = ", ".join(GUARDED[other])
                yield f"{module.at(line)}: {other} asks for no grant: go through {users}"


def check_terminal(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        if within(module.name, TALKS_TO_TERMINAL):
            continue
        found = [(c.lineno, name) for c, name in module.calls if name in ("print", "input")]
        found += [
            (node.lineno, f"sys.{node.attr}")
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Attribute)
            and ast.unparse(node) in ("sys.stdout", "sys.stderr", "sys.stdin")
        ]
        for line, name in found:
            yield f"{module.at(line)}: {name}: emit an event, or return the text to a front end"


def check_network(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        if within(module.name, USES_NETWORK):
            continue
        for line, name in module.imports():
            if within(name, tuple(NETWORK_MODULES)):
                yield f"{module.at(line)}: {name}: only {', '.join(USES_NETWORK)} uses the network"


def check_start_up(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        for line, name in module.top_level_imports():
            heavy = name.split(".")[0]
            if heavy in HEAVY and not within(module.name, HEAVY[heavy]):
                yield f"{module.at(line)}: {heavy} is slow: import it in the function that needs it"
        for call, name in module.calls:
            flags = {keyword.arg for keyword in call.keywords}
            if name == "dataclasses.dataclass" and "frozen" in flags and "eq" not in flags:
                yield f"{module.at(call.lineno)}: slow to make: use tools.record.record"


def declared_dependencies() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {canonical(re.split(r"[<>=!~ \[;]", d)[0]) for d in project["dependencies"]}


def check_dependencies(modules: list[Module]) -> Iterator[str]:
    declared = declared_dependencies()
    providers = importlib.metadata.packages_distributions()
    for module in modules:
        for line, name in module.imports():
            top = name.split(".")[0]
            if top in sys.stdlib_module_names or top in PACKAGES:
                continue
            if not declared & {canonical(d) for d in providers.get(top, [])}:
                yield f"{module.at(line)}: {top} is no declared dependency: see pyproject.toml"


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def check_sizes(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        length = len(module.text.splitlines())
        if length > MODULE_LINES:
            yield f"{module.at(1)}: {length} lines of {MODULE_LINES}: split it by subject"
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > FUNCTION_LINES:
                    yield (
                        f"{module.at(node.lineno)}: {node.name} has {size} lines of "
                        f"{FUNCTION_LINES}: give its parts names"
                    )
            elif isinstance(node, ast.ClassDef):
                methods = sum(
                    isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in node.body
                )
                if methods > CLASS_METHODS:
                    yield (
                        f"{module.at(node.lineno)}: {node.name} has {methods} methods of "
                        f"{CLASS_METHODS}: it has two subjects"
                    )


CHECKS: tuple[Callable[[list[Module]], Iterator[str]], ...] = (
    check_layers,
    check_cycles,
    check_processes,
    check_writes,
    check_grants,
    check_guards,
    check_terminal,
    check_network,
    check_start_up,
    check_dependencies,
    check_sizes,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_the_source_follows_the_rule(check):
    violations = list(check(source()))
    assert not violations, "\n".join(violations)


def test_every_exception_is_still_needed():
    """A name in a table that fits no module is a hole that nobody looks at."""
    names = {module.name for module in source()}
    tables = (WRITES_FILES, GUARDED, MINTS_GRANTS, USES_NETWORK, TALKS_TO_TERMINAL)
    assert {place for table in tables for place in table} <= names


def test_every_dependency_is_used_and_explained():
    providers = importlib.metadata.packages_distributions()
    imported = {n.split(".")[0] for module in source() for _, n in module.imports()}
    used = {canonical(d) for top in imported for d in providers.get(top, [])}
    table = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    explained = {canonical(name) for name in re.findall(r"^\| ([\w.-]+) [\d.]+ \|", table, re.M)}
    assert declared_dependencies() <= used
    assert declared_dependencies() == explained


def test_the_map_of_the_code_names_every_module_in_its_order():
    """A line of the map may hold several layers; commands are `*_command` there."""
    text = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    shown, package = {"prompts": 0}, ""
    for number, line in enumerate(re.findall(r"^ {4}(?:tools:|agent:| {6}).*$", text, re.M), 1):
        package = line[4:10].strip(" :") or package
        shown |= {f"{package}.{name}": number for name in re.findall(r"[\w.*]+", line[12:])}
    names = [name for layer in LAYERS for name in layer if not name.endswith("_command")]
    places = [[n for shape, n in shown.items() if fnmatchcase(name, shape)] for name in names]
    assert [name for name, found in zip(names, places, strict=True) if len(found) != 1] == []
    assert places == sorted(places)


LONG = "def f():\n" + "    pass\n" * FUNCTION_LINES
WIDE = "class C:\n" + "".join(f"    def f{n}(self): ...\n" for n in range(CLASS_METHODS + 1))
FROZEN = "from dataclasses import dataclass\n@dataclass"

PLANTED = [
    ("layers", "tools/definition.py", "from tools import executor"),
    ("layers", "tools/definition.py", "def f():\n    import tools.executor"),
    ("layers", "prompts/__init__.py", "import tools.definition"),
    ("layers", "tools/executor.py", "from agent.events import Event"),
    ("layers", "tools/__init__.py", "from tools.definition import ToolCall"),
    ("layers", "tools/newcomer.py", ""),
    ("cycles", "tools/events.py", "import tools.cost"),
    ("processes", "tools/files/workspace.py", "import subprocess"),
    ("processes", "tools/files/workspace.py", "from os import system\nsystem('ls')"),
    ("processes", "tools/files/workspace.py", "import os\nos.execv('/bin/ls', [])"),
    ("processes", "agent/loop.py", "import asyncio\nasyncio.create_subprocess_exec('ls')"),
    ("processes", "agent/loop.py", "async def f(loop): await loop.subprocess_exec(None, 'ls')"),
    ("writes", "agent/loop.py", "open('x', 'w')"),
    ("writes", "agent/loop.py", "open('x', mode='ab')"),
    ("writes", "agent/loop.py", "def f(mode): open('x', mode)"),
    ("writes", "agent/loop.py", "def f(path): path.open('w')"),
    ("writes", "agent/loop.py", "def f(path): path.write_text('')"),
    ("writes", "agent/loop.py", "def f(path, other): path.replace(other)"),
    ("writes", "agent/loop.py", "import os\nos.open('x', os.O_CREAT)"),
    ("writes", "agent/loop.py", "from os import unlink\nunlink('x')"),
    ("writes", "agent/loop.py", "import tempfile\ntempfile.mkdtemp()"),
    ("writes", "agent/loop.py", "import shutil\nshutil.rmtree('x')"),
    ("grants", "agent/loop.py", "from tools.permissions.grant import mint"),
    ("grants", "agent/loop.py", "from tools.permissions import grant\ngrant.mint(None, '')"),
    ("guards", "tools/executor.py", "from tools.files import directory"),
    ("terminal", "agent/loop.py", "print('x')"),
    ("terminal", "agent/loop.py", "import sys\nsys.stderr.write('x')"),
    ("network", "tools/executor.py", "def f():\n    import httpx2"),
    ("network", "tools/executor.py", "from urllib.request import urlopen"),
    ("start_up", "tools/executor.py", "import rich.console"),
    ("start_up", "tools/executor.py", "class C:\n    from rich import print"),
    ("start_up", "tools/executor.py", f"{FROZEN}(frozen=True, slots=True)\nclass C: ..."),
    ("dependencies", "tools/executor.py", "def f():\n    import numpy"),
    ("sizes", "tools/executor.py", LONG),
    ("sizes", "tools/executor.py", WIDE),
    ("sizes", "tools/executor.py", "\n" * (MODULE_LINES + 1)),
]

HARMLESS = [
    ("layers", "tools/definition.py", "if TYPE_CHECKING:\n    from tools import executor"),
    ("layers", "tools/executor.py", "from tools.definition import ToolCall"),
    ("writes", "agent/loop.py", "open('x')\nopen('x', 'rb')\n'a'.replace('a', 'b')"),
    ("writes", "tools/storage.py", "open('x', 'w')"),
    ("processes", "tools/engine/process.py", "import subprocess"),
    ("start_up", "tools/executor.py", "def f():\n    import rich"),
    ("start_up", "tools/executor.py", f"{FROZEN}(frozen=True, eq=False)\nclass C: ..."),
    ("grants", "tools/permissions/gate.py", "from tools.permissions.grant import mint"),
    ("dependencies", "tools/executor.py", "import json, yaml, ruamel.yaml, tools.events"),
    ("guards", "tools/files/workspace.py", "from tools.files.directory import Directory"),
    ("sizes", "tools/executor.py", LONG.replace("    pass\n", "", 1)),
]


def violations_of(check: str, root: Path, file: str, source: str) -> list[str]:
    """Return what a check says of a small tree with `source` planted in `file`."""
    tree = {
        "tools/definition.py": "", "tools/events.py": "", "tools/cost.py": "import tools.events",
        "tools/executor.py": "", "tools/permissions/grant.py": "", "agent/events.py": "",
        "tools/files/directory.py": "",
        file: source,
    }  # fmt: skip
    for name, text in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return list(globals()[f"check_{check}"](read_modules(root)))


@pytest.mark.parametrize(("check", "file", "source"), PLANTED)
def test_a_planted_violation_is_found_and_its_file_named(check, file, source, tmp_path):
    found = violations_of(check, tmp_path, file, source)
    assert len(found) == 1
    assert file in found[0] or check == "cycles"


@pytest.mark.parametrize(("check", "file", "source"), HARMLESS)
def test_what_the_rules_allow_is_left_alone(check, file, source, tmp_path):
    assert violations_of(check, tmp_path, file, source) == []
