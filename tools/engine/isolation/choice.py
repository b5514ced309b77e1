"""Chooses what a call runs behind: what settings and definitions ask for, as far as it is proven.

A level that is asked for and cannot be had is refused, saying what to do; only the setting
`sandbox: auto` goes on without, and says so once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from tools.confinement import (
    ANY,
    ENGINES,
    SANDBOXES,
    Backend,
    Confinement,
    IsolationSettings,
    Level,
    Sandboxing,
    Survey,
    Walls,
)
from tools.definition import ToolError
from tools.files.programs import path_outside
from tools.record import record

if TYPE_CHECKING:
    from tools.engine.isolation.proof import Proof


@record
class Demands:
    """What the definition of a tool asks for.

    `reduced` leaves the workspace read-only. `write` and `read` are declared paths.
    """

    level: Level = Level.PROCESS
    reduced: bool = False
    network: bool = False
    write: tuple[Path, ...] = ()
    read: tuple[Path, ...] = ()


@record
class Isolation:
    """Chooses for one workspace.

    `in_auto_sandbox` tells whether the mode auto-sandbox is on, which asks for a sandbox whatever
    the settings say.
    """

    root: Path
    survey: Survey
    settings: IsolationSettings = field(default_factory=IsolationSettings)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    in_auto_sandbox: Callable[[], bool] = lambda: False
    _noticed: dict[str, bool] = field(default_factory=dict)

    def for_command(self, *, unsandboxed: bool = False) -> Confinement | None:
        """Return the walls of a command of the model; None where it runs as the user.

        `unsandboxed` asks for none, which `sandbox: required` does not give. Raises ToolError.
        """
        wanted = self.settings.sandbox
        if wanted is Sandboxing.OFF and self.in_auto_sandbox():
            wanted = Sandboxing.AUTO
        if wanted is Sandboxing.OFF or (unsandboxed and wanted is Sandboxing.AUTO):
            return None
        proof = self.sandbox()
        if proof is None and wanted is Sandboxing.REQUIRED:
            raise ToolError(
                f"The setting sandbox: required cannot be met: {self._why_no_sandbox()} "
                "Nothing was done. `opta doctor` shows what this machine can do."
            )
        if proof is None:
            line = f"Commands run without a sandbox: {self._why_no_sandbox()}"
            self._noticed.setdefault(f"{line} `opta doctor` says more.", False)
            return None
        settings = self.settings
        return self._confinement(
            Level.SANDBOX, proof, (self.root, *settings.write), settings.read,
            network=settings.network,
        )  # fmt: skip

    def for_tool(self, name: str, demands: Demands) -> Confinement | None:
        """Return the walls that the definition of the tool `name` asks for. Raises ToolError."""
        level = demands.level
        if demands.reduced and level is Level.PROCESS:
            level = Level.SANDBOX
        if level is Level.PROCESS:
            return None
        proof = self.sandbox() if level is Level.SANDBOX else self.engine()
        if proof is None:
            why = self._why_no_sandbox() if level is Level.SANDBOX else self._why_no_engine()
            asked = "with reduced rights" if demands.reduced else f"in a {level}"
            raise ToolError(
                f"The tool {name} is to run {asked}, which this machine cannot do: {why} "
                "Nothing was done. `opta doctor` shows what this machine can do."
            )
        own = () if demands.reduced else (self.root,)
        return self._confinement(
            level, proof, (*own, *demands.write), demands.read, network=demands.network
        )

    def for_program(self, script: str) -> tuple[Confinement, str]:
        """Return the walls of a program in `code_image`, and what `script` printed behind them.

        It is run once per process. Raises ToolError with the reason only.
        """
        image = self.settings.code_image
        proofs = self._tried(ENGINES, self.settings.engine, image, script)
        proof = _first_working(proofs)
        if proof is None:
            raise ToolError(f"no container of {image} can be made: {_reasons(proofs).rstrip('.')}")
        note = _note(Level.CONTAINER, proof, (), self.root, network=False, image=image)
        walls = Confinement(
            Level.CONTAINER, proof.backend, lambda writable, readable: Walls(),
            program=proof.program, image=image, note=note,
        )  # fmt: skip
        return walls, proof.printed

    def news(self) -> list[str]:
        """Return the lines for the person that were not returned before."""
        lines = [line for line, told in self._noticed.items() if not told]
        self._noticed.update(dict.fromkeys(lines, True))
        return lines

    def sandbox(self) -> Proof | None:
        """Return the strongest sandbox that works here."""
        return _first_working(self.sandboxes())

    def engine(self) -> Proof | None:
        """Return a container engine that works here."""
        return _first_working(self.engines())

    def sandboxes(self) -> list[Proof]:
        """Try the sandboxes that the settings allow until one works."""
        return self._tried(SANDBOXES, self.settings.backend)

    def engines(self) -> list[Proof]:
        """Try the container engines that the settings allow until one works."""
        return self._tried(ENGINES, self.settings.engine, self.settings.image)

    def _tried(
        self, backends: tuple[Backend, ...], chosen: str, image: str = "", script: str = ""
    ) -> list[Proof]:
        from tools.engine.isolation.proof import prove

        # What the project brings along must not pose as the program that walls it in (R10).
        path = path_outside(self.environ.get("PATH", os.defpath), self.root)
        proofs: list[Proof] = []
        for backend in backends:
            if chosen in (ANY, backend):
                proofs.append(prove(backend, path, image, script))
                if proofs[-1].available:
                    break
        return proofs

    def _confinement(
        self, level: Level, proof: Proof, writable: tuple[Path, ...], readable: tuple[Path, ...],
        *, network: bool,
    ) -> Confinement:  # fmt: skip
        image = self.settings.image if level is Level.CONTAINER else ""
        return Confinement(
            level, proof.backend, self.survey, writable, readable, network, proof.program, image,
            _note(level, proof, writable, self.root, network=network, image=image),
        )  # fmt: skip

    def _why_no_sandbox(self) -> str:
        return _reasons(self.sandboxes())

    def _why_no_engine(self) -> str:
        return _reasons(self.engines())


def _first_working(proofs: list[Proof]) -> Proof | None:
    return next((proof for proof in proofs if proof.available), None)


def _reasons(proofs: list[Proof]) -> str:
    parts = []
    for proof in proofs:
        advice = f"; {proof.advice}" if proof.advice else ""
        parts.append(f"{proof.backend}: {proof.reason}{advice}.")
    return " ".join(parts)


def _note(
    level: Level, proof: Proof, writable: tuple[Path, ...], root: Path, *, network: bool,
    image: str,
) -> str:  # fmt: skip
    places = [_place(path, root) for path in writable]
    writes = f"writes only to {', '.join(places)} and a private /tmp" if places else (
        "writes only to a private /tmp"
    )  # fmt: skip
    reach = "with the network" if network else "no network"
    gaps = f"; not kept out: {', '.join(proof.gaps)}" if proof.gaps else ""
    where = f"in a {level} of {image}" if image else f"in a {level}"
    return f"{where} ({proof.backend}): {reach}, {writes}{gaps}"


def _place(path: Path, root: Path) -> str:
    if path == root:
        return "this workspace"
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
