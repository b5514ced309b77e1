"""What `opta doctor` finds out: about the machine, the settings, trust, tools and the model."""

from __future__ import annotations

import asyncio
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.configuration import isolation_of, read_settings
from agent.configured_model import make_model, unusable
from agent.errors import UserError
from agent.messages import UserMessage
from agent.model.base import ModelError, ModelRequest
from agent.project import ProjectTrust, trust_in
from agent.settings_files import managed_file, user_file
from agent.settings_values import Settings
from agent.team import team_tools
from agent.tool_registry import build_registry
from tools import storage
from tools.code import images, runtimes
from tools.confinement import ANY, ENGINES, SANDBOXES, Level, Sandboxing
from tools.definition import JsonObject, ToolError
from tools.engine.isolation import memory
from tools.engine.isolation.choice import Isolation
from tools.engine.isolation.proof import Proof, prove

_ONLINE_TIMEOUT_S = 60


@dataclass(slots=True)
class Diagnosis:
    """All that was found. `problems` are what keeps opta from doing what the settings say."""

    opta: JsonObject
    isolation: list[JsonObject] = field(default_factory=list)
    memory: JsonObject = field(default_factory=dict)
    programs: list[JsonObject] = field(default_factory=list)
    settings: JsonObject = field(default_factory=dict)
    project: JsonObject = field(default_factory=dict)
    tools: JsonObject = field(default_factory=dict)
    team: JsonObject = field(default_factory=dict)
    model: JsonObject = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def diagnose(
    root: Path, version: str, flags: dict[str, Any], *, trust: bool, online: bool
) -> Diagnosis:
    """Look at everything; what is wrong becomes a line, not an error.

    Nothing leaves the machine unless `online`, which sends one short request to the model.
    """
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    found = Diagnosis({"version": version, "python": platform.python_version(), "system": system})
    try:
        project = trust_in(root, given=trust)
    except (UserError, storage.StorageError) as error:
        return _stopped(found, [], error)
    settings = _settings(found, project, flags)
    if settings is not None:
        _isolation(found, root, settings)
        _tools(found, project, settings)
        _team(found, settings)
        _model(found, settings, online=online)
    return found


def _stopped(found: Diagnosis, files: list[str], error: Exception) -> Diagnosis:
    found.settings = {"files": files, "problems": [str(error)]}
    found.problems.append(str(error))
    return found


def _settings(found: Diagnosis, trust: ProjectTrust, flags: dict[str, Any]) -> Settings | None:
    files = []
    try:
        own = [managed_file(), user_file()]
        files = [str(path) for path in own if path.is_file()]
        report = trust.report
        found.project = {
            "directory": str(trust.root),
            "trusted": trust.level.runs,
            "brings": [file.path for file in report.files],
        }
        if trust.level.reads:
            files += [str(trust.root / file.path) for file in report.settings]
        settings = read_settings(trust.root, flags, trusted=trust.settings)
    except (UserError, storage.StorageError) as error:
        _stopped(found, files, error)
        return None
    found.settings = {
        "files": files,
        "problems": list(settings.warnings),
        "mode": str(settings.mode),
        "sandbox": str(settings.isolation.sandbox),
    }
    found.problems += settings.warnings
    return settings


def _isolation(found: Diagnosis, root: Path, settings: Settings) -> None:
    path, wanted = os.environ.get("PATH", os.defpath), settings.isolation
    found.isolation = [{
        "level": "process", "by": "opta", "available": True, "chosen": True,
        "enforces": ["a process group of its own", "no keys of providers in its environment"],
        "gaps": ["files", "network"], "reason": "", "advice": "",
    }]  # fmt: skip
    for level, backends, chosen in (
        (Level.SANDBOX, SANDBOXES, wanted.backend),
        (Level.CONTAINER, ENGINES, wanted.engine),
    ):
        proofs = [prove(backend, path, wanted.image) for backend in backends]
        usable = [p for p in proofs if p.available and chosen in (ANY, p.backend)]
        found.isolation += [_row(level, proof, usable[:1] == [proof]) for proof in proofs]
    limit = memory.means(path)
    found.memory = {"reach": str(limit.reach), "by": limit.how}
    isolation = isolation_of(root, settings)
    if wanted.sandbox is not Sandboxing.OFF and isolation.sandbox() is None:
        found.problems.append(f"sandbox: {wanted.sandbox} is set, and no sandbox works here")
    if wanted.image and isolation.engine() is None:
        found.problems.append(f"container_image: {wanted.image} is set, and no container runs here")
    sandbox = next(
        (r["by"] for r in found.isolation if r["level"] == "sandbox" and r["chosen"]), ""
    )
    found.programs = [
        _contained(language, isolation) if wanted.code_image
        else _programs(language, path, root, sandbox)
        for language in runtimes.LANGUAGES
    ]  # fmt: skip
    if wanted.code_image and not any(row["available"] for row in found.programs):
        found.problems.append(f"code_image: {wanted.code_image} is set, and runs no program here")


