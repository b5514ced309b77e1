"""How long a verdict takes, with 3,000 rules where nothing else is said.

The floor is what the answer cannot do without: parsing the text with tree-sitter and visiting every
node. Both are measured in the same run, each as the best of several.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, Figure
from tools.actions import BuiltinAction
from tools.definition import (
    Effect,
    EffectKind,
    Invocation,
    Origin,
    ResolvedCall,
    Risk,
    Source,
    TextDisplay,
    ToolDefinition,
)
from tools.permissions.rules import RuleSet, Verdict, parse_rule
from tools.permissions.shell_words import read_commands

ROOT = Path(__file__).resolve().parent.parent
SHORT = (
    'rg -n "def main" tools --glob "*.py" | sort -k2 | head -20 && git log --oneline -5 '
    "&& sed -n 1,20p tools/permissions/shell.py; wc -l README.md AGENTS.md; cat Makefile | tail -5 "
    '; echo "that was it"'
)[:200]
LONG = {
    "10,000 of `ls;`": "ls;" * 3333,
    "10,000 of `cat N;`": "".join(f"cat {n};" for n in range(1050)),
    "10,000 of words": "echo " + "a " * 4997,
    "10,000 of quotes": "echo 'x' \"y\";" * 770,
    "10,000 of git": "git x; " * 1428,
    "10,000 open brackets": "$(" * 5000,
}
CALL = ResolvedCall(
    "call",
    ToolDefinition(
        "run_command", "d", {"type": "object"}, BuiltinAction("run_command"),
        Origin(Source.BUILTIN, "python"), Risk.HIGH,
    ),
    {},
)  # fmt: skip


def verdict(bench: Bench) -> list[Figure]:
    many = rules(1000)
    return [
        _figure("verdict, 200 characters, 9 rules", SHORT, rules(3), 1.0),
        _figure("verdict, 200 characters, 3,000", SHORT, many, 1.0),
        *(_figure(f"verdict, {name}", line, many, 50.0) for name, line in LONG.items()),
    ]


def rules(number: int) -> RuleSet:
    """Return `number` rules of each verdict, none of which decides."""
    texts = {Verdict.DENY: "git sub{}:*", Verdict.ASK: "npm sub{}:*", Verdict.ALLOW: "make sub{}:*"}
    found = [
        parse_rule(verdict, f"run_command({text.format(n)})", "bench")
        for verdict, text in texts.items()
        for n in range(number)
    ]
    return RuleSet(found, ROOT)


def _figure(name: str, line: str, rule_set: RuleSet, target_ms: float) -> Figure:
    invocation = Invocation(
        line,
        (Effect(EffectKind.EXECUTE, line, "run_command", cwd=str(ROOT)),),
        TextDisplay(line),
        _run,
    )

    def judge() -> None:
        read_commands.cache_clear()
        rule_set.judge(CALL, invocation)

    return Figure(name, "ms", best(lambda: parse(line.encode())), best(judge), target_ms)


def parse(data: bytes) -> None:
    """Parse and visit every node."""
    from tools.permissions.shell_syntax import parser

    waiting = [parser().parse(data).root_node]
    while waiting:
        waiting.extend(waiting.pop().children)


def best(action: Callable[[], None], runs: int = 9) -> float:
    """Return the shortest CPU time of several runs, in ms."""
    taken = []
    for _ in range(runs):
        start = time.process_time()
        action()
        taken.append(time.process_time() - start)
    return 1000 * min(taken)


async def _run(grant: Any, progress: Any) -> Any:
    raise AssertionError("only judged, never run")
