"""What the processes of a call may touch: decided before a call is asked about, bound to its grant.

A confinement says what is wanted; `tools.engine.isolation` knows how this machine enforces it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path

from tools.record import record


class Level(StrEnum):
    """How much stands between a process and the machine, the weakest first."""

    PROCESS = "process"
    SANDBOX = "sandbox"
    CONTAINER = "container"


class Backend(StrEnum):
    """What enforces a level."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    SEATBELT = "seatbelt"
    PODMAN = "podman"
    DOCKER = "docker"


SANDBOXES = (Backend.BUBBLEWRAP, Backend.LANDLOCK, Backend.SEATBELT)
"""What can enforce `Level.SANDBOX`, the strongest first."""

ENGINES = (Backend.PODMAN, Backend.DOCKER)
"""What can enforce `Level.CONTAINER`, the one that needs no daemon first."""


ANY = "auto"
"""The value of a setting that leaves the backend to opta."""


class Sandboxing(StrEnum):
    """When commands run in a sandbox: where there is one, always, in the mode auto-sandbox only."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


@record
class IsolationSettings:
    """What the settings say. `write` and `read` are paths for the sandbox of commands.

    `image` is for commands of tools that ask for a container, `code_image` for all programs of
    tools. Empty means none.
    """

    sandbox: Sandboxing = Sandboxing.OFF
    backend: str = ANY
    network: bool = False
    write: tuple[Path, ...] = ()
    read: tuple[Path, ...] = ()
    engine: str = ANY
    image: str = ""
    code_image: str = ""


@record
class Walls:
    """Absolute, resolved paths. Of two that hold one another, the inner one counts.

    Everything else can be read and not written. `writable` can be written, but for `read_only` in
    it; `hidden` can be neither read nor written, directories appear empty. `guarded` do not exist
    (or are links): where a call makes or replaces one, it is taken away again when the call ends.
    """

    writable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    guarded: tuple[Path, ...] = ()


Survey = Callable[[Sequence[Path], Sequence[Path]], Walls]
"""Looks at the disk and returns the walls for what may be written and what may be read although
it is hidden by rule. Asked when a process starts, not when a person is."""


@record
class Confinement:
    """How the processes of one call are confined.

    `writable` are directories and files, absolute; `readable` are shown although they hold
    secrets. `program` is what was tried and starts the backend, with the options it needs here;
    `image` is for containers only. `alone` keeps them from starting other programs, in a sandbox.
    `note` tells a person of it in one line.
    """

    level: Level
    backend: Backend
    survey: Survey = field(compare=False, repr=False)
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    network: bool = False
    program: tuple[str, ...] = ()
    image: str = ""
    note: str = ""
    alone: bool = False
