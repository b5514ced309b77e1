"""Which tools there are, which are on, and what the model sees of them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools.actions import PlanAction, Shell, Step
from tools.advertising import Deferral
from tools.builtin.kit import define
from tools.definition import Limits, Origin, Risk, Scope, Source
from tools.definition import ToolDefinition as Definition
from tools.formats.problems import ToolProblem
from tools.registry import ToolRegistry, ToolSettings

PARAMETERS = {"type": "object", "properties": {}}


def builtin(name, **options):
    return define(name, f"{name} does it", {}, [], risk=Risk.LOW, **options)


def custom(name, scope=Scope.LOCAL, file=None, **options):
    path = Path(f"/{scope}/{file or name}.json")
    return Definition(
        name, options.pop("description", "d"), PARAMETERS,
        PlanAction((Step(name, Shell("sh", "true")),)),
        Origin(Source.CUSTOM, "opta-json", scope, path, line=2), **options,
    )  # fmt: skip


class Files:
    """Stands where tool files would be read; a test changes what they hold."""

    def __init__(self, *tools):
        self.tools = list(tools)
        self.problems = []
        self.reads = 0

    def __call__(self):
        self.reads += 1
        return list(self.tools), list(self.problems)


def registry(files=(), builtins=("write_file", "read_file"), deferral=None, **settings):
    saved = []
    made = ToolRegistry(
        [builtin(name) if isinstance(name, str) else name for name in builtins],
        files if isinstance(files, Files) else Files(*files),
        ToolSettings(**({"switches": {}} | settings)),
        lambda name, on: saved.append((name, on)),
        deferral=deferral,
    )
    made.saved = saved
    return made


def deferring(calls=None, asked=None):
    """Defer tools; `calls` says how often which was called, `asked` counts who wants to know."""

    def called():
        (asked if asked is not None else []).append("calls")
        return calls or {}

    finder = builtin("find_tools", enabled=False)
    return Deferral(
        replace(finder, description="Finds {tools}."), called,
        lambda schemas: {schema["function"]["name"]: 100 for schema in schemas},
    )  # fmt: skip


def offered(made):
    return [schema["function"]["name"] for schema in made.wire()]


@pytest.mark.row("A24", "E44", "E45")
def test_the_model_sees_built_ins_by_name_and_then_custom_tools():
    made = registry([custom("zeta"), custom("alpha", Scope.USER)])
    assert offered(made) == ["read_file", "write_file", "zeta", "alpha"]
    assert set(made.wire()[0]["function"]) == {"name", "description", "parameters"}


def test_the_schemas_are_the_same_bytes_until_something_changes():
    files = Files(custom("a"))
    made = registry(files)
    first = json.dumps(made.wire())
    made.refresh()
    assert json.dumps(made.wire()) == first
    files.tools[0] = custom("a", description="other")
    assert json.dumps(made.wire()) == first
    made.refresh()
    assert json.dumps(made.wire()) != first


@pytest.mark.row("A25")
def test_tool_files_are_read_at_the_first_need_and_once():
    files = Files(custom("a"))
    made = registry(files)
    assert files.reads == 0
    assert made.find("a")
    made.wire()
    made.entries()
    assert files.reads == 1


@pytest.mark.row("A25")
def test_importing_reads_no_tool_file(tmp_path):
    tools = tmp_path / ".opta" / "tools"
    tools.mkdir(parents=True)
    (tools / "a.json").write_text("{")
    program = (
        "import sys; opened = []\n"
        "sys.addaudithook(lambda e, a: opened.append(str(a[0])) if e == 'open' else None)\n"
        "import tools.sources.files, tools.registry, tools.executor\n"
        "print([p for p in opened if '.opta' in p])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{program}"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


@pytest.mark.row("A27", "A35")
@pytest.mark.parametrize("name", ["read_file", "write_file", "read.file"])
def test_a_built_in_name_is_refused_and_the_built_in_stays(name):
    made = registry([custom(name)])
    (problem,) = made.problems
    assert "conflicts with built-in tool" in problem.message
    assert problem.path == Path(f"/local/{name}.json")
    assert {e.definition.origin.source for e in made.entries()} == {Source.BUILTIN}
    assert offered(made) == ["read_file", "write_file"]


@pytest.mark.parametrize(
    "name", ["task_add", "session_complete", "mcp_github_x", "mcp.x", "showTokenCosts"]
)
def test_names_that_belong_to_others_are_refused(name):
    made = registry([custom(name)])
    assert made.problems[0].key == "$.name"
    assert offered(made) == ["read_file", "write_file"]


@pytest.mark.row("A10")
def test_the_nearer_tool_overrides_the_farther_one_with_a_notice():
    made = registry([custom("a", Scope.LOCAL), custom("a", Scope.USER), custom("a", Scope.GLOBAL)])
    assert made.find("a").definition.origin.scope is Scope.LOCAL
    assert [(p.path, p.warning) for p in made.problems] == [
        (Path("/global/a.json"), True), (Path("/user/a.json"), True),
    ]  # fmt: skip
    assert all("/local/a.json" in p.message for p in made.problems)


@pytest.mark.row("E42")
def test_a_second_tool_of_the_same_name_and_scope_is_skipped():
    made = registry([custom("a", file="1"), custom("a", file="2")])
    assert made.find("a").definition.origin.path.name == "1.json"
    assert made.problems[0].message == "Tool a already registered, skipping"
    assert made.problems[0].path.name == "2.json"


def test_two_names_that_the_api_cannot_tell_apart_are_refused():
    made = registry([custom("a.b"), custom("a_b")])
    assert offered(made)[2:] == ["a_b"]
    assert made.find("a.b") is made.find("a_b")
    assert "'a.b'" in made.problems[0].message
    assert not made.problems[0].warning


@pytest.mark.row("E43")
def test_tools_are_found_by_all_their_names():
    made = registry([custom("my.tool")])
    entry = made.find("my.tool")
    for name in ("my_tool", "custom.my.tool", "custom_my.tool"):
        assert made.find(name) is entry
    assert made.find("custom.read_file") is None
    assert made.find("nothing") is None


def test_a_declared_name_beats_an_alias():
    made = registry([custom("x"), custom("custom_x")])
    assert made.find("custom_x").definition.name == "custom_x"


@pytest.mark.row("E18", "E41", "E44", "E45")
def test_a_switched_off_tool_is_listed_and_not_offered():
    made = registry([custom("a"), custom("b")], switches={"a": False})
    assert offered(made)[2:] == ["b"]
    entry = made.find("a")
    assert (entry.enabled, entry.reason) == (False, "disabled in the settings")
    assert entry in made.entries()


@pytest.mark.row("E106")
def test_the_settings_beat_what_the_definition_says():
    made = registry([custom("a", enabled=False)], switches={"a": True})
    assert made.find("a").enabled
    assert registry([custom("a", enabled=False)]).find("a").reason == "disabled in its file"
    assert registry([], [builtin("x", enabled=False)]).find("x").reason == "off by default"


def test_a_switch_holds_at_once_and_is_saved_under_the_declared_name():
    made = registry([custom("my.tool")])
    assert not made.switch("custom.my.tool", False).enabled
    assert offered(made) == ["read_file", "write_file"]
    assert made.switch("my_tool", True).enabled
    assert offered(made)[2:] == ["my_tool"]
    assert made.saved == [("my.tool", False), ("my.tool", True)]
    with pytest.raises(KeyError):
        made.switch("nothing", True)


def test_a_switch_that_cannot_be_saved_changes_nothing():
    def full_disk(name, on):
        raise OSError("disk full")

    made = ToolRegistry([builtin("x")], Files(), ToolSettings({}), full_disk)
    with pytest.raises(OSError, match="disk full"):
        made.switch("x", False)
    assert made.find("x").enabled


@pytest.mark.row("A32")
def test_the_eleventh_custom_tool_is_off_with_the_reason_and_ten_are_fine():
    ten = [custom(f"t{number:02}") for number in range(10)]
    assert registry(ten).problems == ()
    made = registry([*ten[:4], custom("t99"), *ten[4:]])
    assert offered(made)[2:] == [tool.name for tool in ten]
    assert made.find("t99").reason == "over the limit of 10 custom tools"
    (warning,) = made.problems
    assert warning.warning
    assert "t99" in str(warning)


def test_the_limit_cuts_by_scope_first_and_counts_only_what_is_on():
    tools = [custom(f"t{n}") for n in range(9)] + [
        custom("a", Scope.USER), custom("b", Scope.USER), custom("c", Scope.USER),
    ]  # fmt: skip
    made = registry(tools)
    assert offered(made)[-1] == "a"
    made.switch("t3", False)
    assert offered(made)[-1] == "b"
    assert not made.switch("c", True).enabled
    assert made.find("c").reason.startswith("over the limit")


def test_the_limit_can_be_set():
    assert len(offered(registry([custom(f"t{n}") for n in range(30)], max_custom=25))) == 27


@pytest.mark.row("A33")
@pytest.mark.parametrize(("count", "warned"), [(20, False), (21, True)])
def test_more_than_twenty_tools_bring_the_token_budget_warning(count, warned):
    made = registry([custom(f"t{n}") for n in range(count)], max_custom=50)
    assert any("tokens in every request" in p.message for p in made.problems) is warned


@pytest.mark.row("E81")
def test_custom_tools_can_be_left_out_altogether():
    files = Files(custom("a"))
    made = registry(files, load_custom=False)
    assert offered(made) == ["read_file", "write_file"]
    assert made.refresh() == []
    assert files.reads == 0


def test_the_longest_allowed_time_caps_a_timeout_and_says_so():
    slow, quick = custom("slow", limits=Limits(90_000)), custom("quick", limits=Limits(500))
    made = registry([slow, quick], max_execution_ms=60_000)
    assert made.find("slow").definition.limits.timeout_ms == 60_000
    assert made.find("quick").definition.limits.timeout_ms == 500
    (notice,) = made.problems
    assert "90000 ms" in notice.message
    assert "60000 ms" in notice.message


def test_each_change_is_one_line():
    broken = ToolProblem(Path("/local/b.json"), "is empty", 1, 1)
    files = Files(custom("a"), custom("b"), custom("c"))
    made = registry(files)
    assert made.refresh() == []
    assert made.refresh() == []
    files.tools = [custom("a", description="new"), custom("d")]
    files.problems = [broken]
    assert made.refresh() == [
        "tool added: d (/local/d.json)",
        "tool changed: a (/local/a.json)",
        "tool removed: c (/local/c.json)",
        "tool broken: b: /local/b.json:1:1: is empty",
    ]
    assert made.refresh() == []
    files.tools.append(custom("b"))
    files.problems = []
    assert made.refresh() == ["tool added: b (/local/b.json)"]


def test_the_first_refresh_tells_problems_even_when_tools_were_listed_before():
    files = Files(custom("a"))
    files.problems = [ToolProblem(Path("/local/x.json"), "is empty")]
    made = registry(files)
    assert len(made.problems) == 1
    assert made.refresh() == ["Failed to load tool from /local/x.json: is empty"]
    assert made.refresh() == []


@pytest.mark.row("E9")
def test_every_tool_has_a_source_that_its_file_cannot_choose():
    made = registry([custom("a", metadata={"source": "built-in"})])
    assert {e.definition.name: e.definition.origin.source.value for e in made.entries()} == {
        "read_file": "built-in", "write_file": "built-in", "a": "custom",
    }  # fmt: skip


def test_near_names_are_found_among_the_tools_that_are_on():
    made = registry([custom("deploy_app")], switches={"write_file": False})
    assert made.nearest("ReadFile")[0] == "read_file"
    assert "write_file" not in made.nearest("write_file")
    assert made.nearest("deployapp") == ["deploy_app"]
    assert made.nearest("zzzzqqq") == []


def test_tools_that_were_called_stay_and_the_others_are_deferred():
    tools = [custom(f"t{n}") for n in range(4)]
    made = registry(tools, deferral=deferring({"t3": 5, "t1": 1}), max_custom=2)
    assert offered(made) == ["find_tools", "read_file", "write_file", "t1", "t3"]
    assert [e.definition.name for e in made.entries() if e.deferred] == ["t0", "t2"]
    assert made.wire()[0]["function"]["description"] == "Finds t0, t2."
    assert made.find("t0").reason == "deferred: over the limit of 2 custom tools"


def test_what_is_deferred_is_told_in_one_short_line():
    made = registry([custom(f"t{n:02}") for n in range(40)], deferral=deferring())
    assert [str(problem) for problem in made.problems] == [
        "over the limit of 10 custom tools, deferred: t10, t11, t12, t13, t14 and 25 more "
        "(the model loads them with find_tools)"
    ]


def test_nothing_is_counted_while_all_tools_fit():
    asked = []
    made = registry([custom("a")], deferral=deferring(asked=asked))
    assert offered(made) == ["read_file", "write_file", "a"]
    assert made.find("find_tools").reason == "no tool is deferred"
    assert asked == []


def test_loaded_tools_come_last_in_the_order_of_their_loading():
    made = registry([custom(f"t{n}") for n in range(4)], deferral=deferring(), max_custom=1)
    before, told = offered(made), []
    made.on_load = told.append
    made.load(["t3"])
    made.load(["t2", "t3"])
    assert offered(made) == [*before, "t3", "t2"]
    assert told == [("t3",), ("t2",)]
    made.begin(["t2"])
    assert offered(made) == [*before, "t2"]
    assert len(told) == 2


def test_what_is_offered_on_the_way_comes_after_what_was_there():
    job = builtin("background_job", enabled=False)
    made = registry([custom("a")], ["read_file", job])
    before = offered(made)
    made.offer("background_job")
    assert offered(made) == [*before, "background_job"]


def test_a_deferred_tool_that_a_person_switches_on_is_loaded_at_once():
    made = registry([custom("a"), custom("b")], deferral=deferring(), max_custom=1)
    assert made.switch("b", True).enabled
    assert offered(made)[-2:] == ["a", "b"]
    assert not made.switch("b", False).enabled
    assert offered(made)[-1] == "a"


@pytest.mark.parametrize(("budget", "left"), [(499, ["a"]), (500, ["a", "b"])])
def test_the_budget_holds_what_is_always_sent_and_the_search_itself(budget, left):
    long = "word " * 400
    tools = [custom("a", description=long), custom("b", description=long)]
    made = registry(tools, deferral=deferring(), budget=budget)
    assert [name for name in offered(made) if len(name) == 1] == left
    if left == ["a"]:
        assert made.find("b").reason == "deferred: over the budget of 499 tokens for tools"


def test_the_name_of_the_search_is_reserved():
    made = registry([custom("find_tools")], deferral=deferring())
    assert "conflicts with built-in tool find_tools" in made.problems[0].message
