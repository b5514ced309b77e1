"""Programs that try to get out: what each of them says it could do begins with "done"."""

from __future__ import annotations

import os

JS_ESCAPES = """
import * as fs from "node:fs";
import * as net from "node:net";
import * as child from "node:child_process";

const tried = async (work) => {
  try { return `done ${await work()}`; } catch (error) { return String(error.code ?? error.name); }
};
const connected = (port) => new Promise((resolve, reject) => {
  const socket = net.connect(port, "127.0.0.1", () => resolve("connected"));
  socket.on("error", reject);
});

export async function execute({ home, work, port, mark, pid }) {
  return {
    read_home: await tried(() => fs.readFileSync(`${home}/secret.txt`, "utf8")),
    read_work: await tried(() => fs.readFileSync(`${work}/plan.txt`, "utf8")),
    list_work: await tried(() => fs.readdirSync(work)),
    write_work: await tried(() => fs.writeFileSync(`${work}/made.txt`, "x")),
    write_home: await tried(() => fs.writeFileSync(`${home}/made.txt`, "x")),
    network: await tried(() => connected(port)),
    fetched: await tried(() => fetch(`http://127.0.0.1:${port}/`)),
    program: await tried(() => child.execFileSync("/bin/echo", [mark], { stdio: "pipe" })),
    opta: await tried(() => process.kill(pid, 0)),
    imported: await tried(() => import(`file://${work}/data.json`, { with: { type: "json" } })),
  };
}
"""  # fmt: skip

PY_ESCAPES = """
import os, pathlib, socket, subprocess, threading

def tried(work):
    try:
        return f"done {work()}"
    except OSError as error:
        return type(error).__name__

def execute(args, context):
    home, work = pathlib.Path(args["home"]), pathlib.Path(args["work"])
    return {
        "read_home": tried((home / "secret.txt").read_text),
        "read_work": tried((work / "plan.txt").read_text),
        "write_work": tried(lambda: (work / "made.txt").write_text("x")),
        "write_home": tried(lambda: (home / "made.txt").write_text("x")),
        "network": tried(lambda: socket.create_connection(("127.0.0.1", args["port"]), 2)),
        "program": tried(lambda: subprocess.check_output(["/bin/echo", args["mark"]])),
        "fork": tried(os.fork),
        "opta": tried(lambda: os.kill(args["pid"], 0)),
    }
"""


async def tried(project, runtime, port, mark):
    """Let a program of `project` try to get out, and return what it says of each way."""
    home = project.root.parent
    (home / "secret.txt").write_text("canary")
    (project.root / "plan.txt").write_text("canary")
    (project.root / "data.json").write_text('"canary"')
    project.code("t", PY_ESCAPES if runtime == "python" else JS_ESCAPES, runtime)
    answers = await project.value(
        "t", home=str(home), work=str(project.root), port=port, mark=mark, pid=os.getpid()
    )
    assert not list(home.rglob("made.txt"))
    return answers
