"""Finding the text to replace, diffs, encodings, glob patterns and ignore rules."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.soon import SOON_S
from tools.files import matching
from tools.files.diffs import unified_diff
from tools.files.gitignore import Ignores
from tools.files.globs import GlobProblem, Globs
from tools.files.matching import Level, NotFound, NotUnique
from tools.files.nearest import closest
from tools.files.textfile import NotText, decode, detect
from tools.files.walk import walk


def edit(text: str, old: str, new: str, *, every: bool = False) -> tuple[str, Level]:
    found = matching.find(text, old, new, every=every)
    return matching.apply(text, found), found.level


@pytest.mark.parametrize(
    ("text", "old", "new", "expected", "level"),
    [
        ("a = 1\nb = 2\n", "b = 2", "b = 3", "a = 1\nb = 3\n", Level.EXACT),
        ("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\n", "x\r\ny\r\nc\r\n", Level.LINE_ENDS),
        ("a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n", Level.EXACT),
        ("if x:  \n  y\t\nz", "if x:\n  y\nz", "q", "q", Level.TRAILING_BLANKS),
        ("a  \nb", "a", "x", "x  \nb", Level.EXACT),
        ("p\n    if x:\n        y\nq\n", "if x:\n    y\n", "if z:\n    w\n",
         "p\n    if z:\n        w\nq\n", Level.INDENTATION),
        ("if x:\n    y\n", "    if x:\n        y", "    if x:\n        z", "if x:\n    z\n",
         Level.INDENTATION),
        ("say(\u201chi\u201d) \u2014 \u2018ok\u2019 \u201cother\u201d", "say(\"hi\") - 'ok'",
         "say('x')", "say('x') \u201cother\u201d", Level.PUNCTUATION),
        ("def f():\n    return 1\n", "1\tdef f():\n2\t    return 1", "1\tdef g():\n2\t    return 1",
         "def g():\n    return 1\n", Level.NUMBERS),
        ("x\n", " 1\tx", "y", "y\n", Level.NUMBERS),
        ("a\tb\n", "a\\tb", "a\\tc", "a\tc\n", Level.TABS),
        ("1\tone\n2\ttwo\n", "1\tone\n2\ttwo", "1\tuno\n2\tdue", "1\tuno\n2\tdue\n", Level.EXACT),
    ],
)  # fmt: skip
def test_each_level_finds_what_it_is_for_and_keeps_the_rest(text, old, new, expected, level):
    assert edit(text, old, new) == (expected, level)


@pytest.mark.parametrize(
    ("text", "old", "lines"),
    [
        ("x\ny\nx\n", "x", (1, 3)),
        ("aaa", "aa", (1, 1)),
        ("a \nb\nq\na  \nb\n", "a\nb", (1, 4)),
        ("  f(\n    1)\n    f(\n      1)\n", "f(\n  1)", (1, 3)),
    ],
)
def test_several_places_are_an_error_with_their_lines(text, old, lines):
    with pytest.raises(NotUnique) as error:
        matching.find(text, old, "new")
    assert error.value.lines == lines


def test_an_ambiguous_strict_level_is_never_solved_by_a_looser_one():
    with pytest.raises(NotUnique) as error:
        matching.find("a\nb\n\u2019a\nb\n", "a\nb", "x")
    assert error.value.level is Level.EXACT


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("if x:\n    y\n", "if x:\n  y\n"),
        ("  a\n   b\n", "a\n  b"),
        ("a b", "a  b"),
        ("x\n", "\n\n\n"),
        ("hello", "HELLO"),
        ("    a\nb\n", "        a\n  b"),
    ],
)
def test_nothing_looser_than_the_levels_is_accepted(text, old):
    with pytest.raises(NotFound):
        matching.find(text, old, "new")


def test_all_places_are_replaced_only_where_they_are_exact():
    assert edit("a.a \u2019a", "a", "b", every=True) == ("b.b \u2019b", Level.EXACT)
    with pytest.raises(NotFound):
        matching.find("\u2018a\u2019", "'a'", "b", every=True)


_TEXT = st.text(alphabet="ab \t\n\r'\u2019-\u2013\u00a0\"(", max_size=40)


@settings(max_examples=400)
@given(text=_TEXT, old=_TEXT.filter(bool), new=_TEXT)
def test_only_one_range_changes_whatever_was_folded(text, old, new):
    try:
        found = matching.find(text, old, new)
    except (NotFound, NotUnique):
        return
    ((start, end),) = found.spans
    after = matching.apply(text, found)
    assert 0 <= start <= end <= len(text)
    assert after == text[:start] + found.replacement + text[end:]


@settings(max_examples=300)
@given(before=_TEXT, old=_TEXT.filter(bool), after=_TEXT, new=_TEXT)
def test_a_text_that_stands_there_once_is_found_exactly_there(before, old, after, new):
    text = before + old + after
    starts = [n for n in range(len(text)) if text.startswith(old, n)]
    assume(len(starts) == 1)
    found = matching.find(text, old, new)
    assert found.level is Level.EXACT
    assert found.spans == ((len(before), len(before) + len(old)),)


@settings(max_examples=150)
@given(
    lines=st.lists(st.text(alphabet="abc \t", max_size=6), min_size=1, max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
    blanks=st.lists(st.sampled_from(["", " ", "\t "]), min_size=8, max_size=8),
)
def test_folded_ranges_end_where_the_original_text_does(lines, end, blanks):
    stored = [f"{line}{blank}" for line, blank in zip(lines, blanks, strict=False)]
    text = f"<{end}{end.join(stored)}{end}>"
    wanted = "\n".join(["<", *(line.rstrip() for line in lines), ">"])
    found = matching.find(text, wanted, "new")
    assert found.spans == ((0, len(text)),)


def test_the_closest_lines_are_found_in_bounded_time_in_a_huge_file():
    line = "x = compute(alpha, beta, {}) + other_value\n"
    text = "".join(line.format(number) for number in range(200_000))
    started = time.monotonic()
    passages = closest(text, "x = compute(alpha, beta, 77777) + another_value")
    assert time.monotonic() - started < SOON_S
    assert passages


def test_the_closest_lines_carry_their_numbers_and_unlike_text_gives_none():
    text = "import os\n\ndef total(items):\n    return sum(items)\n"
    (best, *_) = closest(text, "def total(item):\n    return sum(item)")
    assert (best.line, best.lines[0]) == (3, "def total(items):")
    assert closest(text, "<div class='zzz'>") == []
    assert closest("", "x") == []


@settings(max_examples=60)
@given(
    old=st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12),
    new=st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12),
    ends=st.tuples(st.booleans(), st.booleans()),
)
def test_a_diff_turns_the_old_text_into_the_new(tmp_path_factory, old, new, ends):
    if shutil.which("patch") is None:
        pytest.skip("no patch program")
    before, after = (
        "\n".join(lines) + ("\n" if lines and end else "")
        for lines, end in zip((old, new), ends, strict=True)
    )
    diff = unified_diff(before, after, "f")
    assert bool(diff) is (before != after)
    if not diff:
        return
    file = tmp_path_factory.mktemp("diff") / "f"
    file.write_text(before)
    subprocess.run(
        ["patch", "-s", str(file)], input=(diff + "\n").encode(), check=True, capture_output=True
    )
    assert (file.read_text() if file.exists() else "") == after


def test_a_diff_of_two_large_unlike_texts_takes_no_quadratic_time():
    old = "".join(f"line {number % 7}\n" for number in range(60_000))
    new = "".join(f"line {number % 5}\n" for number in range(60_000))
    started = time.monotonic()
    assert unified_diff(old, new, "f").startswith("--- f\n+++ f\n@@ ")
    assert time.monotonic() - started < SOON_S


@pytest.mark.parametrize(
    "data",
    [
        b"plain\n", b"\xef\xbb\xbfmark\r\n", b"gr\xc3\xbc\n", "gr\u00fc\u00df".encode("latin-1"),
        "\ufeffwide\r\n".encode("utf-16-le"), "\ufeffwide".encode("utf-16-be"),
        "no mark at all here".encode("utf-16-le"), "\ufeffx".encode("utf-32-le"), b"",
    ],
)  # fmt: skip
def test_text_goes_back_to_the_same_bytes(data):
    text, encoding = decode(data)
    assert encoding.encode(text) == data
    assert "\ufeff" not in text


@settings(max_examples=200)
@given(st.binary(max_size=300))
def test_any_bytes_are_text_that_round_trips_or_are_refused(data):
    try:
        text, encoding = decode(data)
    except NotText:
        return
    assert encoding.encode(text) == data


@pytest.mark.parametrize(
    "head",
    [b"\x89PNG\r\n\x1a\n\0\0", b"\x7fELF\x02\x01\0\0", b"%PDF-1.7\n", bytes(range(256))],
)
def test_binary_data_is_no_text(head):
    with pytest.raises(NotText):
        detect(head)


def test_text_cut_inside_a_character_is_still_utf8():
    assert detect("\u20ac".encode() * 4000).codec == "utf-8"


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py/x"]),
        ("/*", ["a", "a.py"], ["a/b"]),
        ("src/**/*.ts", ["src/a.ts", "src/x/y/a.ts"], ["a.ts", "lib/src/a.ts"]),
        ("**/test_*.py", ["test_a.py", "x/test_b.py"], ["x/atest_b.py"]),
        ("*.{ts,tsx}", ["a.ts", "b/c.tsx"], ["a.t"]),
        ("{a,b{c,d}}", ["a", "bc", "x/bd"], ["b", "c"]),
        ("src/", ["src/a", "x/src/a/b"], ["src"]),
        ("[a-c]?[!x].md", ["bzy.md"], ["bzx.md", "dzy.md"]),
        ("./a/b", ["a/b"], ["x/a/b"]),
        ("a{b", ["a{b"], ["ab"]),
        ("**", ["a", "a/b"], []),
        ("\\*", ["*"], ["a"]),
        ("[]]", ["]"], ["["]),
        ("[", ["["], ["a"]),
    ],
)
def test_globs_match_paths_as_people_expect(pattern, yes, no):
    globs = Globs([pattern])
    assert [path for path in yes if not globs.matches(path)] == []
    assert [path for path in no if globs.matches(path)] == []


def test_no_glob_takes_more_than_a_moment():
    started = time.monotonic()
    assert not Globs(["*a" * 40 + "b"]).matches("a" * 250)
    assert not Globs(["**/a/" * 30 + "b"]).matches("a/" * 200 + "c")
    with pytest.raises(GlobProblem):
        Globs(["{a,b}" * 20])
    assert time.monotonic() - started < SOON_S


def listed(root: Path) -> list[str]:
    ignores = Ignores.above(root, root)
    return [entry.relative for entry in walk(root, ignores, lambda: True) if not entry.is_directory]


def test_ignore_rules_agree_with_git(tmp_path):
    root = (tmp_path / "r").resolve()
    files = {
        ".gitignore": "*.log\n!keep.log\nbuild/\n/top.txt\ndoc/*.txt\n# no\n\\#odd\n**/cache\n",
        "sub/.gitignore": "!a.log\nlocal\n/anchored\n",
        "a.log": "", "keep.log": "", "top.txt": "", "sub/top.txt": "", "sub/a.log": "",
        "sub/b.log": "", "sub/local": "", "sub/deep/local": "", "sub/anchored": "",
        "sub/deep/anchored": "", "build/x": "", "sub/build/y": "", "doc/a.txt": "",
        "doc/x/b.txt": "", "#odd": "", "x/cache/f": "", "xcache": "", "build.py": "",
        "build/keep.log": "",
    }  # fmt: skip
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".git/info/exclude").write_text("xcache\n")
    git = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert sorted(listed(root)) == sorted(git.stdout.splitlines())


def test_hostile_ignore_rules_do_not_hang_a_walk(tmp_path):
    (tmp_path / ".gitignore").write_text("*a*a*a*a*a*a*a*a*b\n[\n!\n*.log\n" + "x" * 100)
    (tmp_path / ("a" * 250)).write_text("")
    (tmp_path / "x.log").write_text("")
    started = time.monotonic()
    assert listed(tmp_path.resolve()) == [".gitignore", "a" * 250]
    assert time.monotonic() - started < SOON_S


def test_a_walk_follows_no_links_and_survives_names_that_are_no_text(tmp_path):
    root = tmp_path.resolve()
    (root / "loop").symlink_to(root)
    (root / "etc").symlink_to("/etc")
    (root / os.fsdecode(b"caf\xe9")).write_text("")
    (root / "new\nline").write_text("")
    os.mkfifo(root / "pipe")
    assert listed(root) == [os.fsdecode(b"caf\xe9"), "new\nline"]