def _programs(language: str, path: str, root: Path, sandbox: str) -> JsonObject:
    """Say what runs code tools in a language here, and what keeps them in."""
    reason = runtimes.missing(language, path, root)
    usable = [] if reason else runtimes.find(language, path, root)
    runtime = runtimes.walled(usable, sandbox=bool(sandbox))
    if runtime is None:
        return _no_program(language, reason or "no sandbox works here")
    walls = "its own sandbox" if runtime.has_walls else f"the sandbox {sandbox}"
    return _program(language, runtime, walls)


def _contained(language: str, isolation: Isolation) -> JsonObject:
    """Say what runs code tools in a language in the image for programs."""
    try:
        runtime, walls = images.choose(isolation, language)
    except ToolError as error:
        return _no_program(language, str(error))
    return _program(language, runtime, f"a container of {walls.image} by {walls.backend}")


def _program(language: str, runtime: runtimes.Runtime, walls: str) -> JsonObject:
    return {
        "language": language, "available": True, "by": runtime.name,
        "program": str(runtime.program), "walls": walls, "reason": "",
    }  # fmt: skip


def _no_program(language: str, reason: str) -> JsonObject:
    return {"language": language, "available": False, "by": "", "reason": reason}


def _row(level: Level, proof: Proof, chosen: bool) -> JsonObject:
    return {
        "level": str(level), "by": str(proof.backend), "available": proof.available,
        "chosen": chosen, "enforces": list(proof.enforces),
        "gaps": list(proof.gaps) if proof.available else [],
        "reason": proof.reason, "advice": proof.advice,
    }  # fmt: skip


def _tools(found: Diagnosis, trust: ProjectTrust, settings: Settings) -> None:
    try:
        registry = build_registry(trust, settings)
        registry.refresh()
        problems = [str(problem) for problem in registry.problems]
        enabled = sum(entry.enabled for entry in registry.entries())
        found.tools = {"enabled": enabled, "problems": problems}
    except UserError as error:
        found.tools = {"problems": [str(error)]}
    found.problems += found.tools["problems"]


def _team(found: Diagnosis, settings: Settings) -> None:
    try:
        team = team_tools(settings)
        if team is None:
            return
        from tools.sources.team.tools import ago

        state = team.state()
    except (UserError, storage.StorageError) as error:
        found.problems.append(str(error))
        return
    found.team = {
        "name": team.config.name, "place": team.config.place,
        "answered": ago(state.last.checked_at) if state.last else "",
        "in_use": [tool.name for tool in state.in_use],
        "waiting": [one.title for one in state.waiting],
    }  # fmt: skip
    if state.last is None:
        told = f"team {team.config.name}: nothing is known of it yet: opta team sync"
        found.problems.append(told)
    found.problems += [str(problem) for problem in state.problems if not problem.warning]


def _model(found: Diagnosis, settings: Settings, *, online: bool) -> None:
    key = "settings file" if settings.api_key else "none"
    if os.environ.get(settings.api_key_env):
        key = f"environment {settings.api_key_env}"
    found.model = {
        "model": settings.model, "base_url": settings.base_url,
        "api": settings.api, "key": key, "from": settings.source("base_url"),
    }  # fmt: skip
    problem = unusable(settings)
    if online and settings.model:
        problem = problem or asyncio.run(_answers(settings))
        found.model["online"] = problem or "it answers"
    if problem:
        found.problems.append(problem)


async def _answers(settings: Settings) -> str:
    """Ask the model for a word; return what went wrong, or nothing."""
    try:
        client = make_model(settings, settings.model)
        try:
            async with asyncio.timeout(_ONLINE_TIMEOUT_S):
                async for _ in client.stream(ModelRequest("", [UserMessage("Say: ok")])):
                    break
        finally:
            await client.aclose()
    except ModelError as error:
        return f"{error} {error.next_step}".strip()
    except TimeoutError:
        return f"the model did not answer within {_ONLINE_TIMEOUT_S} s"
    return ""
