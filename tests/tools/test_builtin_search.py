"""file_search on real trees."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.support.bench import BUILTINS, Bench
from tests.support.soon import SOON_S
from tools.builtin.kit import Services
from tools.definition import Outcome


def without_rg() -> str:
    """Return PATH without the directories that hold an `rg`."""
    places = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(place for place in places if not (Path(place) / "rg").exists())


@pytest.fixture(params=["own", "rg"])
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    """A project, searched by opta's own means and by `rg`: the answers must be the same."""
    if request.param == "rg" and shutil.which("rg") is None:
        pytest.skip("no rg on PATH: only the search of our own was tried")
    bench = Bench(tmp_path / "proj")
    if request.param == "own":
        env = {**bench.services.child_env, "PATH": without_rg()}
        bench.services = Services(bench.workspace, env)
    bench.file("src/a.py", "import os\n\ndef alpha():\n    return os.name\n")
    bench.file("src/deep/b.py", "alpha()\nbeta(alpha)\n")
    bench.file("doc/a.md", "alpha (beta)\r\n")
    bench.file("build/out.py", "alpha\n")
    bench.file(".gitignore", "build/\n*.log\n")
    bench.file("x.log", "alpha\n")
    bench.file("bin.dat", b"alpha\0\1\2" + bytes(50))
    bench.file(".github/w.yml", "alpha: 1\n")
    return bench


async def search(bench: Bench, pattern: str, **arguments: object) -> str:
    return await bench.text("file_search", pattern=pattern, **arguments)


@pytest.mark.row("E128")
async def test_the_documented_arguments_are_understood(bench):
    properties = BUILTINS["file_search"].definition.parameters["properties"]
    assert properties["mode"]["enum"] == ["grep", "glob", "regex"]
    documented = {"query": "alpha", "include": ["*.py"], "exclude": ["b.py"]}
    found = await bench.text("file_search", mode="grep", path="src", **documented)
    assert found == "src/a.py\n  3: def alpha():\n[1 match in 1 file]"
    assert await bench.text("file_search", **documented) == found, "all below the current directory"


@pytest.mark.row("E129")
async def test_hits_are_grouped_by_file_with_line_numbers_and_counted(bench):
    assert await search(bench, "alpha") == (
        ".github/w.yml\n  1: alpha: 1\n"
        "doc/a.md\n  1: alpha (beta)\n"
        "src/a.py\n  3: def alpha():\n"
        "src/deep/b.py\n  1: alpha()\n  2: beta(alpha)\n"
        "[5 matches in 4 files]"
    )


@pytest.mark.row("E129")
async def test_all_modes_and_filters_work_and_exclude_wins(bench):
    assert await search(bench, "*.py", mode="glob") == "src/a.py\nsrc/deep/b.py\n[2 matches]"
    assert await search(bench, r"alpha\(\):\s+return", mode="regex") == (
        "src/a.py\n  3: def alpha():\n         return os.name\n[1 match in 1 file]"
    )
    assert "[2 matches in 1 file]" in await search(bench, "alpha", include=["b.py"])
    assert "[3 matches in 2 files]" in await search(bench, "alpha", glob="*.{py,toml}")
    both = await search(bench, "alpha", include=["*.py"], exclude=["deep/", "**/deep/*"])
    assert "[1 match in 1 file]" in both
    assert "src/a.py" in await search(bench, "alpha", query="ignored", path="src")


async def test_a_directory_can_be_listed_and_a_file_searched(bench):
    assert await search(bench, "/*", mode="glob", path="src") == "src/a.py\nsrc/deep/\n[2 matches]"
    assert "  3: def alpha" in await search(bench, "alpha", path="src/a.py")
    assert "build/out.py" in await search(bench, "alpha", path="build")


async def test_no_match_says_pattern_place_and_filter(bench):
    text = await search(bench, "zzz", path="src", glob="*.py", exclude=["x"])
    assert text == "No matches for 'zzz' (grep) in src, glob *.py, exclude x."
    missing = await bench.call("file_search", pattern="x", path="nope")
    assert missing.outcome is Outcome.ERROR
    assert "There is no nope" in missing.text


async def test_text_that_is_no_expression_or_finds_nothing_as_one_is_taken_as_text(bench):
    assert "  1: alpha (beta)" in await search(bench, "alpha (beta")
    text = await search(bench, "alpha (beta)")
    assert "  1: alpha (beta)" in text
    assert "[found as plain text, not as an expression]" in text
    result = await bench.call("file_search", pattern="(", mode="regex")
    assert "no regular expression" in result.text


