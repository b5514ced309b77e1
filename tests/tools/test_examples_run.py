"""Every file of the published designs does what its document says: run by hand, with stubs.

One line per file at least; `tests/tools/test_examples_*.py` hold what takes more than a line.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.examples import CODEX, Examples, Line, parameters
from tests.support.tool_files import EXAMPLES

TOOLS = "002/tools/"
PARTS = "002/fragments/"
WORKSPACE = {
    Path("scripts/deploy.sh"): "printf '<%s>' \"$@\"\n",
    Path("tools/custom_tools/echo_tool.py"): (
        "import json, os\n"
        "arguments = json.loads(os.environ['CODEX_TOOL_ARGS_JSON'])\n"
        "print(os.environ['CUSTOM_TOOL_PREFIX'] + arguments['text'])\n"
    ),
    Path("tools/custom_tools/count_files.py"): (
        "import pathlib\nprint(sum(path.is_file() for path in pathlib.Path().rglob('*')))\n"
    ),
    Path("one.py"): "",
}
"""The files that the examples speak of."""

LINES = [
    Line("000/deploy.json", {"environment": "staging"}, "<staging>"),
    Line("000/deploy.json", code=1, err="$.environment: missing"),
    Line("000/deploy.json", {"environment": "a b"}, "<a><b>"),
    Line("000/deploy.json", {"environment": ";id"}, "<;id>"),
    Line(CODEX, {"text": "hi"}, "prefix: hi\n", tool="echo_demo"),
    Line(CODEX, {}, "4\n", tool="count_files"),
    Line(CODEX, {}, "custom.echo\n", tool="custom.echo"),
    # 002: tools
    Line(TOOLS + "clone-my-repo.yaml", code=1, err="needs the tool 'github-repo-clone'"),
    Line(TOOLS + "clone-my-repo.first.yaml", code=1, err="needs the tool 'github-repo-clone'"),
    Line(TOOLS + "complex-workflow.yaml", {"PARAM1": "a"},
         "command1 <a>\ncommand2 <default> <value>\n", stubs={"command1": "", "command2": ""},
         rows=("C283",)),
    Line(TOOLS + "complex-workflow.yaml", {"PARAM1": "a"}, "command1 <a>\n", 3, "step1 failed",
         stubs={"command1": "exit 3", "command2": ""}),
    Line(TOOLS + "find-files.yaml", {"PATTERN": "*.txt"},
         "find <.> <-type> <f> <-name> <*.txt>\n", stubs={"find": ""}),
    Line(TOOLS + "github-commit-stats.UNPARSEABLE.yaml", {"OWNER": "a b", "REPO": "r"},
         code=1, err='got "a b"'),
    Line(TOOLS + "github-commit-stats.repaired.yaml", {"OWNER": "a b", "REPO": "r"},
         code=1, err='got "a b"'),
    Line(TOOLS + "github-repo-clone.yaml", {"OWNER": "o"}, code=1, err="$.REPO: missing",
         stubs={"git": "", "npm": ""}),
    Line(TOOLS + "http-request.yaml", {"URL": "http://h/$(id)"}, "curl <-X> <GET> <http://h/$(id)>\n",
         stubs={"curl": ""}),
    Line(TOOLS + "multi-step-tool.yaml", {"PARAM": "a"}, "command1 <a>\ncommand2\n",
         stubs={"command1": "", "command2": ""}),
    Line(TOOLS + "multi-step-tool.yaml", {"PARAM": "a"}, "command1 <a>\n", 1, "step2: not started",
         stubs={"command1": "exit 1", "command2": ""}),
    Line(TOOLS + "repo-clone.yaml", code=1, err="needs the tool 'git-clone', which was not found",
         rows=("C113",)),
    Line(TOOLS + "schema-reference.yaml", code=1, err="says several things to run",
         tool="tool-name"),
    Line(TOOLS + "search-code.yaml", {"PATTERN": "TODO: x"},
         "grep <-r> <-i> <TODO: x> <.> <--include=*.*>\n", stubs={"grep": ""}),
    Line(TOOLS + "setup-project.yaml", code=1, err="needs the tool 'github-repo-clone'"),
    Line(TOOLS + "simple-tool.yaml", {"PARAM": "x;id"}, "command <x;id>\n", stubs={"command": ""},
         err="{PARAM} names the program to run", rows=("C111",)),
    Line(TOOLS + "simple-tool.yaml", {}, "command\n", stubs={"command": ""}),
    Line(TOOLS + "translate-text.yaml", {"TEXT": "a&target=xx", "TARGET_LANG": "es"},
         "curl <-s> <-X> <POST> <https://translation-api.example.com/translate> "
         "<-d> <text=a&target=xx&source=en&target=es>\n", stubs={"curl": ""}),
    Line(TOOLS + "weather-lookup.yaml", {"LOCATION": "London"},
         "curl <-s> <wttr.in/London?format=3>\n", stubs={"curl": ""}),
    Line(TOOLS + "weather-lookup.yaml", {"LOCATION": "London';id;#"},
         "curl <-s> <wttr.in/London';id;#?format=3>\n", stubs={"curl": ""}),
    Line(TOOLS + "weather-lookup.function-calling.yaml", {"LOCATION": "X", "FORMAT": "4"},
         "curl <-s> <wttr.in/X?format=4>\n", stubs={"curl": ""}),
    # 002: fragments
    Line(PARTS + "cleanup.yaml", {}, "show\n", before="bash: show", stubs={"rm": ""},
         err="rm -rf {TEMP_DIR}: [line 1, column 8: {TEMP_DIR} is neither"),
    Line(PARTS + "commands-two-platforms.yaml", {"DIRECTORY": "d", "PATTERN": "*.txt"},
         "find <d> <-type> <f> <-name> <*.txt>\n", stubs={"find": ""},
         before=parameters("DIRECTORY", "PATTERN")),
    Line(PARTS + "default-value.yaml", {}, "show <3>\n", before="bash: show {FORMAT}"),
    Line(PARTS + "default-value.yaml", {"FORMAT": "4"}, "show <4>\n",
         before="bash: show {FORMAT}"),
    Line(PARTS + "deprecated.yaml", {"OLD_PARAM": "x"}, "show <x>\n",
         before="bash: show {OLD_PARAM}", err="OLD_PARAM is deprecated: use NEW_PARAM instead"),
    Line(PARTS + "deprecated.yaml", {}, "show\n", before="bash: show {OLD_PARAM}",
         err="The tool part is deprecated: Use tool-v2 instead"),
    Line(PARTS + "dynamic-default.yaml", {"REPO": "x"}, "show <./checkout/x>\n",
         before="bash: show {OUTPUT_DIR}"),
    Line(PARTS + "dynamic-default.yaml", {"REPO": "$(id)"}, "show <./checkout/$(id)>\n",
         before="bash: show {OUTPUT_DIR}"),
    *[Line(PARTS + f"{name}.yaml", {"PROXY_URL": "http://p"}, "show <http://p> <1> <x>\n",
           before='bash: show "$HTTP_PROXY" "$DEBUG" "$FROM_OUTSIDE"\n' + parameters("PROXY_URL"))
      for name in ("environment", "environment-2")],
    Line(PARTS + "error-handling.yaml", {"PARAM": "x"}, "command\n", before=parameters("PARAM"),
         stubs={"command": "", "alternative-command": ""}),
    *[Line(PARTS + f"{name}.yaml", {"QUERY": "a b;id"}, "show <a b;id>\n",
           before="bash: show {QUERY}")
      for name in ("escape-shell", "parameter-security")],
    Line(PARTS + "fallback-step.yaml", {}, "primary-command\n",
         err="fallback-method: skipped", stubs={"primary-command": "", "fallback-command": ""}),
    Line(PARTS + "fallback-step.yaml", {}, "primary-command\nfallback-command\n",
         err="primary-method: exit code: 3; ignored",
         stubs={"primary-command": "exit 3", "fallback-command": ""}),
    Line(PARTS + "file-paths-normalize.yaml", {"FILE_PATH": r"a\b", "TEXT": r"a\b"},
         "show <a/b> <a\\b>\n", before="bash: show {FILE_PATH} {TEXT}\n"
         + parameters("FILE_PATH", "TEXT")),
    Line(PARTS + "file-paths.yaml", {"FILE_PATH": r"a\b"}, "show <a/b> <in the workspace>\n",
         before='bash: \'[ "$PWD" = {WORKSPACE} ] && show {FILE_PATH} "in the workspace"\'\n'
         + parameters("FILE_PATH")),
    Line(PARTS + "formats.yaml", {}, "show <--count=5>\n", before="bash: show {COUNT} {DEBUG}"),
    Line(PARTS + "formats.yaml", {"DEBUG": True}, "show <--count=5> <--debug>\n",
         before="bash: show {COUNT} {DEBUG}"),
    Line(PARTS + "function-calling.yaml", {"N": 2}, "show <2>\n",
         before="bash: show {N}\n" + parameters(N="number")),
    Line(PARTS + "ignore-errors.yaml", {}, "show\n", 3, before="bash: show; exit 3"),
    Line(PARTS + "inline-transforms.yaml", {"PARAM1": "ABC", "COUNT": 5},
         "command <--option=abc> <--count=0005>\n", stubs={"command": ""},
         before=parameters("PARAM1", COUNT="number"), err="names the program to run"),
    Line(PARTS + "least-privilege.yaml", {}, "show\n", before="bash: show",
         err="it needs network:external:api.example.com (not enforced)", rows=("C299",)),
    *[Line(PARTS + f"masked-values.{form}.yaml", {"API_KEY": "hunter2hunter2", "API_URL": "u"},
           "curl <-s> <-H> <Authorization: Bearer ****> <u>\n", 22, "bad key ****\n",
           stubs={"curl": "echo bad key hunter2hunter2 >&2; exit 22"},
           before=parameters("API_KEY", "API_URL"))
      for form in ("UNPARSEABLE", "repaired")],
    Line(PARTS + "meaningful-error.yaml", {"FILE_PATH": "it's $(id)"},
         "Error: File 'it's $(id)' not found. Please check the path and try again.\n", 1,
         before=parameters("FILE_PATH"), rows=("C302",)),
    Line(PARTS + "meaningful-error.yaml", {"FILE_PATH": "one.py"}, before=parameters("FILE_PATH")),
    Line(PARTS + "metadata.yaml", {}, "show\n", before="bash: show"),
    Line(PARTS + "network-restriction.yaml", {}, "show\n", before="bash: show",
         err="it needs network:external:api.github.com (not enforced)"),
    Line(PARTS + "output-management.yaml", {}, "large-output-command\n",
         stubs={"large-output-command": ""}),
    Line(PARTS + "output-stream.yaml", {}, "generate-large-data\n",
         stubs={"generate-large-data": ""}),
    Line(PARTS + "parallel-fetch.yaml", {"API_URL_1": "a", "API_URL_2": "b"},
         "jq <-s> <.[0] * .[1]> <data1.json> <data2.json>\ncurl <-s> <a>\ncurl <-s> <b>\n",
         stubs={"curl": "", "jq": "cat data1.json data2.json"},
         before=parameters("API_URL_1", "API_URL_2")),
    Line(PARTS + "parallel-steps.yaml", {}, "command1\ncommand2\ncommand3\n",
         stubs={"command1": "", "command2": "", "command3": ""}),
    Line(PARTS + "param-references.yaml", {"PARAM1": "a;b", "PARAM2": "c d"},
         "command <a;b> <c> <d>\n", stubs={"command": ""}, err="names the program to run",
         before=parameters("PARAM1", "PARAM2")),
    Line(PARTS + "parameter-definition.yaml", {"NAME": "abcde"}, "show <abcde>\n",
         before="bash: show {NAME}", rows=("C114",)),
    Line(PARTS + "parameter-definition.yaml", {"NAME": "ABC"}, code=1,
         err="wanted text matching ^[a-z]+$", before="bash: show {NAME}", rows=("C114",)),
    Line(PARTS + "parameter-definition.yaml", {"NAME": "abc"}, code=1,
         err="wanted at least 5 characters", before="bash: show {NAME}", rows=("C114",)),
    Line(PARTS + "parameter-definition.yaml", {}, code=1, err='got "Default value"',
         before="bash: show {NAME}"),
    Line(PARTS + "platforms-tags.yaml", {}, "show\n", before="bash: show"),
    Line(PARTS + "python-glob.yaml", {"PATTERN": "*.py"}, "one.py\n", err="read as code by python",
         before=parameters("PATTERN")),
    Line(PARTS + "resources.yaml", {}, "show\n", before="bash: show"),
    Line(PARTS + "retry-exponential.yaml", {"API_URL": "u"}, "curl <-s> <u>\n",
         stubs={"curl": ""}, before=parameters("API_URL")),
    Line(PARTS + "secrets.yaml", {}, "show <****>\n", 3, "****\n",
         before='bash: show "$API_KEY"; echo "$API_KEY" >&2; exit 3'),
    Line(PARTS + "security-block.yaml", {"DIRECTORY": "d"}, "show\n",
         before="bash: show\n" + parameters("DIRECTORY"), err="it needs filesystem:write:d"),
    Line(PARTS + "step-output-reference.yaml", {"PARAM": "a"},
         "command <a>\nanother-command <command> <<a>>\n", err="names the program to run",
         stubs={"command": "", "another-command": ""}, before=parameters("PARAM")),
    Line(PARTS + "step-timeouts.yaml", {}, "quick-command\nlong-command\n",
         stubs={"quick-command": "", "long-command": ""}),
    Line(PARTS + "tests-basic.yaml", {"URL": "u", "DIRECTORY": "d"}, "git <clone> <u> <d>\n",
         stubs={"git": ""},
         before="bash: git clone {URL} {DIRECTORY}\n" + parameters("URL", "DIRECTORY")),
    Line(PARTS + "tests-platforms.yaml", {"PATH": "/tmp"}, "show </tmp>\n",
         before="bash: show {PATH}\n" + parameters("PATH")),
    Line(PARTS + "three-shells.yaml", code=1, err="several things to run: bash, cmd, pwsh"),
    Line(PARTS + "three-shells.bash.yaml", {}, "the home\n", before="environment:\n"
         "  variables: {HOME: the home}"),
    Line(PARTS + "three-shells.cmd.yaml", code=1, err="cmd is there on Windows only"),
    Line(PARTS + "three-shells.pwsh.yaml", {}, "\ufeffWrite-Output $env:USERPROFILE",
         stubs={"pwsh": 'cat "$4"'}, quiet=True),
    Line(PARTS + "transforms.yaml", {"TEXT": "Ab", "CUSTOM_TEXT": "a b"}, "show <ab> <A-B>\n",
         before="bash: show {TEXT} {CUSTOM_TEXT}"),
    Line(PARTS + "validate-file-type.yaml", {"FILE_TYPE": "js"}, "show <js>\n",
         before="bash: show {FILE_TYPE}", rows=("C309",)),
    Line(PARTS + "validate-file-type.yaml", {"FILE_TYPE": "j;s"}, code=1, err='got "j;s"',
         before="bash: show {FILE_TYPE}", rows=("C309",)),
    Line(PARTS + "versioning.yaml", {}, "show\n", before="bash: show"),
]  # fmt: skip

ELSEWHERE = {
    "002/cli-examples.sh.txt": "tests/e2e/test_tool_cli.py types every line of it",
    TOOLS + "weather-lookup.expected-schema.json": "tests/formats/test_cycod_examples.py",
    **{f"002/help/{path.name}": "tests/tools/test_tool_command.py compares every page"
       for path in (EXAMPLES / "002" / "help").iterdir()},
    "004/config.yml": "tests/unit/test_settings.py reads its settings",
    "004/config.as-printed.yml.txt": "tests/unit/test_settings.py: not YAML",
    "004/tools-list.expected.txt": "tests/tools/test_tools_command.py prints it, the sum put right",
    "004/tools-tokens.expected.txt": "tests/tools/test_tools_command.py prints it",
}  # fmt: skip
"""Which test has an example that is no tool."""

CODE_TOOLS = {
    "004/run_tests.yml": "runtime: typescript",
    "004/run_tests.as-printed.yml.txt": "runtime: typescript; not YAML as printed",
}
"""What waits until opta runs tools that are written in a programming language."""


@pytest.fixture
def examples(opta, tmp_path):
    examples = Examples(opta, tmp_path)
    for path, text in WORKSPACE.items():
        opta.put(path.name, text, path.parent)
    os.environ.update(API_KEY="hunter2hunter2", FROM_OUTSIDE="x")
    return examples


def test_every_example_has_a_line():
    files = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.*")}
    lines = {line.file for line in LINES}
    assert files == lines | set(ELSEWHERE) | set(CODE_TOOLS)
    assert not lines & (set(ELSEWHERE) | set(CODE_TOOLS))


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, marks=pytest.mark.row(*line.rows), id=f"{Path(line.file).stem}-{number}")
     for number, line in enumerate(LINES)],
)  # fmt: skip
def test_an_example_does_what_its_document_says(examples, line):
    ran = examples.line(line)
    assert (ran.out, ran.code) == (line.out, line.code), ran.err
    assert line.err in ran.err
    assert line.err or ran.err == ""
