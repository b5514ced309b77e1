"""What an answer of the person covers, and for how long."""

from __future__ import annotations

import pytest

from tests.support.bench import BUILTINS
from tests.support.calls import make_call, make_invocation
from tests.support.custom_tools import Project
from tools.definition import Effect, EffectKind, Outcome
from tools.permissions.gate import Mode, PermissionGate
from tools.permissions.question import Answer, Choice
from tools.permissions.rules import RuleSet, Verdict, parse_rule
from tools.storage import StorageError


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path, answer=Choice.SESSION, builtins=BUILTINS)


@pytest.mark.parametrize("choice", [Choice.SESSION, Choice.ALWAYS])
async def test_an_answer_covers_a_tool_until_its_file_changes(tmp_path, choice):
    project = Project(tmp_path, answer=choice)
    project.add("deploy", "echo one")
    assert (await project.call("deploy")).text == "one"
    assert (await project.call("custom.deploy")).text == "one"
    assert len(project.person.asked) == 1

    project.add("deploy", "echo changed")
    assert (await project.call("deploy")).text == "changed"
    assert len(project.person.asked) == 2, "what runs now was never allowed"
    await project.call("deploy")
    assert len(project.person.asked) == 2, "the new answer covers the new tool"

    project.add("deploy", "echo one")
    await project.call("deploy")
    assert len(project.person.asked) == 2, "what was allowed before is the same tool again"


async def test_an_answer_survives_a_change_of_the_file_that_is_none_of_the_tool(project):
    project.add("deploy", "echo one")
    await project.call("deploy")
    file = project.tools / "deploy.json"
    file.write_text(f"\n\n{file.read_text()}\n")
    project.registry.refresh()
    await project.call("deploy")
    assert len(project.person.asked) == 1


async def test_a_rule_that_the_person_wrote_covers_a_tool_by_name(project):
    project.rule(Verdict.ALLOW, "deploy")
    project.add("deploy", "echo one")
    await project.call("deploy")
    project.add("deploy", "echo two")
    assert (await project.call("deploy")).text == "two"
    assert not project.person.asked


@pytest.mark.parametrize("error", [StorageError("disk full"), PermissionError(13, "denied")])
async def test_an_answer_that_cannot_be_saved_runs_the_call_and_tells_the_person(tmp_path, error):
    def remember(rule):
        raise error

    project = Project(tmp_path, answer=Choice.ALWAYS, builtins=BUILTINS)
    told = []
    rules = RuleSet((), tmp_path)
    project.gate = PermissionGate(rules, project.person, remember=remember)
    project.gate.tell = told.append
    project.executor.gate = project.gate
    project.add("deploy", "echo one")
    for _ in range(2):
        assert (await project.call("deploy")).text == "one"
    assert len(project.person.asked) == 1, "it holds for the session"
    assert told == [f"Your answer holds for this session only; it could not be saved: {error}"]
    (first, *_) = [event.by for event in project.events if hasattr(event, "by")]
    assert first == "you (always, for this session only: it could not be saved)"


def restarted(root, stored, answer=Choice.NO):
    """A project in a later run, with the rules that were written to the settings."""
    project = Project(root, answer=answer, builtins=BUILTINS)
    for rule in stored:
        project.rules.add(parse_rule(rule.verdict, rule.stored, "config.yml:1"))
    return project


@pytest.mark.parametrize(
    ("line", "rules", "covered", "asked"),
    [
        ("npm test", ["npm test:*"], ["npm test -- -t 'a b'", "npm test 2>&1 | tail"], ["npm ci"]),
        ("npm run lint -- x", ["npm run lint:*"], ["npm run lint"], ["npm run build"]),
        ("npm test 2>&1 | tail -5", ["npm test:*"], ["npm test"], ["npm test > f"]),
        ("go vet && go test", ["go vet:*", "go test:*"], ["go test x"], ["go"]),
        ("git commit -m x", ["git commit:*"], ["git commit -a -m y"], ["git commit --no-verify"]),
        ("git add a", ["git add:*"], ["git add b"], ["git -C .. add b"]),
        ("touch a > f", ["touch a > f"], ["touch a > f"], ["touch a", "touch a > g"]),
        ("./run.sh x", ["./run.sh x"], ["./run.sh x"], ["./run.sh y"]),
        ("cat .env", ["cat .env"], ["cat .env"], ["cat .env.local", "head .env"]),
        ("cat /etc/hosts", ["cat /etc/hosts"], ["cat /etc/hosts"], ["cat /etc/passwd"]),
    ],
)  # fmt: skip
async def test_always_writes_the_narrowest_rule_and_asks_no_more(
    tmp_path, line, rules, covered, asked
):
    effect = Effect(EffectKind.EXECUTE, line, "run_command", cwd=str(tmp_path))
    stored = []
    gate = PermissionGate(RuleSet((), tmp_path), Asked(Choice.ALWAYS), remember=stored.append)
    decision = await gate.authorise(make_call(), make_invocation(effect))
    assert decision.grant is not None
    assert [rule.text for rule in stored] == [f"run_command({rule})" for rule in rules]
    assert gate.approver.asked[0].suggested == tuple(stored), "shown before it is written"

    later = RuleSet(
        [parse_rule(rule.verdict, rule.stored, "config.yml:1") for rule in stored], tmp_path
    )
    for text in (line, *covered):
        assert said(later, text, tmp_path) is Verdict.ALLOW, text
    for text in asked:
        assert said(later, text, tmp_path) is not Verdict.ALLOW, text


