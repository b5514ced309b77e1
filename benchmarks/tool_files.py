"""Tool files as people have them: most run one command, some build things in several steps."""

from __future__ import annotations

import json
from pathlib import Path

_SIMPLE = """\
name: count-{n}
description: Counts the lines of a file that hold a text.
bash: grep -c -- {{TEXT}} "src/part-{n}/{{FILE}}" | head -n {n}
parameters:
  FILE: {{type: string, description: The file., required: true}}
  TEXT:
    type: string
    description: What to look for.
    default: TODO
tags: [read, search]
"""
_STEPS = """\
name: build-{n}
description: Builds and tests a component, and says what came of it.
version: 1.2.0
parameters:
  COMPONENT:
    type: string
    description: Which component.
    required: true
    validation: {{pattern: "^[a-z-]+$", maxLength: 40}}
  TARGET:
    type: string
    description: debug or release
    default: debug
    validation: {{enum: [debug, release]}}
  JOBS: {{type: number, description: How many jobs at a time., default: 4}}
  VERBOSE: {{type: boolean, description: Whether to print each command., default: false}}
steps:
  - name: fetch
    bash: git fetch --quiet origin {{COMPONENT}}
    continue-on-error: true
  - name: build
    bash: |
      set -e
      cd "components/{n}/{{COMPONENT}}"
      if [ "{{VERBOSE}}" = true ]; then set -x; fi
      make -j{{JOBS}} CONFIG={{TARGET}}
    wait-for: [fetch]
    error-handling: {{retry: {{attempts: 2, delay: 100}}}}
  - name: test
    bash: cd components/{n}/{{COMPONENT}} && make test TARGET={{TARGET}} 2>&1 | tail -n 50
    wait-for: [build]
    run-condition: "{{build.exit-code}} == 0"
  - name: report
    bash: |
      printf 'built %s for %s\\n' {{COMPONENT}} {{TARGET}}
      printf '%s\\n' "{{test.output}}" | grep -c passed-{n}
    wait-for: [test]
timeout: 600000
tags: [build, run]
"""


def write_tools(directory: Path, count: int) -> None:
    """Write so many tool files: of ten, six are simple, two have steps, two are JSON."""
    directory.mkdir()
    for number in range(count):
        kind = number % 10
        if kind < 6:
            (directory / f"count-{number}.yaml").write_text(_SIMPLE.format(n=number))
        elif kind < 8:
            (directory / f"build-{number}.yaml").write_text(_STEPS.format(n=number))
        else:
            (directory / f"fetch-{number}.json").write_text(json.dumps(_json(number), indent=2))


def _json(number: int) -> dict[str, object]:
    return {
        "name": f"fetch-{number}",
        "description": "Fetches a page.",
        "parameters": {
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "Where from."},
                "seconds": {"type": "integer", "minimum": 1, "description": "How long at most."},
            },
            "required": ["url"],
        },
        "command": f'curl -sS --max-time {number} -- "$OPTA_TOOL_ARG_URL"',
    }
