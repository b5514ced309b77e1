"""`opta tool run` that is told to end: its steps end with it, and cleanup is done."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import OPTA
from tests.support.processes import group_is_gone
from tests.support.soon import SOON_S, until

TOOL = """\
name: slow
description: d
steps:
  - {name: one, parallel: true, wait-for: [], bash: "trap '' TERM HUP; echo $$ > one; sleep 60; :"}
  - {name: two, parallel: true, wait-for: [], bash: "exec >&- 2>&-; echo $$ > two; sleep 60; :"}
resources:
  cleanup: [{final-command: echo done > cleaned}]
"""


def number_in(path: Path) -> int:
    return int(path.read_text() or 0) if path.exists() else 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_every_step_and_cleanup_runs(tmp_path: Path, number: signal.Signals) -> None:
    tools = tmp_path / ".opta" / "tools"
    tools.mkdir(parents=True)
    (tools / "slow.yaml").write_text(TOOL)
    # What runs the tests may ignore SIGHUP (nohup), and would hand that down.
    with subprocess.Popen(
        [*OPTA, "tool", "run", "slow", "--trust"], cwd=tmp_path, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        leaders: list[int] = []
        try:
            until(lambda: number_in(tmp_path / "one") and number_in(tmp_path / "two"))
            leaders += [number_in(tmp_path / "one"), number_in(tmp_path / "two")]
            running.send_signal(number)
            _, said = running.communicate(timeout=SOON_S)
        finally:
            running.kill()
    assert running.returncode == 130
    assert b"Traceback" not in said
    until(lambda: all(map(group_is_gone, leaders)))
    assert (tmp_path / "cleaned").read_text() == "done\n"
