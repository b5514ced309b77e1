"""Reads CYCOD tools: one file, one tool, which runs a command or a plan of steps.

Only what makes a definition unusable, or would let it do something else than is written, stops it
from loading; everything else that breaks the format's rules is told and passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tools.actions import (
    Action,
    AliasAction,
    Interaction,
    PlanAction,
    PlanEnvironment,
    Shell,
    Step,
)
from tools.definition import Limits, Origin, Risk, Security, ToolDefinition
from tools.formats.cycod_keys import TOOL
from tools.formats.cycod_parameters import check_arguments, check_declared, read_parameters
from tools.formats.cycod_steps import (
    COMMAND_KEYS,
    StepReader,
    count_kinds,
    native_shell,
    read_command,
    unavailable,
)
from tools.formats.fields import read_fields
from tools.formats.findings import Findings
from tools.formats.platforms import current_platform
from tools.formats.problems import ToolProblem
from tools.formats.references import STEP_PROPERTIES, references_in, undeclared
from tools.formats.schema_generation import SchemaOptions
from tools.formats.tool_tests import tests_of
from tools.formats.versions import CYCOD_LEVEL, OPTA_VERSION, is_newer
from tools.yamltext import Document, KeyPath

DEFAULT_TIMEOUT_MS = 60_000

_SECURITY = Security()
_ENVIRONMENT = PlanEnvironment()
_ENVIRONMENT_KEYS = frozenset({"environment", "file-paths", "working-directory"})
_RISKS = {"read": Risk.LOW, "write": Risk.MEDIUM, "run": Risk.HIGH}


def read(document: Document, origin: Origin) -> tuple[list[ToolDefinition], list[ToolProblem]]:
    """Return the tool that `document` defines, and warnings about it.

    Raises ToolFileError with everything that is wrong with the file.
    """
    findings = Findings(document)
    findings.repeated_keys(allowed=True)
    reader = _ToolReader(findings, read_fields(findings, document.data, TOOL))
    action = reader.action()
    schema = check_declared(findings, reader.declared, _schema_options(reader.data))
    reader.check()
    findings.raise_errors()
    assert action is not None
    return [reader.definition(action, schema, origin)], findings.warnings


def security_level(tags: Iterable[str]) -> Risk | None:
    """Return what the tags `read`, `write` and `run` say, the highest counting; None without one.

    A tool without such a tag counts as high risk (X9, X112); an alias has what its base has.
    """
    return max((_RISKS[tag] for tag in tags if tag in _RISKS), default=None)


def _schema_options(data: Mapping[str, Any]) -> SchemaOptions:
    wanted = data.get("function-calling", {}).get("schema-generation", {})
    return SchemaOptions(
        types=wanted.get("parameter-mapping", {}),
        descriptions=wanted.get("include-descriptions", True),
        defaults=wanted.get("include-defaults", True),
        examples=wanted.get("example-generation", False),
        sanitize=wanted.get("sanitize-schemas", True),
    )


class _ToolReader:
    """Makes one definition of the checked keys of a file."""

    def __init__(self, findings: Findings, data: dict[str, Any]) -> None:
        self.findings = findings
        self.data = data
        self.declared: Mapping[str, Any] = data.get("parameters", {})
        self.platform = current_platform()
        self.name: str = data.get("name", findings.document.path.stem)

    def action(self) -> Action | None:
        """Return what the tool does; note if it says nothing or several things (X35)."""
        data = self.data
        kinds = [key for key in (*COMMAND_KEYS, "steps") if key in data]
        if "type" in data or "base-tool" in data:
            kinds.append("type" if "type" in data else "base-tool")
        # What is there but wrong has an error of its own.
        written = self.findings.document.data.keys() & {*COMMAND_KEYS, "steps", "type"}
        if len(kinds) > 1 or not (kinds or written):
            count_kinds(self.findings, kinds, (*COMMAND_KEYS, "steps", "type: alias"), ())
        if "shell" in data and "script" not in data:
            self.findings.warn(("shell",), "is for script only, ignored")
        steps = self._steps()
        if "type" in data or "base-tool" in data:
            return self._alias()
        return None if steps is None else self._plan(steps)

    def definition(
        self, action: Action, schema: Mapping[str, Any], origin: Origin
    ) -> ToolDefinition:
        """Make the definition of keys without errors."""
        data = self.data
        name, path = self.name, self.findings.document.path
        if name != path.stem:
            self.findings.warn(("name",), f"the file is called {path.name}, its tool {name}")
        return ToolDefinition(
            name=name,
            description=data["description"],
            parameters=schema,
            action=action,
            origin=replace(
                origin, format="cycod", line=self.findings.document.position(("name",))[0]
            ),
            risk=self._risk(),
            limits=self._limits(),
            unavailable=self._unavailable(action),
            security=self._security(),
            tests=tests_of(data),
            deprecated=self._deprecated(),
            metadata=_metadata(data),
        )

    def check(self) -> None:
        """Note what concerns several keys at once."""
        self._check_versions()
        for position, test in enumerate(self.data.get("tests", ())):
            where: KeyPath = ("tests", position, "parameters")
            if self.declared or "base-tool" not in self.data:
                check_arguments(self.findings, test.get("parameters", {}), self.declared, where)
        for name in self.data.get("environment", {}).get("secrets", ()):
            variables = self.data["environment"].get("variables", {})
            if name not in variables and name not in self.declared:
                self.findings.warn(
                    ("environment", "secrets"), f"{name} is no variable of this tool",
                    "a variable of that name in opta's own environment is kept secret",
                )  # fmt: skip
        steps = {step.get("name") for step in self.data.get("steps", ())}
        for where, text in self._templates():
            references = list(references_in(text))
            for name in dict.fromkeys(undeclared(references, self.declared)):
                self.findings.warn(
                    where, f"{{{name}}} is no parameter of this tool",
                    "declare it below parameters, or write {{" + name + "}} for the text itself",
                )  # fmt: skip
            for reference in references:
                if reference.property in STEP_PROPERTIES and reference.name not in steps:
                    self.findings.warn(where, f"there is no step {reference.name!r}")

    def _steps(self) -> tuple[Step, ...] | None:
        data, ignore = self.data, self.data.get("ignore-errors", False)
        if "steps" in data:
            return StepReader(self.findings, self.declared, ignore).read(data["steps"])
        command = read_command(self.findings, data, self.declared, ())
        return None if command is None else (Step(self.name, command, continue_on_error=ignore),)

    def _alias(self) -> AliasAction | None:
        if "base-tool" not in self.data:
            self.findings.error(("base-tool",), "'base-tool' is missing", "the tool it stands for")
            return None
        if self.declared:
            self.findings.warn(("parameters",), "an alias has the parameters of its base, ignored")
        return AliasAction(self.data["base-tool"], self.data.get("default-parameters", {}))

    def _plan(self, steps: tuple[Step, ...]) -> PlanAction:
        data = self.data
        options = data.get("interactive-options", {})
        cleanup = data.get("resources", {}).get("cleanup", ())
        shell = native_shell(self.platform)
        return PlanAction(
            steps=steps,
            parameters=read_parameters(self.declared),
            environment=self._environment(),
            interaction=Interaction(
                input=data.get("input", ""),
                interactive=data.get("interactive", False),
                answer_after_ms=options.get("timeout"),
                default_response=options.get("default-response"),
            ),
            cleanup=tuple(
                Shell(shell, item["final-command"], placeholders=True)
                for item in cleanup
                if "final-command" in item
            ),
            delete_temp=any(item.get("delete-temp-files", False) for item in cleanup),
            ignore_errors=data.get("ignore-errors", False),
        )

    def _environment(self) -> PlanEnvironment:
        if not self.data.keys() & _ENVIRONMENT_KEYS:
            return _ENVIRONMENT
        paths, environment = self.data.get("file-paths", {}), self.data.get("environment", {})
        convert = paths.get("cross-platform", {}).get("auto-convert", False)
        return PlanEnvironment(
            variables=environment.get("variables", {}),
            inherit=environment.get("inherit", True),
            secrets=environment.get("secrets", ()),
            working_directory=self.data.get(
                "working-directory", paths.get("working-directory", "")
            ),
            temp_directory=paths.get("temp-directory", ""),
            normalize_paths=paths.get("normalize", False) and convert,
        )

    def _risk(self) -> Risk:
        if self.data.get("security", {}).get("execution-privilege") == "elevated":
            return Risk.CRITICAL
        level = security_level(self.data.get("tags", ()))
        return Risk.HIGH if level is None else level

    def _limits(self) -> Limits:
        resources = self.data.get("resources", {})
        given = [data["timeout"] for data in (self.data, resources) if "timeout" in data]
        return Limits(min(given, default=DEFAULT_TIMEOUT_MS), resources.get("max-memory"))

    def _security(self) -> Security:
        given = self.data.get("security")
        if not given:
            return _SECURITY
        return Security(
            privilege=given.get("execution-privilege", _SECURITY.privilege),
            isolation=given.get("isolation", _SECURITY.isolation),
            permissions=given.get("required-permissions", ()),
            justification=given.get("justification", ""),
        )

    def _unavailable(self, action: Action) -> str:
        platforms = self.data.get("platforms", ())
        if platforms and self.platform not in platforms:
            return f"it is for {', '.join(platforms)}, not for {self.platform}"
        if not isinstance(action, PlanAction):
            return ""
        # A step with a condition may be there for another machine.
        reasons = (unavailable(s.command, self.platform) for s in action.steps if not s.condition)
        return next((reason for reason in reasons if reason), "")

    def _deprecated(self) -> str:
        deprecated = str(self.data.get("deprecated", ""))
        return self.data.get("deprecated-message", deprecated) if deprecated else ""

    def _check_versions(self) -> None:
        for key, have, what in (
            ("min-cycod-version", CYCOD_LEVEL, "covers CYCOD"),
            ("min-opta-version", OPTA_VERSION, "is version"),
        ):
            wanted = self.data.get(key)
            if wanted is not None and is_newer(wanted, have):
                message = f"the tool needs at least {wanted}; this opta {what} {have}"
                self.findings.error((key,), message, "update opta")

    def _templates(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield the templates in which an undeclared name would stay as it is."""
        data = self.data
        for where, item in [((), data), *_numbered("steps", data)]:
            yield from _command_texts(item, where)
            handling = item.get("error-handling", {})
            if "fallback" in handling:
                yield (*where, "error-handling", "fallback"), handling["fallback"]
            if "run-condition" in item:
                yield (*where, "run-condition"), item["run-condition"]
            for name, value in item.get("with", {}).items():
                if isinstance(value, str):
                    yield (*where, "with", name), value
        for where, item in _numbered("cleanup", data.get("resources", {}), ("resources",)):
            if "final-command" in item:
                yield (*where, "final-command"), item["final-command"]
        for key in ("input", "working-directory"):
            if key in data:
                yield (key,), data[key]
        permissions = data.get("security", {}).get("required-permissions", ())
        for number, permission in enumerate(permissions):
            yield ("security", "required-permissions", number), permission


def _numbered(
    key: str, data: Mapping[str, Any], where: KeyPath = ()
) -> list[tuple[KeyPath, Mapping[str, Any]]]:
    return [((*where, key, number), item) for number, item in enumerate(data.get(key, ()))]


def _command_texts(data: Mapping[str, Any], where: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    for key in ("bash", "cmd", "pwsh", "run", "script"):
        if key in data:
            yield (*where, key), data[key]
    commands = data.get("commands", {})
    if "default" in commands:
        yield (*where, "commands", "default"), commands["default"]
    for name, text in commands.get("platforms", {}).items():
        yield (*where, "commands", "platforms", name), text


def _metadata(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what people read. Rules see `tags`, those of the top level; searches `all-tags`."""
    metadata = dict(data.get("metadata", {}))
    tags = data.get("tags", ())
    metadata["all-tags"] = tuple(dict.fromkeys((*tags, *metadata.pop("tags", ()))))
    metadata["tags"] = tags
    for key in ("version", "changelog", "min-cycod-version", "min-opta-version", "platforms"):
        if key in data:
            metadata[key] = data[key]
    return metadata
