"""Every tool of the published documents loads, or is refused, as it should."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.support.tool_files import EXAMPLES, load, origin, refused
from tools.actions import AliasAction, Argv, PlanAction, PlatformCommands, Retry, Shell, UseTool
from tools.definition import Risk
from tools.formats import read
from tools.formats.problems import ToolFileError

TOOLS = EXAMPLES / "002" / "tools"
FRAGMENTS = EXAMPLES / "002" / "fragments"

LOADS = {
    "clone-my-repo.first.yaml": "clone-my-repo",
    "clone-my-repo.yaml": "clone-my-repo",
    "complex-workflow.yaml": "complex-workflow",
    "find-files.yaml": "find-files",
    "github-commit-stats.UNPARSEABLE.yaml": "github-commit-stats",
    "github-commit-stats.repaired.yaml": "github-commit-stats",
    "github-repo-clone.yaml": "github-repo-clone",
    "http-request.yaml": "http-request",
    "multi-step-tool.yaml": "multi-step-tool",
    "repo-clone.yaml": "repo-clone",
    "search-code.yaml": "search-code",
    "setup-project.yaml": "setup-project",
    "simple-tool.yaml": "simple-tool",
    "translate-text.yaml": "translate-text",
    "weather-lookup.function-calling.yaml": "weather-lookup",
    "weather-lookup.yaml": "weather-lookup",
}
NEEDS_A_COMMAND = b"bash: 'true'\n"


def example(name):
    return load((TOOLS / name).read_bytes(), name)


def fragment(name):
    """Load a fragment as part of a tool."""
    text = (FRAGMENTS / name).read_bytes()
    runs = any(f"\n{key}:".encode() in b"\n" + text
               for key in ("bash", "cmd", "pwsh", "commands", "steps"))  # fmt: skip
    body = b"name: part\ndescription: d\n" + (b"" if runs else NEEDS_A_COMMAND) + text
    return load(body, "part.yaml")


def test_no_example_is_forgotten():
    assert {path.name for path in TOOLS.glob("*.yaml")} == {*LOADS, "schema-reference.yaml"}


@pytest.mark.row("C6", "C9", "C10")
@pytest.mark.parametrize("name", LOADS)
def test_an_example_loads_under_its_name(name):
    definition, warnings = example(name)
    assert definition.name == LOADS[name]
    assert definition.description
    assert definition.origin.format == "cycod"
    assert definition.unavailable == ""
    assert all(problem.warning for problem in warnings)


@pytest.mark.row("C110", "C101", "C109")
def test_the_schema_of_the_sample_comes_out_exactly():
    definition, _ = example("weather-lookup.function-calling.yaml")
    wanted = json.loads((TOOLS / "weather-lookup.expected-schema.json").read_text())
    assert definition.wire["function"] == wanted


@pytest.mark.parametrize("directory", [TOOLS, FRAGMENTS])
def test_files_that_are_not_yaml_load_like_their_repaired_twins(directory):
    broken = {path.name: path for path in directory.glob("*.UNPARSEABLE.yaml")}
    assert broken
    for name, path in broken.items():
        twin = directory / name.replace("UNPARSEABLE", "repaired")
        texts = [p.read_bytes() for p in (path, twin)]
        if directory == FRAGMENTS:
            texts = [b"name: t\ndescription: d\n" + text for text in texts]
        (one, told), (other, _) = (load(text) for text in texts)
        assert replace(one, origin=other.origin) == other
        mended = [p for p in told if "not YAML as written" in p.message]
        assert mended
        assert all(p.severity == "error" and p.warning and p.line for p in mended)


@pytest.mark.row("C61")
def test_github_commit_stats():
    definition, warnings = example("github-commit-stats.UNPARSEABLE.yaml")
    assert [w.line for w in warnings if "not YAML" in w.message] == [12, 19]
    fetch, count, show = definition.action.steps
    assert fetch.output.limit_bytes == 1024**2
    assert count.retry == Retry(attempts=2, delay_ms=1000)
    assert "map({author: .[0].commit.author.name, count: length})" in count.command.text
    assert show.condition == "{count-authors.exit-code} == 0"
    assert definition.action.environment.variables == {"GITHUB_TOKEN": "{GITHUB_TOKEN}"}
    assert definition.security.permissions == ("network:external:api.github.com",)
    assert (definition.risk, definition.limits.timeout_ms) == (Risk.LOW, 15000)


@pytest.mark.row("C23", "C28", "C30")
def test_multi_step_tool():
    definition, _ = example("multi-step-tool.yaml")
    first, second = definition.action.steps
    assert (first.name, first.command) == ("step1", Shell("bash", "command1 {PARAM}", True))
    assert (first.parallel, first.wait_for, first.condition) == (False, None, "")
    assert (second.wait_for, second.condition) == (("step1",), "{step1.exit-code} == 0")


@pytest.mark.row("C95", "C96", "C97")
@pytest.mark.parametrize("name", ["clone-my-repo.yaml", "clone-my-repo.first.yaml"])
def test_an_alias_keeps_its_base_and_its_defaults(name):
    definition, _ = example(name)
    assert definition.action == AliasAction(
        "github-repo-clone",
        {"OWNER": "my-username", "REPO": "my-project", "OUTPUT_DIR": "./projects/{REPO}"},
    )
    assert definition.risk is Risk.HIGH


@pytest.mark.row("C39", "C40")
def test_setup_project_uses_another_tool_and_names_what_it_does_not_declare():
    definition, warnings = example("setup-project.yaml")
    clone, install = definition.action.steps
    values = {"OWNER": "{OWNER}", "REPO": "{REPO}", "OUTPUT_DIR": "{WORKSPACE}"}
    assert clone.command == UseTool("github-repo-clone", values)
    assert install.command.text == "cd {WORKSPACE} && npm install"
    assert [w.key for w in warnings] == ["$.steps[0].with.OWNER", "$.steps[0].with.REPO"]
    assert all(w.severity == "warning" for w in warnings)


@pytest.mark.row("C20", "C21", "C41", "C74")
def test_find_files_has_a_command_for_each_platform():
    definition, warnings = example("find-files.yaml")
    command = definition.action.steps[0].command
    assert command == PlatformCommands(
        Shell("bash", 'find {DIRECTORY} -name "{PATTERN}"', True),
        {
            "windows": Shell(
                "cmd", "powershell -Command \"Get-ChildItem -Path '{DIRECTORY}' "
                "-Filter '{PATTERN}' -Recurse -File\"", True,
            ),
            "linux": Shell("bash", 'find {DIRECTORY} -type f -name "{PATTERN}"', True),
            "macos": Shell("bash", 'find {DIRECTORY} -type f -name "{PATTERN}"', True),
        },
    )  # fmt: skip
    (warning,) = warnings
    assert (warning.key, warning.severity) == ("$.parameters.DIRECTORY.examples[2]", "warning")
    assert definition.action.environment.normalize_paths
    assert definition.action.parameters["DIRECTORY"].path
    assert definition.action.parameters["PATTERN"].escape_shell is True
    assert definition.metadata["search-keywords"] == ("locate", "search", "find", "pattern")
    assert definition.tests[1].expected["output-contains-any"] == ("Get-ChildItem", "find")


@pytest.mark.row("C27", "C29", "C371")
def test_github_repo_clone():
    definition, warnings = example("github-repo-clone.yaml")
    steps = {step.name: step for step in definition.action.steps}
    assert list(steps) == ["try-https", "try-ssh", "check-deps", "install-deps", "report-status"]
    assert [name for name, step in steps.items() if step.parallel] == ["check-deps"]
    assert [name for name, step in steps.items() if step.continue_on_error] == [
        "try-https", "try-ssh",
    ]  # fmt: skip
    assert steps["install-deps"].wait_for == ("try-https", "try-ssh", "check-deps")
    assert definition.action.parameters["OUTPUT_DIR"].default == "{REPO}"
    assert definition.action.environment.working_directory == "{WORKSPACE}"
    assert definition.risk is Risk.MEDIUM
    assert warnings == []


@pytest.mark.row("C105")
def test_translate_text_shows_choices_defaults_and_examples():
    properties = example("translate-text.yaml")[0].parameters["properties"]
    languages = ["en", "es", "fr", "de", "it", "pt", "ru", "zh"]
    assert properties["TARGET_LANG"]["enum"] == languages
    assert properties["SOURCE_LANG"]["default"] == "en"
    assert properties["TEXT"]["examples"] == ["Hello world", "How are you?"]


@pytest.mark.row("C82", "C85")
def test_weather_lookup():
    definition, warnings = example("weather-lookup.yaml")
    assert definition.parameters["properties"]["LOCATION"]["minLength"] == 2
    assert definition.parameters["required"] == ["LOCATION"]
    assert (definition.limits.timeout_ms, definition.risk) == (10000, Risk.LOW)
    assert definition.metadata["tags"] == ("weather", "api", "read")
    assert warnings == []


@pytest.mark.row("C100", "C22", "C31")
def test_the_reference_block_parses_and_all_its_contradictions_are_told():
    name = "schema-reference.yaml"
    with pytest.raises(ToolFileError) as caught:
        read((TOOLS / name).read_bytes(), origin(name))
    errors = {problem.key: problem.message for problem in caught.value.problems}
    assert "bash, cmd, pwsh, run, script, commands, steps, type" in errors["$.cmd"]
    assert "bash, commands" in errors["$.steps[0].commands"]
    assert "bash, use-tool" in errors["$.steps[1].use-tool"]
    assert "no step 'step3'" in errors["$.steps[0].wait-for[1]"]
    told = {problem.key: problem for problem in caught.value.warnings}
    for key in ("$.parameters.PARAM1.default", "$.tests[0].parameters.PARAM1"):
        assert told[key].severity == "error"
        assert "does not match" in told[key].message
    assert told["$.function-calling"].severity == "error"
    for key in (
        "$.parameters.PARAM1.examples[0]", "$.parameters.PARAM1.validation.enum[0]",
        "$.parameters.PARAM1.validation.minimum", "$.bash", "$.input",
        "$.resources.cleanup[1].final-command", "$.security.required-permissions[0]",
    ):  # fmt: skip
        assert told[key].severity == "warning"
    assert all(problem.line and problem.column for problem in told.values())


@pytest.mark.parametrize(
    "name",
    [path.name for path in sorted(FRAGMENTS.glob("*.yaml")) if path.name != "three-shells.yaml"],
)
def test_a_fragment_loads_as_part_of_a_tool(name):
    definition, _ = fragment(name)
    assert isinstance(definition.action, PlanAction)


def test_three_shells_in_one_tool_are_refused():
    text = b"name: t\ndescription: d\n" + (FRAGMENTS / "three-shells.yaml").read_bytes()
    (problem,) = refused(text).values()
    assert "bash, cmd, pwsh" in problem.message


@pytest.mark.row("C401", "C402", "C14")
def test_each_of_the_three_shells_loads_alone():
    shells = {kind: fragment(f"three-shells.{kind}.yaml")[0] for kind in ("bash", "cmd", "pwsh")}
    assert {kind: tool.action.steps[0].command for kind, tool in shells.items()} == {
        "bash": Shell("bash", "echo $HOME", True),
        "cmd": Shell("cmd", "echo %USERPROFILE%", True),
        "pwsh": Shell("pwsh", "Write-Output $env:USERPROFILE", True),
    }
    assert shells["bash"].unavailable == ""


def test_what_is_deprecated_says_what_to_use_instead():
    definition, _ = fragment("deprecated.yaml")
    assert definition.deprecated == "Use tool-v2 instead"
    assert definition.action.parameters["OLD_PARAM"].deprecated == "use NEW_PARAM instead"


def test_masked_values_and_secrets_are_kept():
    definition, _ = fragment("masked-values.UNPARSEABLE.yaml")
    assert definition.action.steps[0].output.masked == ("{API_KEY}",)
    assert fragment("secrets.yaml")[0].action.environment.secrets == ("API_KEY",)


def test_times_and_memory_of_the_fragments():
    definition, _ = fragment("step-timeouts.yaml")
    assert definition.limits.timeout_ms == 30000
    assert [step.timeout_ms for step in definition.action.steps] == [5000, 25000]
    definition, _ = fragment("resources.yaml")
    assert definition.limits.max_memory_bytes == 256 * 1024**2
    assert definition.action.delete_temp


@pytest.mark.row("C11", "C12", "C98")
def test_versions_and_changes_are_for_people():
    definition, warnings = fragment("versioning.yaml")
    assert definition.metadata["version"] == "1.0.0"
    assert [entry["version"] for entry in definition.metadata["changelog"]] == ["1.0.0", "1.1.0"]
    assert warnings == []


@pytest.mark.row("C16")
def test_run_is_split_into_words_before_anything_is_substituted():
    definition, _ = load(
        "description: d\nrun: prog 'a b' --n={N} {B ? '-x y' : ''} {N:format(0 0)}\n"
        "parameters: {N: {description: n, required: true}, B: {description: b, required: true}}\n"
    )
    assert definition.action.steps[0].command == Argv(
        ("prog", "a b", "--n={N}", "{B ? '-x y' : ''}", "{N:format(0 0)}")
    )
