"""Writes tools in the form that opencode loads from `.opencode/tool/`: a session's, or one (003).

A file is plain JavaScript, which opencode's runtime takes for TypeScript. Each tool hands its
arguments to `opta tool run` as JSON on standard input, so there is one implementation and no value
becomes code or a command line. Everything in a file that comes from outside is a JSON string (X80).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from tools.definition import ToolDefinition
from tools.sources.session import SessionContext, definitions

PATH = ".opencode/tool/ralph.ts"

_IMPORTS = """\
import { tool } from "@opencode-ai/plugin"
import { execFile } from "node:child_process"
"""

_RUN = """\

function run(name, args, context) {
  const words = [...OPTA.slice(1), "tool", "run", name, "--args", "-", ...FLAGS]
  const options = { cwd: context?.directory, signal: context?.abort, maxBuffer: 1 << 26 }
  return new Promise((resolve, reject) => {
    const child = execFile(OPTA[0], words, options, (error, stdout, stderr) => {
      if (error) reject(new Error(stdout.trim() || stderr.trim() || error.message))
      else resolve(stdout.replace(/\\n$/, ""))
    })
    child.stdin?.on("error", () => {})
    child.stdin?.end(JSON.stringify(args))
  })
}
"""

_SESSION = """\
// Written by `opta loop --opencode` at the start of every iteration: changes here are lost.
{imports}
const STORE_PATH = {store_path}
const SESSION_NAME = {session_name}
const ITERATION = {iteration}
const PARENT_PID = {parent_pid}
const OPTA = {opta}
const FLAGS = [
  "--store", STORE_PATH, "--session", SESSION_NAME,
  "--iteration", String(ITERATION), "--parent-pid", String(PARENT_PID),
]
{run}"""

_ONE = """\
// Written by `opta tool export {name} --format opencode`. The file's name is the tool's name.
// The tool stays where it is: opta checks each call, asks your permission rules, and runs it.
{imports}
const OPTA = ["opta"]
const FLAGS = ["--for-model"]
{run}"""

_TOOL = """
export {export} tool({{
  description: {description},
  args: {{{args}}},
  async execute(args, context) {{
    return await run({name}, args, context)
  }},
}})
"""

_TYPES = {
    "string": "string()",
    "number": "number()",
    "integer": "number().int()",
    "boolean": "boolean()",
    "null": "null()",
}


def session_file(context: SessionContext, opta: Sequence[str]) -> str:
    """Return the file for a session; `opta` is the program and arguments that start opta."""
    head = _SESSION.format(
        imports=_IMPORTS,
        run=_RUN,
        store_path=_quoted(str(context.store_path)),
        session_name=_quoted(context.session_name),
        iteration=context.iteration,
        parent_pid=context.parent_pid,
        opta=_quoted(list(opta)),
    )
    return head + "".join(_tool(tool, f"const {tool.name} =") for tool in definitions())


def tool_file(tool: ToolDefinition) -> str:
    """Return the file for one tool, which `opta` on the PATH runs."""
    head = _ONE.format(imports=_IMPORTS, run=_RUN, name=tool.wire_name)
    return head + _tool(tool, "default")


def _tool(tool: ToolDefinition, export: str) -> str:
    required = tool.parameters.get("required", ())
    arguments = [
        f"\n    {_key(name)}: {_argument(schema, required=name in required)},"
        for name, schema in tool.parameters.get("properties", {}).items()
    ]
    return _TOOL.format(
        export=export,
        name=_quoted(tool.wire_name),
        description=_quoted(tool.description),
        args=f"{''.join(arguments)}\n  " if arguments else "",
    )


def _key(name: str) -> str:
    """Return `name` as a key of an object; as a plain word one of them would not be a key."""
    plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name != "__proto__"
    return name if plain else f"[{_quoted(name)}]"


def _argument(schema: dict[str, Any], *, required: bool) -> str:
    text = f"tool.schema.{_type(schema)}"
    if "default" in schema:
        text += f".default({_quoted(schema['default'])})"
    elif not required:
        text += ".optional()"
    told = schema.get("description")
    return f"{text}.describe({_quoted(told)})" if told else text


def _type(schema: dict[str, Any]) -> str:
    """Return the call that makes a type; what it does not say is checked by opta."""
    types = schema.get("type")
    if "enum" in schema:
        words = all(isinstance(value, str) for value in schema["enum"])
        return f"{'enum' if words else 'literal'}({_quoted(schema['enum'])})"
    if isinstance(types, list):
        members = (f"tool.schema.{_type({**schema, 'type': type_})}" for type_ in types)
        return f"union([{', '.join(members)}])"
    if types == "array":
        items = schema.get("items")
        return f"array(tool.schema.{_type(items if isinstance(items, dict) else {})})"
    if types == "object":
        return "record(tool.schema.string(), tool.schema.any())"
    return _TYPES.get(types or "", "any()")


def _quoted(value: object) -> str:
    # ASCII: JSON may hold line separators that end a string for older readers of JavaScript.
    return json.dumps(value)
