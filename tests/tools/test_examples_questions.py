"""What a person is asked before a tool of the published designs runs, and is told of its values."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.custom_tools import Project
from tests.support.examples import FRAGMENTS, parameters
from tests.support.tool_files import EXAMPLES
from tools.definition import Outcome, Risk
from tools.permissions.question import Choice
from tools.permissions.rules import Verdict, parse_tag_rule

TOOLS = "002/tools/"
DASH = "begins with a dash and may be taken for an option"


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path, Choice.NO)


def put(project, *files):
    project.tools.mkdir(parents=True)
    for file in files:
        shutil.copy(EXAMPLES / file, project.tools / Path(file).name)
    project.registry.refresh()


async def asked(project, name, **arguments):
    """Return the question about a call, which is answered with no."""
    result = await project.call(name, **arguments)
    assert result.outcome is Outcome.DENIED, result.text
    return project.person.asked[-1]


async def test_deploy_is_asked_about_as_it_will_run(project):
    put(project, "000/deploy.json")
    question = await asked(project, "deploy", environment="staging")
    assert question.invocation.preview.command.endswith("deploy.sh $OPTA_TOOL_ARG_ENVIRONMENT")
    assert question.risk is Risk.HIGH


@pytest.mark.row("C364")
async def test_a_tool_that_reads_runs_unasked_only_where_that_was_said(project):
    put(project, TOOLS + "weather-lookup.yaml")
    question = await asked(project, "weather-lookup", LOCATION="London';id;#")
    assert question.risk is Risk.LOW
    assert "London" in question.invocation.preview.command
    project.rules.add(parse_tag_rule(Verdict.ALLOW, "tool:read", "flag --auto-approve"))
    assert (await project.call("weather-lookup", LOCATION="X")).outcome is Outcome.ERROR
    assert len(project.person.asked) == 1


@pytest.mark.parametrize(
    ("file", "arguments", "flagged"),
    [("find-files", {"PATTERN": "x", "DIRECTORY": "-delete"}, "DIRECTORY"),
     ("github-repo-clone",
      {"OWNER": "o", "REPO": "r", "OUTPUT_DIR": "--config=core.sshCommand=id"}, "OUTPUT_DIR"),
     ("http-request", {"URL": "u", "HEADERS": "-o /path"}, "HEADERS"),
     ("search-code", {"PATTERN": "-f/etc/passwd", "CASE_SENSITIVE": True}, "PATTERN")],
)  # fmt: skip
async def test_values_that_a_program_may_take_for_options_are_pointed_out(
    project, file, arguments, flagged
):
    put(project, TOOLS + f"{file}.yaml")
    question = await asked(project, file, **arguments)
    (told,) = {line for line in question.invocation.hazards if DASH in line}
    assert told.startswith(f"{{{flagged}}} {DASH}: -")


@pytest.mark.parametrize("given", [{}, {"CASE_SENSITIVE": True, "WHOLE_WORD": True}])
async def test_options_that_the_tools_author_wrote_are_no_warning(project, given):
    put(project, TOOLS + "search-code.yaml")
    question = await asked(project, "search-code", PATTERN="x", **given)
    assert question.invocation.hazards == ()


async def test_an_option_after_the_authors_own_is_pointed_out(project):
    text = 'bash: show {A}\nparameters: {A: {type: string, description: a, format: "--a {value}"}}'
    project.tools.mkdir(parents=True)
    (project.tools / "t.yaml").write_text(f"name: t\ndescription: d\n{text}\n")
    project.registry.refresh()
    assert (await asked(project, "t", A="x")).invocation.hazards == ()
    (told,) = (await asked(project, "t", A="-rf")).invocation.hazards
    assert DASH in told


async def test_what_an_inner_language_reads_is_high_risk_with_its_value_shown(project):
    project.tools.mkdir(parents=True)
    fragment = (EXAMPLES / FRAGMENTS / "python-glob.yaml").read_text()
    text = f"name: t\ndescription: d\ntags: [read]\n{fragment}\n{parameters('PATTERN')}\n"
    (project.tools / "t.yaml").write_text(text)
    project.registry.refresh()
    value = "')or(__import__('os').system('id'))or('"
    question = await asked(project, "t", PATTERN=value)
    assert question.risk is Risk.HIGH
    assert value in question.invocation.preview.command
    assert "{PATTERN} is read as code by python" in question.invocation.hazards[0]


async def test_what_a_file_says_it_needs_and_why_is_told(project):
    project.tools.mkdir(parents=True)
    fragment = (EXAMPLES / FRAGMENTS / "security-block.yaml").read_text()
    text = f"name: t\ndescription: d\nbash: 'true'\n{fragment}\n{parameters('DIRECTORY')}\n"
    (project.tools / "t.yaml").write_text(text)
    project.registry.refresh()
    question = await asked(project, "t", DIRECTORY="here")
    assert question.invocation.warnings == (
        "declares that it needs filesystem:write:here (not enforced)",
        "declares that it needs network:external:api.github.com (not enforced)",
        "its reason: Required for cloning GitHub repositories",
    )
