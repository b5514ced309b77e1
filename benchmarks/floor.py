"""The least a Python client can do: `python floor.py PROMPT` with http.client and subprocess.

Keeps the history, reads the stream, runs the commands, and does nothing else: no questions, no
limits, no journal, no interface. What it needs is what any client in Python needs.
"""

import http.client
import json
import os
import subprocess
import sys
from threading import Thread
from typing import Any, TypeAlias
from urllib.parse import urlsplit

Message: TypeAlias = dict[str, Any]


def ask(
    connection: http.client.HTTPConnection, path: str, messages: list[Message]
) -> tuple[str, list[Message]]:
    """Send the history; return the answer's text and its calls."""
    body = json.dumps({"model": "m", "stream": True, "messages": messages})
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    text: list[str] = []
    calls: list[Message] = []
    response = connection.getresponse()
    for line in response:
        if line.startswith(b"data: {") and (choices := json.loads(line[6:])["choices"]):
            delta = choices[0]["delta"]
            text.append(delta.get("content") or "")
            calls += delta.get("tool_calls") or []
    return "".join(text), calls


def run(call: Message) -> None:
    command = json.loads(call["function"]["arguments"])["command"]
    done = subprocess.run(["sh", "-c", command], capture_output=True)
    call["result"] = done.stdout.decode()[:30_000]


def main() -> None:
    url = urlsplit(os.environ["OPENAI_BASE_URL"])
    connection = http.client.HTTPConnection(url.netloc)
    messages: list[Message] = [{"role": "user", "content": sys.argv[1]}]
    while True:
        text, calls = ask(connection, f"{url.path}/chat/completions", messages)
        if not calls:
            print(text)
            return
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        threads = [Thread(target=run, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread, call in zip(threads, calls, strict=True):
            thread.join()
            result = {"role": "tool", "tool_call_id": call["id"], "content": call.pop("result")}
            messages.append(result)


if __name__ == "__main__":
    main()
