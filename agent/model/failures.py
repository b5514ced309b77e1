"""Turns what a model server says went wrong into a `ModelError` a person can act on.

Servers agree on little: the same failure comes as different statuses, codes and sentences, as an
HTTP error or as an object inside a stream that began with 200. Everything is read into a `Problem`
first, and recognised by status, code and the sentences the common servers use.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import field
from email.utils import parsedate_to_datetime
from typing import Any

from agent.model.base import FailureKind, ModelError
from tools.connecting import what_helps
from tools.engine.masking import Masker
from tools.engine.output import one_line
from tools.record import record

MAX_QUOTED_CHARACTERS = 300
"""How much of a server's own words is shown."""

_CONTEXT_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|max(imum)? model len"
    r"|exceeds? (the )?(available |model'?s? )?(max(imum)? )?context|context (length|size|window)"
    r"|prompt (is )?too long|input (is )?too (long|large)|maximum prompt length"
    r"|input token count|too many (input )?tokens|reduce the length of the|request too large",
    re.IGNORECASE,
)
_TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)
_UNKNOWN_MODEL = re.compile(
    r"model_not_found|not a valid model|(invalid|unknown|unsupported) model|no such model"
    r"|model\b.{0,200}?\b(not found|does not exist|not exist|is not available|no access)",
    re.IGNORECASE | re.DOTALL,
)
_NEEDS_TOOL_FLAG = re.compile(
    r"enable-auto-tool-choice|tool-call-parser|--jinja|jinja", re.IGNORECASE
)
_NO_TOOLS = re.compile(r"(does not|doesn't|not) support (tool|function)|support tool use", re.I)
_IMAGES_REFUSED = re.compile(
    r"image_url|image input|\bimages?\b.{0,60}?(support|exceed|invalid|process|provided|enabled)"
    r"|multimodal|mmproj|\bvision\b|content must be a string",
    re.IGNORECASE | re.DOTALL,
)
_NO_CREDIT = re.compile(r"insufficient_quota|insufficient.{0,3}(balance|credit|fund)", re.I)
_RATE_LIMIT = re.compile(r"rate.?limit|too many requests|tokens per min|\bTPM\b|\bRPM\b", re.I)
_OVERLOADED = re.compile(r"overload|unavailable|server_error|internal|timeout|bad gateway", re.I)
_BAD_KEY = re.compile(
    r"invalid.?api.?key|api.?key.?(not valid|invalid)|incorrect api key|authentication"
    r"|unauthori[sz]ed",
    re.IGNORECASE,
)
_TRY_AGAIN_IN = re.compile(r"(?:try again|retry) in (?:(\d+)m(?!s))?(?:([\d.]+)(ms|s))?", re.I)


@record
class Target:
    """Where requests go, for error texts. `secrets` are never shown, whatever a server says."""

    url: str
    model: str
    local: bool
    has_key: bool
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def quote(self, text: str) -> str:
        """Return a server's words on one line: no secrets, no control characters, not long."""
        text = Masker(self.secrets, "[key]").text(text)
        printable = "".join(c if c.isprintable() else " " for c in text)
        return one_line(printable, MAX_QUOTED_CHARACTERS)


@record
class Problem:
    """What a server said was wrong. `status` is None where an error in a stream carries none."""

    status: int | None
    message: str
    details: str
    retry_after_s: float | None = None
    retry_wanted: bool | None = None

    @classmethod
    def in_response(cls, status: int, headers: Mapping[str, str], body: bytes) -> Problem:
        """Read an error response. `headers` must look names up without regard to case."""
        text = body.decode("utf-8", "replace")
        message, details = _message_and_details(_parsed(text), text)
        return cls(
            status,
            message,
            details,
            retry_after(headers, message),
            {"true": True, "false": False}.get(headers.get("x-should-retry", "")),
        )

    @classmethod
    def in_stream(cls, error: object, headers: Mapping[str, str]) -> Problem:
        """Read the error object (or text) that came inside a stream."""
        message, details = _message_and_details(error, str(error))
        return cls(_status_in(error, details), message, details, retry_after(headers, message))

    def says(self, pattern: re.Pattern[str]) -> bool:
        """Tell whether the error speaks of something."""
        return bool(pattern.search(self.details))