async def test_the_limit_holds_and_the_total_is_told(bench):
    bench.file("many.txt", "needle\n" * 450)
    text = await search(bench, "needle")
    assert text.count("needle") == 100
    assert "[100 of 450 matches in 1 file shown" in text
    assert (await search(bench, "needle", limit=3)).count("needle") == 3
    assert "from 1 to 1000" in await search(bench, "needle", limit=5000)


async def test_long_lines_are_cut_around_the_hit(bench):
    bench.file("min.js", "x" * 100_000 + "needle" + "y" * 100_000)
    text = await search(bench, "needle")
    assert len(text) < 500
    assert "xneedley" in text


async def test_files_with_secrets_are_never_searched_silently(bench):
    bench.file(".env", "alpha=hunter2\n")
    bench.file("keys/server.pem", "alpha hunter2\n")
    for mode in ("grep", "regex"):
        text = await search(bench, "alpha.*", mode=mode)
        assert "hunter2" not in text
        assert "not searched because they hold secrets: .env, keys/server.pem" in text
    invocation, _ = bench.prepare("file_search", pattern="alpha", path=".env")
    assert invocation.effects[0].sensitive


async def test_links_lead_nowhere(bench):
    outside = bench.root.parent / "outside"
    outside.mkdir()
    (outside / "x.txt").write_text("alpha outside\n")
    (bench.root / "link").symlink_to(outside)
    (bench.root / "file").symlink_to(outside / "x.txt")
    assert "outside" not in await search(bench, "alpha")
    invocation, _ = bench.prepare("file_search", pattern="alpha", path="link")
    assert not invocation.effects[0].inside


async def test_a_link_swapped_in_before_the_search_makes_it_fail(bench):
    prepared = bench.prepare("file_search", pattern="alpha", path="src")
    (bench.root / "src").rename(bench.root / "old")
    (bench.root / "src").symlink_to("/etc")
    assert "now leads through a link" in (await bench.finish(prepared)).text


@pytest.mark.parametrize("bench", ["own"], indirect=True)
async def test_an_expression_without_end_is_stopped_and_the_loop_stays_free(bench):
    bench.file("evil.txt", "a" * 60_000 + "!\n")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    prepared = bench.prepare("file_search", pattern="^(([a-z])+.)+[A-Z]([a-z])+$", path="evil.txt")
    running = asyncio.create_task(bench.finish(prepared))
    async with asyncio.timeout(SOON_S):
        while ticks < 10:
            await asyncio.sleep(0.01)
    assert not running.done()
    ticking.cancel()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("bench", ["own"], indirect=True)
def test_the_deadline_ends_a_search_that_backtracks(bench):
    from tools.builtin.search import Clock, Request, search

    bench.file("evil.txt", "a" * 60_000 + "!\n")
    request = Request("^(a|aa)+$", bench.root, bench.root, 100)
    started = time.monotonic()
    findings = search(request, Clock(deadline=started + 0.5))
    assert time.monotonic() - started < SOON_S
    assert findings.stopped


async def test_other_encodings_and_names_are_found(bench):
    bench.file("wide.txt", "\ufeffalpha gr\u00fc\u00df\r\n".encode("utf-16-le"))
    (bench.root / os.fsdecode(b"n\xff.txt")).write_bytes(b"alpha\n")
    text = await search(bench, "alpha", glob="*.txt")
    assert "wide.txt\n  1: alpha gr\u00fc\u00df" in text
    assert "n\\xff.txt\n  1: alpha" in text


async def test_a_large_tree_is_searched_quickly(bench):
    for number in range(3000):
        bench.file(f"many/d{number % 30}/f{number}.py", f"value = {number}\n" * 20)
    started = time.monotonic()
    assert "many/d17/f17.py" in await search(bench, "value = 17$", limit=20)
    assert time.monotonic() - started < SOON_S


async def test_settings_and_programs_of_the_project_do_not_reach_the_search(bench):
    bench.file("rgrc", "--pre=./evil\n")
    bench.file("evil", "#!/bin/sh\ntouch ran\ncat $1\n").chmod(0o755)
    env = {**bench.services.child_env, "RIPGREP_CONFIG_PATH": str(bench.root / "rgrc")}
    bench.services = Services(bench.workspace, env)
    assert "[1 match in 1 file]" in await search(bench, "return os")
    assert not (bench.root / "ran").exists()


async def test_a_search_with_endless_hits_ends_and_says_so(bench):
    for number in range(30):
        bench.file(f"many/{number}.txt", "needle\n" * 1000)
    text = await search(bench, "needle", limit=2)
    assert text.count("  1: needle") + text.count("  2: needle") == 2
    assert "[2 of 30,000 matches in 30 files shown" in text or "there are more" in text
