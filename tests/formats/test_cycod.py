"""What each key of a CYCOD tool file becomes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support.tool_files import cycod, load, refused
from tools.actions import (
    Interaction,
    OutputOptions,
    Parameter,
    PlanAction,
    PlanEnvironment,
    PlatformCommands,
    Retry,
    Shell,
)
from tools.definition import Risk, Security, ToolTest
from tools.formats.cycod import security_level
from tools.formats.platforms import NAMES, current_platform, platform_of
from tools.formats.versions import CYCOD_LEVEL, OPTA_VERSION, is_newer

HERE = current_platform()
ELSEWHERE = next(name for name in NAMES if name != HERE)


def tool(more="", command="bash: run-it"):
    return load(cycod(more, command))[0]


def step(more):
    return tool(command=f"steps:\n  - {{name: s, bash: run-it, {more}}}").action.steps[0]


def parameter(more, kind="string"):
    definition, _ = load(cycod(f"parameters:\n  P: {{type: {kind}, description: p, {more}}}"))
    return definition


def schema(more, kind="string"):
    return parameter(more, kind).parameters["properties"]["P"]


@pytest.mark.row("C7")
def test_without_a_name_the_file_names_the_tool():
    definition, warnings = load("description: d\nbash: run-it\n", "my-tool.yaml")
    assert (definition.name, definition.wire_name) == ("my-tool", "my-tool")
    assert warnings == []


@pytest.mark.row("C8")
def test_the_name_in_the_file_wins_and_the_difference_is_told():
    definition, (warning,) = load("name: other\ndescription: d\nbash: run-it\n", "my-tool.yaml")
    assert definition.name == "other"
    assert definition.origin.line == 1
    assert (warning.key, warning.severity) == ("$.name", "warning")


@pytest.mark.row("C6")
def test_the_same_tool_is_read_from_json_and_from_both_names_of_yaml():
    texts = {
        "t.json": '{"name": "t", "description": "d", "bash": "run-it"}',
        "t.yaml": cycod(), "t.yml": cycod(),
    }  # fmt: skip
    read = {name: load(text, name)[0] for name, text in texts.items()}
    assert {d.origin.format for d in read.values()} == {"cycod"}
    assert len({d.digest for d in read.values()}) == 1


@pytest.mark.row("C13", "C14", "C15", "C17", "C18", "C19")
@pytest.mark.parametrize(
    ("command", "shell"),
    [
        ("bash: a {X}", Shell("bash", "a {X}", True)),
        ("cmd: a", Shell("cmd", "a", True)),
        ("pwsh: a", Shell("pwsh", "a", True)),
        ("script: |\n  a\n  b", Shell("cmd" if HERE == "windows" else "bash", "a\nb\n", True)),
        ("script: a\nshell: zsh", Shell("zsh", "a", True)),
        ("script: print(1)\nshell: python3", Shell("python3", "print(1)", False)),
        (
            "script: print(1)\nshell: /usr/bin/env python3",
            Shell("/usr/bin/env python3", "print(1)"),
        ),
        ("bash: true", Shell("bash", "true", True)),
    ],
)
def test_one_command_is_a_plan_of_one_step(command, shell):
    (only,) = tool(command=command).action.steps
    assert (only.name, only.command) == ("t", shell)


def test_values_are_not_put_into_the_text_of_other_languages():
    text = cycod("parameters: {P: {description: p}}", "script: 'print({P})'\nshell: python3")
    (problem,) = refused(text).values()
    assert problem.key == "$.script"
    assert "OPTA_TOOL_ARG_" in problem.hint


@pytest.mark.row("C20", "C21")
def test_commands_by_platform():
    definition = tool(command="commands:\n  default: a\n  platforms: {windows: b, macos: c}")
    assert definition.action.steps[0].command == PlatformCommands(
        Shell("cmd" if HERE == "windows" else "bash", "a", True),
        {"windows": Shell("cmd", "b", True), "macos": Shell("bash", "c", True)},
    )
    assert definition.unavailable == ""


def test_without_a_command_for_this_platform_a_tool_is_unavailable():
    definition = tool(command=f"commands: {{platforms: {{{ELSEWHERE}: a}}}}")
    assert definition.unavailable == f"it has no command for {HERE}"


@pytest.mark.row("C84", "C120")
def test_a_tool_for_other_platforms_is_unavailable_and_says_why():
    assert tool(f"platforms: [{ELSEWHERE}]").unavailable == f"it is for {ELSEWHERE}, not for {HERE}"
    assert tool(f"platforms: [{ELSEWHERE}, {HERE}]").unavailable == ""


def test_a_shell_that_is_not_there_makes_a_tool_unavailable():
    assert tool(command="script: a\nshell: no-such-shell").unavailable == "no-such-shell not found"
    assert tool(command="script: a\nshell: sh -e").unavailable == ""


@pytest.mark.row("C380")
@pytest.mark.parametrize(
    ("system", "name"),
    [("win32", "windows"), ("cygwin", "windows"), ("darwin", "macos"), ("linux", "linux"),
     ("freebsd14", "unknown")],
)  # fmt: skip
def test_platforms_have_the_names_of_the_format(system, name):
    assert platform_of(system) == name


@pytest.mark.row("C23", "C24", "C25")
def test_steps_keep_their_order_and_their_shells():
    definition = tool(
        command="steps:\n  - {name: b, bash: one}\n  - {name: a, pwsh: two}\n"
        "  - {name: c, script: three, shell: sh}\n  - {name: d, run: four}\n"
    )
    assert [s.name for s in definition.action.steps] == ["b", "a", "c", "d"]
    assert [s.command.kind for s in definition.action.steps[:3]] == ["bash", "pwsh", "sh"]
    assert definition.action.steps[3].command.words == ("four",)


@pytest.mark.row("C26")
def test_a_step_may_have_a_command_for_each_platform():
    definition = tool(command="steps: [{name: s, commands: {default: x, platforms: {linux: y}}}]")
    command = definition.action.steps[0].command
    assert (command.default.text, command.platforms["linux"].text) == ("x", "y")


@pytest.mark.row("C27", "C28", "C29", "C30", "C32", "C33", "C34")
def test_what_a_step_says_of_its_run():
    definition = tool(
        command="steps:\n  - {name: a, bash: x}\n"
        "  - {name: s, bash: x, continue-on-error: true, run-condition: 'true', parallel: true, "
        "wait-for: [a], timeout: 900, error-handling: "
        "{retry: {attempts: 3, delay: 250, backoff: fixed}, fallback: other}}"
    )
    found = definition.action.steps[1]
    assert found.continue_on_error
    assert found.condition == "true"
    assert found.parallel
    assert found.wait_for == ("a",)
    assert found.timeout_ms == 900
    assert found.retry == Retry(attempts=3, delay_ms=250, fixed=True)
    assert found.fallback == "other"
    first = definition.action.steps[0]
    assert (first.continue_on_error, first.parallel, first.wait_for) == (False, False, None)
    assert (first.condition, first.retry, first.fallback) == ("", Retry(), "")


@pytest.mark.row("C35", "C37", "C38")
def test_what_a_step_says_of_its_output():
    found = step("output: {mode: stream, truncation: false, stream-callback: file}").output
    assert (found.stream, found.truncate, found.callback) == (True, False, "file")
    assert step("").output == OutputOptions(stream=False, truncate=True, callback="console")


@pytest.mark.row("C36")
@pytest.mark.parametrize(
    ("size", "count"),
    [("10MB", 10 << 20), ("1MB", 1 << 20), ("512KB", 512 << 10), ("4096", 4096), ("1.5 kb", 1536),
     ("2GiB", 2 << 30), ("77B", 77)],
)  # fmt: skip
def test_sizes_are_bytes(size, count):
    assert step(f"output: {{buffer-limit: {size}}}").output.limit_bytes == count


@pytest.mark.row("C41", "C42", "C44", "C45", "C52", "C53", "C54", "C55", "C56", "C57")
def test_what_a_parameter_means_beyond_its_schema():
    definition = tool(
        "parameters:\n"
        "  A:\n    type: array\n    description: a\n    default: [x]\n    transform: lowercase\n"
        "    format: '--a={value}'\n    examples: [[y], [z]]\n    detailed-help: |\n      More.\n"
        "    security: {escape-shell: false}\n    delimiter: ','\n"
        "  IN_DIR: {description: d, required: true}\n"
        "  N: {type: number, description: n, required: false, default: 5}\n"
    )
    assert definition.action.parameters == {
        "A": Parameter(
            "A", "array", ["x"], True, "lowercase", "--a={value}", False, ",",
            detailed_help="More.\n", examples=(["y"], ["z"]),
        ),
        "IN_DIR": Parameter("IN_DIR", path=True),
        "N": Parameter("N", "number", 5, True),
    }  # fmt: skip
    assert definition.parameters == {
        "type": "object",
        "properties": {
            "A": {"type": "array", "description": "a", "items": {}, "default": ["x"]},
            "IN_DIR": {"type": "string", "description": "d"},
            "N": {"type": "number", "description": "n", "default": 5},
        },
        "required": ["IN_DIR"],
    }


@pytest.mark.row("C46", "C47", "C48", "C49", "C50", "C51")
def test_rules_for_a_value_are_in_the_schema():
    found = schema("required: true, validation: {minLength: 2, maxLength: 9, pattern: '^a'}")
    assert {k: found[k] for k in ("minLength", "maxLength", "pattern")} == {
        "minLength": 2, "maxLength": 9, "pattern": "^a",
    }  # fmt: skip
    found = schema("required: true, validation: {minimum: 1, maximum: 2.5, enum: [1, 2]}", "number")
    assert (found["minimum"], found["maximum"], found["enum"]) == (1, 2.5, [1, 2])


def test_a_default_makes_a_required_parameter_optional():
    assert "required" not in parameter("required: true, default: x").parameters


@pytest.mark.row("C42")
@pytest.mark.parametrize("kind", ["string", "number", "boolean", "array", "object"])
def test_the_five_types(kind):
    assert schema("required: true", kind)["type"] == kind


def generated(settings):
    return tool(
        "parameters: {N: {type: number, description: n, default: 5, examples: [7], "
        "validation: {minLength: 3}}}\n"
        f"function-calling: {{schema-generation: {{{settings}}}}}"
    ).parameters["properties"]["N"]


@pytest.mark.row("C58", "C102", "C103", "C104", "C105", "C106", "C99")
@pytest.mark.parametrize(
    ("settings", "schema"),
    [
        ("", {"type": "number", "description": "n", "default": 5}),
        ("parameter-mapping: {number: string}",
         {"type": "string", "description": "n", "default": "5", "minLength": 3}),
        ("parameter-mapping: {number: integer}",
         {"type": "integer", "description": "n", "default": 5}),
        ("include-descriptions: false", {"type": "number", "default": 5}),
        ("include-defaults: false", {"type": "number", "description": "n"}),
        ("example-generation: true",
         {"type": "number", "description": "n", "default": 5, "examples": [7]}),
        ("sanitize-schemas: false",
         {"type": "number", "description": "n", "default": 5, "minLength": 3}),
    ],
)  # fmt: skip
def test_how_the_schema_is_generated_can_be_said(settings, schema):
    assert generated(settings) == schema


@pytest.mark.row("C59", "C60", "C61", "C62", "C323", "C327")
def test_security():
    definition = tool(
        "security: {execution-privilege: elevated, isolation: container, "
        "required-permissions: ['network:external:a.b'], justification: why}"
    )
    assert definition.security == Security(
        "elevated", "container", ("network:external:a.b",), "why"
    )
    assert definition.risk is Risk.CRITICAL
    assert tool().security == Security("same-as-user", "process", (), "")


@pytest.mark.row("C122", "C319", "C320", "C321", "C322")
@pytest.mark.parametrize(
    ("tags", "risk"),
    [("[read]", Risk.LOW), ("[x, write, read]", Risk.MEDIUM), ("[read, run]", Risk.HIGH),
     ("[x]", Risk.HIGH), ("[]", Risk.HIGH)],
)  # fmt: skip
def test_the_highest_security_tag_is_the_risk_and_none_is_high(tags, risk):
    assert tool(f"tags: {tags}").risk is risk


@pytest.mark.row("C73")
def test_tags_of_the_metadata_are_for_searching_only():
    definition = tool("metadata: {tags: [read, a]}\ntags: [b]")
    assert definition.risk is Risk.HIGH
    assert definition.metadata["tags"] == ("b",)
    assert definition.metadata["all-tags"] == ("b", "read", "a")
    assert security_level(["b"]) is None


@pytest.mark.row("C63", "C64", "C65", "C66", "C67", "C68", "C69", "C70", "C83")
def test_environment_and_paths():
    definition, warnings = load(cycod(
        "environment: {variables: {A: '{P}', B: 1, C: true}, inherit: false, secrets: [A]}\n"
        "file-paths: {normalize: true, working-directory: sub, temp-directory: '{TEMP}/x', "
        "cross-platform: {windows-separator: '\\', unix-separator: /, auto-convert: true}}\n"
    ))  # fmt: skip
    assert definition.action.environment == PlanEnvironment(
        variables={"A": "{P}", "B": "1", "C": "true"},
        inherit=False,
        secrets=("A",),
        working_directory="sub",
        temp_directory="{TEMP}/x",
        normalize_paths=True,
    )
    assert warnings == []
    both = tool("working-directory: ~/top\nfile-paths: {working-directory: sub}")
    assert both.action.environment.working_directory == "~/top"
    assert tool().action.environment == PlanEnvironment(inherit=True)


@pytest.mark.row("C71", "C72", "C74")
def test_metadata():
    definition = tool("metadata: {category: a, subcategory: b, search-keywords: [c, d]}")
    assert definition.metadata["category"] == "a"
    assert definition.metadata["subcategory"] == "b"
    assert definition.metadata["search-keywords"] == ("c", "d")


@pytest.mark.row("C75", "C76", "C77", "C78", "C79", "C80", "C81")
def test_tests_of_a_tool():
    expected = {
        "exit-code": 0, "output-contains": "a", "output-contains-any": ("b", "c"),
        "file-exists": "f", "directory-exists": "d",
    }  # fmt: skip
    definition, warnings = load(cycod(
        "parameters: {P: {description: p, required: true}}\n"
        "tests:\n  - {name: one, description: x, parameters: {P: v}, platforms: [linux], "
        "cleanup: [rm a, rm b], expected: {exit-code: 0, output-contains: a, "
        "output-contains-any: [b, c], file-exists: f, directory-exists: d}}\n"
        "  - {name: two}\n"
    ))  # fmt: skip
    assert definition.tests == (
        ToolTest("one", "x", {"P": "v"}, expected, ("rm a", "rm b"), ("linux",)),
        ToolTest("two"),
    )
    assert warnings == []


@pytest.mark.row("C82", "C91", "C92")
def test_the_smaller_of_two_timeouts_counts():
    assert tool().limits.timeout_ms == 60000
    assert tool("timeout: 5000\nresources: {timeout: 4000}").limits.timeout_ms == 4000
    assert tool("timeout: 3000\nresources: {timeout: 4000}").limits.timeout_ms == 3000
    assert tool("resources: {max-memory: 512MB}").limits.max_memory_bytes == 512 << 20


@pytest.mark.row("C93", "C94")
def test_what_is_cleaned_up_at_the_end():
    action = tool(
        "resources:\n  cleanup:\n    - delete-temp-files: true\n    - final-command: rm {TEMP}/x\n"
    ).action
    assert isinstance(action, PlanAction)
    assert action.delete_temp
    assert [command.text for command in action.cleanup] == ["rm {TEMP}/x"]


@pytest.mark.row("C86", "C87", "C88", "C89", "C90")
def test_input_interaction_and_ignored_errors():
    action = tool(
        "ignore-errors: true\ninput: in {OS}\ninteractive: true\n"
        "interactive-options: {timeout: 700, default-response: 'y'}"
    ).action
    assert action.ignore_errors
    assert action.steps[0].continue_on_error
    assert action.interaction == Interaction("in {OS}", True, 700, "y")
    assert (tool().action.ignore_errors, tool().action.interaction) == (False, Interaction())


def test_a_step_may_stop_on_errors_that_the_tool_ignores():
    definition = tool(
        "ignore-errors: true", "steps: [{name: a, bash: x, continue-on-error: false}]"
    )
    assert not definition.action.steps[0].continue_on_error


@pytest.mark.row("C395")
@pytest.mark.parametrize(
    ("key", "ours"), [("min-cycod-version", CYCOD_LEVEL), ("min-opta-version", OPTA_VERSION)]
)
def test_a_tool_for_a_newer_version_is_refused_with_both_versions(key, ours):
    assert load(cycod(f"{key}: {ours}"))[1] == []
    (problem,) = refused(cycod(f"{key}: 99.0.0")).values()
    assert problem.key == f"$.{key}"
    assert "99.0.0" in problem.message
    assert ours in problem.message


def test_the_version_is_the_one_of_the_launcher():
    import opta

    assert opta.__version__ == OPTA_VERSION


def test_versions_are_ordered_as_semantic_versions():
    ordered = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2",
               "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.2.0", "1.10.0", "2.0.0"]  # fmt: skip
    assert all(is_newer(b, a) for a, b in pairwise(ordered))
    assert not is_newer("1.0.0+build", "1.0.0")


@pytest.mark.row("C397")
def test_a_deprecated_tool_says_so():
    assert tool("deprecated: true").deprecated == "it is deprecated"
    assert tool("deprecated: true\ndeprecated-message: use u").deprecated == "use u"
    assert tool("deprecated: false\ndeprecated-message: use u").deprecated == ""
