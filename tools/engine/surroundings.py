"""Where and with what the processes of a plan run: directory, environment, temporary directory."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from tools.actions import PlanEnvironment
from tools.definition import ToolError
from tools.engine.environment import WITHOUT_TERMINAL
from tools.record import record

MINIMAL = ("PATH", "HOME", "LANG", "TMPDIR")
"""What a process gets of opta's environment where a tool wants none of it (X126)."""

TEMP_VARIABLES = ("TMPDIR", "TEMP", "TMP")


@record
class Surroundings:
    """Where the processes of one call run.

    `env` is the whole environment, `changes` what the tool itself set in it. `temp` is the call's
    own temporary directory, which is made when the call runs and not before. `secrets` are values
    that never show.
    """

    cwd: Path
    env: Mapping[str, str]
    changes: Mapping[str, str] = field(default_factory=dict)
    temp: Path | None = None
    secrets: tuple[str, ...] = ()


def surroundings(
    environment: PlanEnvironment,
    *,
    root: Path,
    child_env: Mapping[str, str],
    fill: Callable[[str], str],
    variable: Callable[[str], str | None],
    wants_temp: bool = False,
) -> Surroundings:
    """Decide where a call runs. Nothing is made or changed.

    `fill` puts the call's values into a template; `variable` does so for an environment variable
    and returns None where a name in it has no value, so that it is not set (X92).
    Raises ToolError when the working directory does not exist or is not allowed.
    """
    fill_in = fill if environment.placeholders else str
    changes = {}
    for name, template in environment.variables.items():
        value = variable(template) if environment.placeholders else template
        if value is not None:
            changes[name] = _usable(name, value)
    wants_temp = wants_temp or bool(environment.temp_directory)
    temp = _temp(environment, fill_in, child_env) if wants_temp else None
    env = dict(child_env) if environment.inherit else _minimal(child_env)
    if temp is not None:
        env |= dict.fromkeys(TEMP_VARIABLES, str(temp))
    env |= changes
    hidden = (changes.get(name) or child_env.get(name) for name in environment.secrets)
    return Surroundings(
        cwd=_cwd(environment, fill_in, root),
        env=env,
        changes=changes,
        temp=temp,
        secrets=tuple(value for value in hidden if value),
    )


def system_temp(env: Mapping[str, str]) -> Path:
    """Return the system's temporary directory, as processes with this environment see it."""
    named = (env[name] for name in TEMP_VARIABLES if env.get(name))
    return Path(next(named, "/tmp" if os.name == "posix" else "C:\\Windows\\Temp"))


def _minimal(child_env: Mapping[str, str]) -> dict[str, str]:
    kept = {name: child_env[name] for name in MINIMAL if name in child_env}
    return {"PATH": os.defpath} | kept | WITHOUT_TERMINAL


def _usable(name: str, value: str) -> str:
    if "\0" in value:
        raise ToolError(
            f"The environment variable {name} would hold a NUL character, which no program can be "
            "given. Nothing was done."
        )
    return value


def _cwd(environment: PlanEnvironment, fill: Callable[[str], str], root: Path) -> Path:
    if not environment.working_directory:
        return root
    asked = fill(environment.working_directory)
    try:
        # Not resolved: a shell is to see the path that the file names.
        path = Path(os.path.normpath(root / Path(asked).expanduser()))
        exists = path.is_dir()
        inside = path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise ToolError(f"The working directory {asked!r} cannot be used: {error}.") from error
    if not exists:
        raise ToolError(
            f"The working directory {path} does not exist. Nothing was done. Make it first, or "
            "change where the tool's file says it runs."
        )
    if environment.confined and not inside:
        raise ToolError(
            f"The working directory {path} is outside the workspace {root}, which this tool does "
            "not allow. Nothing was done."
        )
    return path


def _temp(environment: PlanEnvironment, fill: Callable[[str], str], env: Mapping[str, str]) -> Path:
    base = top = system_temp(env)
    if environment.temp_directory:
        base = top / Path(fill(environment.temp_directory)).expanduser()
        if _is_shared(base, top):
            base = top
    # Calls that run at the same time must not share, nor delete, each other's files (X116).
    return base / f"opta-{secrets.token_hex(8)}"


def _is_shared(base: Path, top: Path) -> bool:
    """Tell whether a directory below the system's temporary one is not this user's alone.

    Who owns it could put something else in the place of what is made in it.
    """
    if os.name != "posix" or not base.is_relative_to(top):
        return False
    below = [path for path in (base, *base.parents) if path != top and path.is_relative_to(top)]
    with suppress(FileNotFoundError):
        for path in reversed(below):
            found = path.lstat()
            if stat.S_ISLNK(found.st_mode) or found.st_uid not in (0, os.geteuid()):
                return True
    return False
