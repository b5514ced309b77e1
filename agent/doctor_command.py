"""`opta doctor`: what this machine and these settings can do, as text or JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, TextIO

from agent import log
from agent.errors import DONE, FAILED
from agent.flags import CODEX_FLAGS, add_codex_flags, add_model_flags, add_project_flags
from agent.project import project_root
from agent.streams import write_json
from tools.definition import JsonObject
from tools.engine.output import visible
from tools.record import with_texts

if TYPE_CHECKING:
    from agent.doctor import Diagnosis


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = "exit codes:\n  0    nothing is wrong\n  1    a problem was found\n"
    parser.add_argument(
        "--format", "--output-format", choices=("text", "json"), default="text",
        help="text, or one JSON object",
    )  # fmt: skip
    parser.add_argument(
        "--online", action="store_true", help="also send one short request to the model"
    )
    add_project_flags(parser)
    add_model_flags(parser)
    add_codex_flags(parser)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Carry it out; return the exit code. Raises UserError."""
    from agent.doctor import diagnose

    names = ("model", "base_url", "api", *CODEX_FLAGS)
    diagnosis = diagnose(
        project_root(arguments.directory),
        arguments.version_text,
        {name: getattr(arguments, name) for name in names},
        trust=arguments.trust,
        online=arguments.online,
    )
    found: Diagnosis = with_texts(diagnosis, log.shown)
    if arguments.format == "json":
        write_json(out, asdict(found))
    else:
        out.writelines(f"{visible(line)}\n" for line in _text(found))
    return FAILED if found.problems else DONE


def _text(found: Diagnosis) -> Iterator[str]:
    yield "opta {version}, Python {python}, {system}".format(**found.opta)
    if found.isolation:
        yield from ("", "Isolation (each was tried just now)")
        for row in found.isolation:
            yield from _isolation(row)
        yield "  memory     {by}: a limit holds for {what}".format(
            by=found.memory["by"], what=_REACH[found.memory["reach"]]
        )
        yield from ("", "Code tools")
        yield from _facts(
            {row["language"]: _program(row) for row in found.programs},
            {row["language"]: row["language"] for row in found.programs},
        )
    yield from ("", "Settings")
    yield from _facts(found.settings, {"files": "read from", "mode": "mode", "sandbox": "sandbox"})
    yield from ("", "Project")
    yield from _facts(
        found.project, {"directory": "directory", "trusted": "trusted", "brings": "brings"}
    )
    if found.team:
        yield from ("", "Team")
        names = {"name": "team", "place": "place", "answered": "answered"}
        yield from _facts(found.team, names | {"in_use": "in use", "waiting": "waiting"})
    if found.model:
        yield from ("", "Model")
        names = {"model": "model", "base_url": "address", "api": "API", "key": "key"}
        yield from _facts(found.model, names | {"online": "online"})
    yield ""
    if not found.problems:
        yield "No problems."
        return
    yield "Problems"
    yield from (f"  - {problem}" for problem in found.problems)


_REACH = {
    "tree": "all processes of a call together",
    "process": "each process, not for all together",
    "none": "nothing",
}


def _isolation(row: JsonObject) -> Iterator[str]:
    state = "yes" if row["available"] else "no"
    used = ", used" if row["available"] and row["chosen"] and row["level"] != "process" else ""
    yield f"  {row['level']:<10} {row['by']:<11} {state}{used}"
    details = {"keeps": row["enforces"], "does not keep out": row["gaps"]}
    for name, values in details.items():
        if values:
            yield f"             {name}: {'; '.join(values)}"
    if row["reason"]:
        yield f"             {row['reason']}"
    if row["advice"]:
        yield f"             to do: {row['advice']}"


def _program(row: JsonObject) -> str:
    if not row["available"]:
        return f"no: {row['reason']}"
    return f"{row['by']}, kept in by {row['walls']} ({row['program']})"


def _facts(facts: JsonObject, names: dict[str, str]) -> Iterator[str]:
    for key, name in names.items():
        if key not in facts:
            continue
        value = facts[key]
        if isinstance(value, bool):
            value = "yes" if value else "no"
        elif isinstance(value, list):
            value = ", ".join(value) or "nothing"
        yield f"  {name:<10} {value or 'none'}"
