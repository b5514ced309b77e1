"""Writes the tools of a session in the form that opencode loads: `.opencode/tool/ralph.ts` (003).

The file is plain JavaScript, which opencode's runtime takes for TypeScript. Each tool hands its
arguments to `opta tool run` as JSON on standard input, so there is one implementation and no value
becomes code or a command line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tools.definition import ToolDefinition
from tools.sources.session import SessionContext, definitions

PATH = ".opencode/tool/ralph.ts"

_HEAD = """\
// Written by `opta loop --opencode` at the start of every iteration: changes here are lost.
import {{ tool }} from "@opencode-ai/plugin"
import {{ execFile }} from "node:child_process"

const STORE_PATH = {store_path}
const SESSION_NAME = {session_name}
const ITERATION = {iteration}
const PARENT_PID = {parent_pid}
const OPTA = {opta}

function run(name, args) {{
  const words = [
    ...OPTA.slice(1), "tool", "run", name, "--args", "-", "--store", STORE_PATH,
    "--session", SESSION_NAME, "--iteration", String(ITERATION), "--parent-pid", String(PARENT_PID),
  ]
  return new Promise((resolve, reject) => {{
    const child = execFile(OPTA[0], words, (error, stdout, stderr) => {{
      if (error) reject(new Error(stderr.trim() || error.message))
      else resolve(stdout.replace(/\\n$/, ""))
    }})
    child.stdin?.end(JSON.stringify(args))
  }})
}}
"""

_TOOL = """
export const {name} = tool({{
  description: {description},
  args: {{{args}}},
  async execute(args) {{
    return await run({quoted}, args)
  }},
}})
"""


def typescript(context: SessionContext, opta: Sequence[str]) -> str:
    """Return the file for a session; `opta` is the program and arguments that start opta.

    Everything in it that comes from outside is a JSON string (X80).
    """
    head = _HEAD.format(
        store_path=_quoted(str(context.store_path)),
        session_name=_quoted(context.session_name),
        iteration=context.iteration,
        parent_pid=context.parent_pid,
        opta=_quoted(list(opta)),
    )
    return head + "".join(_tool(definition) for definition in definitions())


def _tool(definition: ToolDefinition) -> str:
    arguments = [
        f"\n    {name}: {_schema(schema)},"
        for name, schema in definition.parameters["properties"].items()
    ]
    return _TOOL.format(
        name=definition.name,
        quoted=_quoted(definition.name),
        description=_quoted(definition.description),
        args=f"{''.join(arguments)}\n  " if arguments else "",
    )


def _schema(schema: dict[str, Any]) -> str:
    text = f"enum({_quoted(schema['enum'])})" if "enum" in schema else "string()"
    if "default" in schema:
        text += f".default({_quoted(schema['default'])})"
    return f"tool.schema.{text}.describe({_quoted(schema['description'])})"


def _quoted(value: object) -> str:
    # ASCII: JSON may hold line separators that end a string for older readers of JavaScript.
    return json.dumps(value)