def said(rules, line, root):
    effect = Effect(EffectKind.EXECUTE, line, "run_command", cwd=str(root))
    judged = rules.judge(make_call(), make_invocation(effect))
    return None if judged is None else judged.verdict


class Asked:
    """Answers everything alike and remembers the questions."""

    def __init__(self, choice):
        self.choice = choice
        self.asked = []

    async def ask(self, request):
        self.asked.append(request)
        return Answer(self.choice)


async def test_always_for_a_tool_of_ones_own_ends_when_the_tool_changes(tmp_path):
    project = Project(tmp_path, answer=Choice.ALWAYS)
    stored = []
    project.gate._remember = stored.append
    project.add("deploy", "echo one")
    await project.call("deploy")
    (rule,) = stored
    assert rule.stored == f"deploy@{rule.tool_digest}"

    later = restarted(tmp_path, stored)
    later.registry.refresh()
    assert (await later.call("deploy")).text == "one"
    assert later.person.asked == []
    later.add("deploy", "echo changed")
    assert (await later.call("deploy")).outcome is Outcome.DENIED
    assert len(later.person.asked) == 1


async def test_plan_mode_lets_commands_read(tmp_path):
    project = Project(tmp_path, answer=Choice.NO, builtins=BUILTINS)
    project.gate.mode = Mode.PLAN
    assert (await project.call("run_command", command="pwd | wc -l")).outcome is Outcome.OK
    assert (await project.call("run_command", command="touch x")).outcome is Outcome.DENIED
    assert not (tmp_path / "x").exists()
    assert project.person.asked == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("touch x", "no rule allows it"),
        ("ls | tee", "no rule allows `tee`, which is not a command that is known to only read"),
        ("ls > f", "no rule allows `> f`, which writes to a file (> f)"),
        ("sort -o f a", "no rule allows it: it has -o, which is not known to only read"),
        ("cat .env", ".env: environment files hold secrets"),
        ("cat /etc/hosts", "it reads /etc/hosts, which is outside the workspace"),
        ("echo ${x@P}", "no rule allows it: it has an expansion that does more than give a value"),
    ],
)  # fmt: skip
async def test_the_question_says_which_part_and_why(tmp_path, line, reason):
    project = Project(tmp_path, answer=Choice.NO, builtins=BUILTINS)
    await project.call("run_command", command=line)
    assert [request.reason for request in project.person.asked] == [reason]


USING = {
    "alias": "name: outer\ndescription: d\ntype: alias\nbase-tool: inner\ndefault-parameters: {}\n",
    "step": "name: outer\ndescription: d\nsteps:\n  - name: a\n    use-tool: inner\n",
}


@pytest.mark.parametrize("kind", USING)
async def test_an_answer_for_a_tool_ends_when_a_tool_that_it_uses_changes(tmp_path, kind):
    project = Project(tmp_path, answer=Choice.SESSION)
    project.tools.mkdir(parents=True)

    async def run(text):
        (project.tools / "inner.yaml").write_text(
            f"name: inner\ndescription: d\nbash: echo {text}\n"
        )
        (project.tools / "outer.yaml").write_text(USING[kind])
        project.registry.refresh()
        assert project.registry.find("outer"), project.registry.problems
        result = await project.call("outer")
        assert text in result.text
        return len(project.person.asked)

    assert await run("one") == 1
    assert await run("one") == 1
    assert await run("changed") == 2, "what runs now was never allowed"
    assert await run("changed") == 2
