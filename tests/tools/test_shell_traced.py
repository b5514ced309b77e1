"""Random shell text from a grammar: what needs no rule, watched with strace, changes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.commands import verdict
from tests.support.strace import changes, needs_strace, watched_for_changes
from tools.builtin.git_settings import without_transport
from tools.permissions.git_options import PLAIN, SEPARATE_VALUE
from tools.permissions.read_only_options import (
    FIND_ALONE,
    FIND_FILES,
    FIND_TEXT,
    GIT,
    JQ_ALONE,
    PROGRAMS,
    Program,
)
from tools.permissions.rules import Verdict

BASH = shutil.which("bash")
pytestmark = [
    needs_strace,
    pytest.mark.skipif(BASH is None, reason="there is no bash on this machine"),
]
EACH = 'for line; do "$BASH" -c "$line" < /dev/null; done'

OPERANDS = ["a.py", "b.txt", "src", ".", "-", "new", "*", "src/*", '"a.py"', "-o", "-w", "--", "x"]
VALUES = ["1", "2", "a.py", "new", "-o", "x", "','", "'%s'", "src"]
SCRIPTS = ["p", "1,2p", "s/one/new/", "s/one/two/w new", "w new", "1e touch new", "/one/d", "$!d",
           ".", ".a", "'{print $1}'", "'{print > \"new\"}'", "-f", "-i", "-n", "-e", "-E",
           "-F:"]  # fmt: skip
WAYS = ["{}", "{}", "{}", "{} 2>&1", "{} > /dev/null", "{} < a.py", "{} > new", "({})", "! {}",
        "echo $({})", "cat <({})", "if {}; then ls; fi", "for f in *; do {}; done", "x=$({}); echo",
        "cd src && {}", "cat a.py | {}", "{} <<< one",
        "while read -r x; do {}; done < a.py"]  # fmt: skip


def option_words(known: Program) -> list[str]:
    """Return the options of a program in every form in which they can be written."""
    alone, valued = sorted(known.alone), sorted(known.text | known.files)
    short = [name[1] for name in alone if len(name) == 2 and name != "-#"]
    found = [name.replace("#", "3") for name in alone]
    found += [f"-{one}{other}" for one, other in zip(short, reversed(short), strict=True)]
    found += [f"{short[0]}{name[1]}" for name in valued if short and len(name) == 2]
    for name in valued:
        long = name.startswith("--")
        found += [f"{name}={value}" if long else f"{name}{value}" for value in VALUES[:4]]
        found += [f"{name} {value}" for value in VALUES]
        if short and not long and name != "-#":
            found += [f"-{short[0]}{name[1]} {value}" for value in ("1", "a.py")]
    for name in sorted(known.optional):
        found += [name, f"{name}=1" if name.startswith("--") else f"{name}1", f"{name} a.py"]
    return [word.replace("-#", "-3") for word in found]


def lines_of(name: str, options: list[str], operands: list[str]) -> st.SearchStrategy[str]:
    words = st.sampled_from(operands)
    if options:
        words = st.one_of(st.sampled_from(options), words)
    return st.lists(words, max_size=4).map(lambda found: " ".join((name, *found)))


def git_lines() -> list[st.SearchStrategy[str]]:
    revisions = [*OPERANDS, "HEAD", "HEAD~1", "HEAD:a.py", "main"]
    plain = {name: sorted(options) for name, options in PLAIN.items()}
    valued = [f"{name} {value}" for name in sorted(SEPARATE_VALUE) for value in ("1", "a.py")]
    found = {name: option_words(known) for name, known in GIT.items()}
    found |= {name: [*options, *valued] for name, options in plain.items()}
    found |= {name: ["-l", "-v", "list", "show"] for name in ("tag", "stash", "reflog", "remote")}
    return [lines_of(f"git {name}", words, revisions) for name, words in sorted(found.items())]


FIND = [*sorted(FIND_ALONE - {"(", ")", "!"}), "\\(", "\\)", "-delete", "-fls new",
        *(f"{name} {value}" for name in sorted(FIND_TEXT | FIND_FILES)
          for value in ("a.py", "1"))]  # fmt: skip
SIMPLE = st.one_of(
    *(lines_of(name, option_words(known), OPERANDS)
      for name, known in sorted(PROGRAMS.items()) if name != "sleep"),
    *git_lines(),
    lines_of("find", FIND, OPERANDS),
    lines_of("jq", sorted(JQ_ALONE - set("rcnsSeMCjaR")), [*OPERANDS, *SCRIPTS]),
    *(lines_of(name, SCRIPTS, OPERANDS) for name in ("sed", "awk")),
)  # fmt: skip
LINES = st.lists(
    st.tuples(SIMPLE, st.sampled_from(WAYS)).map(lambda pair: pair[1].format(pair[0])),
    min_size=1,
    max_size=2,
).flatmap(lambda parts: st.sampled_from([" | ", "; ", " && ", " || ", "\n"]).map(
    lambda joint: joint.join(parts)
))  # fmt: skip


class Watched:
    """A throw-away repository, which is the home directory too, in which lines are run."""

    def __init__(self, place: Path) -> None:
        self.root = place / "project"
        self.log = place / "trace"
        self.scratch = place / "scratch"
        self.scratch.mkdir()
        (self.root / "src").mkdir(parents=True)
        for name in ("a.py", "b.txt", "src/c.py", "-o", "x"):
            (self.root / name).write_text('{"a": "one"}\n')
        self.env = without_transport({
            "PATH": os.environ["PATH"], "HOME": str(self.root), "LC_ALL": "C.UTF-8",
            "BASH": str(BASH), "GIT_PAGER": "cat", "TMPDIR": str(self.scratch),
        })  # fmt: skip
        person = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null"]
        for words in (["init", "-q", "."], ["add", "-A"], [*person, "commit", "-qm", "first"]):
            if shutil.which("git"):
                subprocess.run(["git", *words], cwd=self.root, env=self.env, check=True)
        # Newer than the index says: git would note it there.
        (self.root / "a.py").touch()

    def changes(self, *lines: str) -> list[str]:
        """Run lines and return what they did beside reading."""
        subprocess.run(
            watched_for_changes(self.log, (str(BASH), "-c", EACH, "each", *lines)),
            cwd=self.root, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=120, check=False,
        )  # fmt: skip
        return changes(self.log, self.root, self.scratch)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Watched(tmp_path_factory.mktemp("watched"))


@given(lines=st.lists(LINES, min_size=12, max_size=12))
@settings(max_examples=settings.default.max_examples // 8, suppress_health_check=list(HealthCheck))
def test_r06_r09_what_needs_no_rule_writes_nothing_and_opens_no_socket(place, lines):
    allowed = [line for line in lines if verdict(line, place.root) is Verdict.ALLOW]
    if allowed:
        assert place.changes(*allowed) == [], allowed


@pytest.mark.parametrize(
    "line",
    ["touch new", "echo > new", "sort -o new a.py", "mkdir new", "chmod 600 a.py", "rm x",
     "mv x new", "ln -s x new", "cat < /dev/tcp/127.0.0.1/9", "./-o", "git add a.py",
     "xxd -bc a.py b.txt"],
)  # fmt: skip
def test_r06_what_is_asked_about_would_be_seen(tmp_path, line):
    seen = Watched(tmp_path)
    (seen.root / "-o").write_text("#!/bin/sh\n")
    (seen.root / "-o").chmod(0o755)
    if line[0] != "." and shutil.which(line.split()[0]) is None:
        pytest.skip(f"{line.split()[0]} is not installed")
    assert verdict(line, seen.root) is Verdict.ASK
    assert seen.changes(line)
    assert not seen.changes("cat a.py | sort -u; ls -la; find . -name '*.py'")