def error_for(problem: Problem, target: Target) -> ModelError:
    """Return the error for what a server said."""
    explanations = (
        _request_too_long, _images_refused, _tools_refused, _not_allowed, _limited, _not_found,
    )  # fmt: skip
    for explain in explanations:
        if error := explain(problem, target):
            return error
    if problem.says(re.compile("tool_use_failed")):
        return ModelError(
            FailureKind.REJECTED,
            f"The model wrote a tool call that the server could not read: {_said(problem, target)}",
            next_step="Ask again, or choose a model that is better at calling tools.",
            transient=True,
        )
    if problem.status is None or problem.status >= 500 or problem.status in {408, 409, 425}:
        return ModelError(
            FailureKind.SERVER,
            f"The model server failed{_status(problem)}: {_said(problem, target)}",
            next_step="Try again in a moment; if it goes on, look at the server's log or status.",
            transient=problem.retry_wanted is not False,
            retry_after_s=problem.retry_after_s,
        )
    return ModelError(
        FailureKind.REJECTED,
        f"The model server refused the request{_status(problem)}: {_said(problem, target)}",
        next_step="Check --model and --api against what the server offers; its log may say more.",
        transient=problem.retry_wanted is True,
    )


def _request_too_long(problem: Problem, target: Target) -> ModelError | None:
    too_long = problem.status in {None, 400, 422, 500} and problem.says(_CONTEXT_TOO_LONG)
    never_fits = problem.status == 429 and problem.says(_TOO_LARGE)
    if not (too_long or never_fits or problem.status == 413):
        return None
    return ModelError(
        FailureKind.CONTEXT_TOO_LONG,
        f"The conversation is too long for {target.model}: {_said(problem, target)}",
        next_step="Send less at once; in a chat, /compact shortens it and /clear starts a new one.",
    )


def _images_refused(problem: Problem, target: Target) -> ModelError | None:
    if problem.status not in {None, 400, 404, 415, 422, 500, 501}:
        return None
    if not problem.says(_IMAGES_REFUSED):
        return None
    return ModelError(
        FailureKind.IMAGES_REFUSED,
        f"{target.model} did not take the image: {_said(problem, target)}",
        next_step="Choose a model that sees images (in a chat with /model), or a smaller image.",
    )


def _tools_refused(problem: Problem, target: Target) -> ModelError | None:
    if problem.says(_NEEDS_TOOL_FLAG):
        return ModelError(
            FailureKind.REJECTED,
            f"The server was started without tool calling: {_said(problem, target)}",
            next_step="Restart vLLM with --enable-auto-tool-choice --tool-call-parser NAME, "
            "llama.cpp with --jinja.",
        )
    if problem.says(_NO_TOOLS):
        return ModelError(
            FailureKind.REJECTED,
            f"{target.model} cannot call tools on this server: {_said(problem, target)}",
            next_step="Choose a model that supports tool calling.",
        )
    return None


def _not_allowed(problem: Problem, target: Target) -> ModelError | None:
    forbidden = problem.status == 403 and not problem.says(_UNKNOWN_MODEL)
    if problem.status == 401 or forbidden or (problem.status == 400 and problem.says(_BAD_KEY)):
        if not target.has_key:
            return no_key(target, problem)
        return ModelError(
            FailureKind.UNAUTHORISED,
            f"{target.url} did not accept the API key{_status(problem)}: {_said(problem, target)}",
            next_step="Check OPENAI_API_KEY: whole, not expired, and made for this server.",
        )
    if problem.status == 402 or problem.says(_NO_CREDIT):
        return ModelError(
            FailureKind.RATE_LIMITED,
            f"The account has no credit left: {_said(problem, target)}",
            next_step="Add credit or use the key of another account.",
        )
    return None


def _limited(problem: Problem, target: Target) -> ModelError | None:
    if problem.status != 429 and not (problem.status is None and problem.says(_RATE_LIMIT)):
        return None
    return ModelError(
        FailureKind.RATE_LIMITED,
        f"The model server limits the rate of requests: {_said(problem, target)}",
        next_step="Wait, or use a model or account with a higher limit.",
        transient=problem.retry_wanted is not False,
        retry_after_s=problem.retry_after_s,
    )


