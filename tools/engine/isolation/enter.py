"""From what a call was granted to the process that is started, and what is cleared up after it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from tools.confinement import Backend, Confinement, Level, Walls
from tools.engine.isolation.guard import Guard
from tools.engine.isolation.request import Request
from tools.files.paths import folded_name
from tools.files.protected import is_protected


class Entered:
    """A process behind its walls. `started` once it runs, `leave` when all of it has ended."""

    def __init__(self, request: Request, confinement: Confinement | None) -> None:
        """Make everything ready. Raises OSError, StorageError."""
        self._opened, self._after, self._stops = ExitStack(), ExitStack(), ExitStack()
        self._guard = Guard(())
        self._contained = False
        self.argv, self.env = request.argv, dict(request.env)
        self.descriptors = request.descriptors
        try:
            if confinement is not None and confinement.level is not Level.PROCESS:
                self._confine(request, confinement)
            in_container = confinement is not None and confinement.level is Level.CONTAINER
            if request.max_memory_bytes is not None and not in_container:
                from tools.engine.isolation import memory

                found = memory.means(os.environ.get("PATH", os.defpath))
                self.argv = self._after.enter_context(
                    memory.limited(self.argv, request.max_memory_bytes, found)
                )
        except BaseException:
            self.started()
            self.leave()
            raise

    @property
    def is_guarded(self) -> bool:
        """True when something must be looked at once all processes have ended."""
        return bool(self._guard)

    def started(self) -> None:
        """Close what only the child needs."""
        self._opened.close()

    def outlives(self, status: int | None) -> bool:
        """Tell whether something may be left to `stop` where the process ended so (None: not)."""
        if not self._contained:
            return False
        from tools.engine.isolation import container

        return container.may_go_on(status)

    def stop(self) -> None:
        """Stop what a signal to the process group does not: a container. This may take seconds."""
        self._stops.close()

    def abandon(self) -> None:
        """Do what `stop` and `leave` do, with nobody there to be told."""
        self.stop()
        self.leave()

    def leave(self) -> list[str]:
        """Clear up; return lines about what was taken away. Does nothing the second time."""
        self._after.close()
        guard, self._guard = self._guard, Guard(())
        return guard.take_back()

    def _confine(self, request: Request, confinement: Confinement) -> None:
        from tools.engine.isolation.wrap import in_sandbox

        walls = confinement.survey(confinement.writable, confinement.readable)
        self._guard = Guard(
            walls.guarded, _obeyed(walls),
            lambda: _obeyed(confinement.survey(confinement.writable, confinement.readable)),
        )  # fmt: skip
        if confinement.level is Level.CONTAINER:
            self._contain(request, confinement, walls)
            return
        _check_program(request)
        shown = Walls(walls.writable, (*walls.read_only, *request.reads), walls.hidden,
                      walls.guarded)  # fmt: skip
        wrapped = in_sandbox(
            confinement.backend, confinement.program, shown, request,
            network=confinement.network, alone=confinement.alone, files=self._opened,
        )  # fmt: skip
        self.argv, self.env = wrapped.argv, wrapped.env
        self.descriptors = (*request.descriptors, *wrapped.descriptors)

    def _contain(self, request: Request, confinement: Confinement, walls: Walls) -> None:
        from tools.engine.isolation import container

        engine, *limits = confinement.program
        name = container.new_name()
        options = container.options(
            confinement.backend, walls, request.reads, network=confinement.network,
            max_memory_bytes=request.max_memory_bytes, one_cpu=request.one_cpu,
        )  # fmt: skip
        preserved = []
        if confinement.backend is Backend.PODMAN and request.descriptors:
            preserved = ["--preserve-fds", str(max(request.descriptors) - 2)]
        self.argv = container.argv(
            (engine,), confinement.image, request.argv, name=name, cwd=request.cwd,
            variables=_own_variables(request.env), options=[*limits, *options, *preserved],
        )  # fmt: skip
        environ = dict(os.environ)
        self._after.enter_context(container.removed_without_opta((engine,), name, environ))
        self._stops.callback(container.remove, (engine,), name, environ)
        self._contained = True


def _obeyed(walls: Walls) -> list[Path]:
    """Return the files that something runs or obeys; some of them are hidden, for secrets."""
    hidden = (path for path in walls.hidden if is_protected(folded_name(path.name)))
    return [*walls.read_only, *hidden]


def _own_variables(env: Mapping[str, str]) -> list[str]:
    """Return the variables that a container gets: those that opta's environment does not have.

    The rest (PATH, HOME, …) is about this machine.
    """
    return sorted(name for name, value in env.items() if os.environ.get(name) != value)


def _check_program(request: Request) -> None:
    """Raise FileNotFoundError for a missing program, as starting it without walls would."""
    program = request.argv[0]
    if os.sep in program:
        if not (request.cwd / program).exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    elif shutil.which(program, path=request.env.get("PATH", os.defpath)) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
