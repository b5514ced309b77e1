"""Programs in containers: which runtimes an image has, found out by asking them for their versions.

With `code_image` set no program runs anywhere else (E56).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tools.code.runtimes import Runtime, fitting, why_none
from tools.confinement import Backend, Confinement, Walls
from tools.definition import ToolError
from tools.engine.isolation.choice import Isolation

_ASK = (
    "for name in deno bun node python3; do "
    'told=$("$name" --version 2>/dev/null) && echo "$name" $told; done; true'
)
_TOLD = re.compile(r"((deno|bun|node|python)3?) \D*(\d+)\.(\d+)")
_TRIED_MEMORY_BYTES = 256 * 1024 * 1024


def choose(isolation: Isolation, language: str) -> tuple[Runtime, Confinement]:
    """Return what runs `language` in the image for programs, and its walls.

    Raises ToolError, with the reason only, where there is no engine, no image or no runtime in it.
    """
    walls = isolation.for_program()
    runtimes = _runtimes(walls.backend, walls.program, walls.image)
    found = next(fitting(language, runtimes.get), None)
    if found is None:
        why = why_none(language, runtimes.get("node"))
        raise ToolError(
            f"in the image {walls.image} {why}; name another with the setting code_image"
        )
    return found, walls


@cache
def _runtimes(backend: Backend, engine: tuple[str, ...], image: str) -> Mapping[str, Runtime]:
    """Ask the runtimes in an image for their versions, under the limits of a program.

    Where they are, the image's own PATH says. Raises ToolError.
    """
    from tools.engine.isolation import container, proof

    options = container.options(
        backend, Walls(), (), network=False, max_memory_bytes=_TRIED_MEMORY_BYTES, one_cpu=True
    )
    code, out, err = proof.run_in_image(engine, image, _ASK, options=options, cwd=Path("/"))
    if code != 0:
        raise ToolError(
            f"{backend} cannot hold a program in {image} to its limits: "
            f"{err.strip() or f'exit code {code}'}"
        )
    return {
        match[2]: Runtime(match[2], Path(match[1]), (int(match[3]), int(match[4])))
        for match in map(_TOLD.match, out.splitlines())
        if match is not None
    }