def _not_found(problem: Problem, target: Target) -> ModelError | None:
    says_so = problem.status in {400, 403, 404} and problem.says(_UNKNOWN_MODEL)
    if says_so or (problem.status == 404 and target.model in problem.message):
        return ModelError(
            FailureKind.UNKNOWN_MODEL,
            f"{target.url} does not serve the model {target.model!r}: {_said(problem, target)}",
            next_step="Check the spelling of --model, that the server has it (Ollama: `ollama "
            "pull`, vLLM: --served-model-name) and that the key may use it.",
        )
    if problem.status in {404, 405}:
        return ModelError(
            FailureKind.REJECTED,
            f"There is no such API at {target.url}{_status(problem)}: {_said(problem, target)}",
            next_step="Check --base-url (it usually ends in /v1) and `api`: few servers but "
            "OpenAI's have `responses`.",
        )
    return None


def no_key(target: Target, problem: Problem | None = None) -> ModelError:
    """The error for a server that needs a key where none is set; `problem` is its refusal."""
    said = target.quote(problem.message) if problem else ""
    return ModelError(
        FailureKind.NO_KEY,
        f"There is no API key for {target.url}." + (f" It said: {said}" if said else ""),
        next_step="Set OPENAI_API_KEY, or point --base-url at a local server.",
    )


def no_connection(reason: str, target: Target) -> ModelError:
    """The error for a server that cannot be reached; `reason` in the transport's words."""
    step = what_helps(reason)
    if not step and target.local:
        step = "The server may not be running: start it (for example `ollama serve`), or check "
        step += "the port in --base-url."
    elif not step:
        step = "Check --base-url, the network and the proxy settings (HTTPS_PROXY, NO_PROXY)."
    return ModelError(
        FailureKind.NO_CONNECTION,
        f"Could not connect to {target.url}: {target.quote(reason)}.",
        next_step=step,
        transient=not target.local and "certificate" not in reason.lower(),
    )


def cut(reason: str) -> ModelError:
    """The error for an answer that ended before it was complete."""
    return ModelError(
        FailureKind.CUT,
        f"The answer was cut off: {reason}.",
        next_step="Ask again; if it goes on, look at the server's log.",
        transient=True,
    )


def retry_after(headers: Mapping[str, str], message: str = "") -> float | None:
    """Return how many seconds the server wants us to wait, or None where it does not say.

    Reads `retry-after-ms`, `Retry-After` as seconds or as a date (RFC 9110, 10.2.3), and "try again
    in 1.5s" in the message.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name, "")) * scale)
        except ValueError:
            continue
    try:
        when = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return _wait_in(message)
    return max(0.0, when.timestamp() - time.time())


def _wait_in(message: str) -> float | None:
    found = _TRY_AGAIN_IN.search(message)
    if not found or not any(found.groups()):
        return None
    minutes, amount, unit = found.groups()
    try:
        rest = float(amount or 0) * (0.001 if unit == "ms" else 1.0)
    except ValueError:
        return None
    return int(minutes or 0) * 60 + rest


def _said(problem: Problem, target: Target) -> str:
    return target.quote(problem.message) or "it gave no reason"


def _status(problem: Problem) -> str:
    return f" (status {problem.status})" if problem.status else ""


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _message_and_details(parsed: object, text: str) -> tuple[str, str]:
    """Find the sentence in the many shapes of an error body; the details are all of it as text."""
    node: Any = parsed[0] if isinstance(parsed, list) and parsed else parsed
    if isinstance(node, dict) and isinstance(node.get("error"), dict | str):
        node = node["error"]
    if isinstance(node, str):
        return node, text
    if not isinstance(node, dict):
        return _without_markup(text), text
    message = next((node[k] for k in ("message", "detail", "msg", "error") if node.get(k)), "")
    message = message if isinstance(message, str) else json.dumps(message)
    metadata = node.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    failed = node.get("failed_generation")
    extra = [str(part) for part in (raw, failed) if part]
    return " — ".join([message or text, *extra]), json.dumps(node, ensure_ascii=False)


def _without_markup(text: str) -> str:
    title = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    return title[1] if title else re.sub(r"<[^>]*>", " ", text)


def _status_in(error: object, details: str) -> int | None:
    if isinstance(error, dict):
        for key in ("status", "status_code", "code"):
            value = str(error.get(key, ""))
            if value.isdigit() and 400 <= int(value) < 600:
                return int(value)
    if _RATE_LIMIT.search(details):
        return 429
    if _OVERLOADED.search(details):
        return None
    if _BAD_KEY.search(details):
        return 401
    return 400 if "invalid_request" in details else None
