"""What a person reads when the model server refuses, fails or cannot be reached."""

from __future__ import annotations

import email.utils
import json
import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.base import FailureKind, ModelError
from agent.model.factory import make_client
from agent.model.failures import MAX_QUOTED_CHARACTERS, Target, retry_after
from agent.model.options import ModelOptions
from tests.support.asking import HELLO, Asked, ask, ask_often, collect
from tests.support.model_server import DONE, ModelServer, Reply, chat_chunk, error, say, sse

KEY = "sk-canary-0123456789abcdef"
REMOTE = "https://models.example.com/v1"


async def refused(status: int, message: str, **fields: Any) -> ModelError:
    return (await ask(error(status, message, **fields), api_key=KEY, model="gpt-x")).failure


async def in_stream(problem: object, event: str = "") -> Asked:
    head = f"event: {event}\n".encode() if event else b""
    body = head + b"data: " + json.dumps(problem).encode() + b"\n\n"
    return await ask(Reply(sse(chat_chunk("half"), body, DONE)))


# Keys


async def test_a_remote_server_needs_a_key_before_anything_is_sent():
    asked = await collect(make_client(model="m", base_url=REMOTE, api_key=""))
    assert asked.failure.kind is FailureKind.NO_KEY
    assert REMOTE in str(asked.failure)
    assert "OPENAI_API_KEY" in asked.failure.next_step


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_local_server_needs_no_key_and_gets_none(host: str):
    with ModelServer([say("hi")]) as server:
        client = make_client(model="m", base_url=f"http://{host}:{server.port}/v1", api_key="")
        assert (await collect(client)).text == "hi"
        await client.aclose()
        assert "authorization" not in server.requests[0].headers


async def test_the_key_is_sent_as_bearer_token_without_the_spaces_around_it():
    asked = await ask(say("hi"), api_key=f" {KEY}\n")
    assert asked.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_key_in_a_header_of_its_own_is_enough():
    options = ModelOptions(headers={"api-key": KEY})
    asked = await ask(say("hi"), options=options)
    assert asked.requests[0].headers["api-key"] == KEY


@pytest.mark.parametrize("key", [f"{KEY}\nX-Evil: 1", f"{KEY}\x00", f"“{KEY}”"])
async def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(key: str):
    asked = await ask(say("hi"), api_key=key)
    assert asked.failure.kind is FailureKind.UNAUTHORISED
    assert asked.requests == []
    assert KEY not in f"{asked.failure!r} {asked.failure.next_step}"


@pytest.mark.parametrize("status", [401, 403])
async def test_a_wrong_key_is_named_as_such(status: int):
    failure = await refused(status, "Incorrect API key provided", code="invalid_api_key")
    assert failure.kind is FailureKind.UNAUTHORISED
    assert "OPENAI_API_KEY" in failure.next_step
    assert not failure.transient


async def test_a_wrong_key_answered_with_400_is_one_too():
    failure = await refused(400, "API key not valid. Please pass a valid API key.")
    assert failure.kind is FailureKind.UNAUTHORISED


async def test_a_local_server_that_wants_a_key_asks_for_one():
    asked = await ask(error(401, "Unauthorized"))
    assert asked.failure.kind is FailureKind.NO_KEY


# Secrets stay secret


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
async def test_a_key_that_the_server_echoes_is_not_shown(status: int):
    failure = await refused(status, f"what is {KEY}? header was 'Bearer {KEY}'")
    assert KEY not in f"{failure!r} {failure} {failure.next_step}"
    assert "[key]" in str(failure)


async def test_a_key_echoed_inside_a_stream_is_not_shown():
    body = b'data: {"error": {"message": "bad ' + KEY.encode() + b'"}}\n\n'
    asked = await ask(Reply(body), api_key=KEY)
    assert KEY not in str(asked.failure)


async def test_secrets_in_headers_and_addresses_are_not_shown():
    options = ModelOptions(headers={"x-api-key": KEY})
    asked = await ask(error(500, f"{KEY} p4ssw0rd"), options=options)
    assert KEY not in str(asked.failure)
    client = make_client(
        model="m", base_url="http://me:p4ssw0rd@localhost:1/v1?token=t0k3n", api_key=KEY
    )
    failure = (await collect(client)).failure
    shown = f"{failure} {failure.next_step} {client!r}"
    assert not any(secret in shown for secret in (KEY, "p4ssw0rd", "t0k3n"))


async def test_an_error_carries_no_chain_that_could_hold_the_request():
    failure = await refused(500, "no")
    assert failure.__cause__ is None
    assert failure.__suppress_context__


@given(st.text())
def test_quoted_words_are_one_short_line_without_control_characters(text: str):
    quoted = Target("u", "m", False, True, (KEY,)).quote(text + KEY + text)
    assert quoted.isprintable()
    assert len(quoted) <= MAX_QUOTED_CHARACTERS + 1
    assert KEY not in quoted


# Models, addresses and connections


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (404, "The model `gpt-x` does not exist or you do not have access to it.", None),
        (404, 'model "gpt-x" not found, try pulling it first', None),
        (404, "gpt-x: nothing here", None),
        (403, "Project has no access", "model_not_found"),
        (400, "gpt-x is not a valid model ID", None),
        (400, "Invalid model: gpt-x", None),
    ],
)
async def test_an_unknown_model_says_what_to_check(status: int, message: str, code: str | None):
    failure = await refused(status, message, code=code)
    assert failure.kind is FailureKind.UNKNOWN_MODEL
    assert "'gpt-x'" in str(failure)
    assert "ollama pull" in failure.next_step
    assert not failure.transient


async def test_a_wrong_path_is_told_from_an_unknown_model():
    body = Reply(b"404 page not found", status=404, headers={"Content-Type": "text/plain"})
    asked = await ask(body)
    assert asked.failure.kind is FailureKind.REJECTED
    assert "/v1" in asked.failure.next_step


async def test_a_redirect_is_not_followed_and_names_its_target():
    moved = Reply(b"", status=308, headers={"Location": "https://elsewhere.example/v1"})
    asked = await ask(moved, say("never"), api_key=KEY)
    assert "https://elsewhere.example/v1" in str(asked.failure)
    assert len(asked.requests) == 1


async def test_no_server_on_this_machine_says_that_it_may_not_run():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        failure = (await collect(make_client(model="m", base_url=url, api_key=""))).failure
    assert failure.kind is FailureKind.NO_CONNECTION
    assert f"{url}: Connection refused." in str(failure)
    assert "may not be running" in failure.next_step


async def test_https_to_a_plain_server_says_which_scheme_to_use():
    with ModelServer() as server:
        url = server.base_url.replace("http://", "https://")
        failure = (await collect(make_client(model="m", base_url=url, api_key=""))).failure
    assert failure.kind is FailureKind.NO_CONNECTION
    assert "http://" in failure.next_step


async def test_a_stand_in_for_a_key_is_not_blanked_out_of_sentences():
    asked = await ask(error(500, "ollama runner died"), api_key="ollama")
    assert "ollama runner died" in str(asked.failure)


async def test_a_remote_server_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{unused.getsockname()[1]}")
        client = make_client(model="m", base_url=REMOTE, api_key=KEY)
        failure = (await collect(client)).failure
    assert failure.kind is FailureKind.NO_CONNECTION
    assert REMOTE in str(failure)
    assert "HTTPS_PROXY" in failure.next_step
    assert failure.transient


@pytest.mark.parametrize(
    "url", ["localhost:11434/v1", "", "ftp://x/v1", "http://", "http://[::1", "http://x:y/v1"]
)
def test_an_address_that_is_none_is_refused_with_an_example(url: str):
    with pytest.raises(ModelError, match="not the address") as caught:
        make_client(model="m", base_url=url, api_key="")
    assert "http://localhost:11434/v1" in caught.value.next_step


def test_no_model_is_said_to_be_missing():
    with pytest.raises(ModelError, match="No model") as caught:
        make_client(model="", base_url=REMOTE, api_key="")
    assert "OPTA_MODEL" in caught.value.next_step


async def test_a_server_that_hangs_up_without_a_word_is_a_cut():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)

        thread = threading.Thread(target=hang_up)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        client = make_client(model="m", base_url=url, api_key="")
        failure = (await collect(client)).failure
        await client.aclose()
        thread.join()
    assert failure.kind is FailureKind.CUT
    assert failure.transient


async def test_silence_beyond_the_idle_limit_is_a_cut():
    options = ModelOptions(idle_timeout_s=0.2)
    asked = await ask(say("late", delay_s=5), options=options)
    assert asked.failure.kind is FailureKind.CUT
    assert "nothing for 0.2 s" in str(asked.failure)


async def test_a_proxy_from_the_environment_is_used_but_not_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
):
    with ModelServer([say("through the proxy")]) as proxy, ModelServer([say("direct")]) as local:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        for url, text in (
            ("http://models.example.com/v1", "through the proxy"),
            (local.base_url, "direct"),
        ):
            client = make_client(model="m", base_url=url, api_key=KEY)
            assert (await collect(client)).text == text
            await client.aclose()
        assert proxy.requests[0].path == "http://models.example.com/v1/chat/completions"


# Limits and failures of the server


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
async def test_a_rate_limit_carries_the_servers_wish(
    headers: dict[str, str], seconds: float | None
):
    failure = await refused(429, "Too many requests", headers=headers)
    assert failure.kind is FailureKind.RATE_LIMITED
    assert failure.transient
    assert failure.retry_after_s == seconds


async def test_retry_after_may_be_a_date():
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    failure = await refused(429, "Too many requests", headers={"Retry-After": date})
    assert failure.retry_after_s is not None
    assert 25 < failure.retry_after_s <= 30
    past = await refused(429, "no", headers={"Retry-After": email.utils.formatdate(0)})
    assert past.retry_after_s == 0


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 7.5s.", 7.5),
        ("try again in 20ms", 0.02),
        ("try again in 1m30s", 90.0),
        ("try again in a while", None),
        ("check your plan and billing details. Please retry in 12.5s.", 12.5),
    ],
)
def test_the_wait_may_stand_in_the_message(message: str, seconds: float | None):
    assert retry_after({}, message) == seconds


async def test_an_empty_account_is_not_worth_repeating():
    failure = await refused(429, "You exceeded your quota", code="insufficient_quota")
    assert failure.kind is FailureKind.RATE_LIMITED
    assert not failure.transient
    assert "credit" in str(failure)


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 529])
async def test_a_failure_of_the_server_is_worth_repeating(status: int):
    failure = await refused(status, "upstream", headers={"Retry-After": "3"})
    assert failure.kind is FailureKind.SERVER
    assert failure.transient
    assert failure.retry_after_s == 3
    assert f"status {status}" in str(failure)


async def test_a_server_that_advises_against_repeating_is_obeyed():
    failure = await refused(503, "maintenance", headers={"x-should-retry": "false"})
    assert not failure.transient


async def test_an_error_page_is_told_by_its_title():
    page = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
    asked = await ask(Reply(page, status=502, headers={"Content-Type": "text/html"}))
    assert "502 Bad Gateway" in str(asked.failure)
    assert "<" not in str(asked.failure)


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (400, "Your input exceeds the limit.", "context_length_exceeded"),
        (400, "This model's maximum context length is 8192 tokens. However, you …", None),
        (400, "The decoder prompt (length 9000) is longer than the maximum model length", None),
        (400, "the request exceeds the available context size, try increasing it", None),
        (400, "request (9 tokens) too big", "exceed_context_size_error"),
        (400, "prompt is too long: 213213 tokens > 200000 maximum", None),
        (400, "the input length exceeds the context length", None),
        (500, "prompt too long; exceeded max context length by 4 tokens", None),
        (400, "The input token count (9) exceeds the maximum number of tokens allowed", None),
        (400, "Please reduce the length of the messages or completion.", None),
        (413, "Payload Too Large", None),
        (429, "Request too large for m on tokens per min (TPM): Limit 9", None),
    ],
)
async def test_a_conversation_that_is_too_long_is_recognised(
    status: int, message: str, code: str | None
):
    failure = await refused(status, message, code=code)
    assert failure.kind is FailureKind.CONTEXT_TOO_LONG
    assert "/compact" in failure.next_step
    assert not failure.transient


@pytest.mark.parametrize(
    "message",
    [
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "tools param requires --jinja flag",
    ],
)
async def test_a_server_started_without_tools_says_which_flag_to_use(message: str):
    asked = await ask(error(400, message))
    assert asked.failure.kind is FailureKind.REJECTED
    assert "--enable-auto-tool-choice --tool-call-parser" in asked.failure.next_step
    assert "--jinja" in asked.failure.next_step


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (404, "No endpoints found that support tool use."),
    ],
)
async def test_a_model_without_tools_is_named(status: int, message: str):
    failure = await refused(status, message)
    assert "gpt-x cannot call tools" in str(failure)


async def test_a_call_the_server_could_not_read_is_shown_and_worth_repeating():
    body = {"error": {"message": "Failed", "code": "tool_use_failed", "failed_generation": "<f="}}
    asked = await ask(Reply(json.dumps(body).encode(), status=400))
    assert asked.failure.transient
    assert "<f=" in str(asked.failure)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b'"text"',
        b"[]",
        b'[{"error":{"message":"m"}}]',
        b"\xff\xfe",
        b'{"detail":[1]}',
    ],
)
async def test_error_bodies_of_any_shape_give_a_sentence(body: bytes):
    asked = await ask(Reply(body, status=418))
    assert asked.failure.kind is FailureKind.REJECTED
    assert "status 418" in str(asked.failure)


# Errors inside a stream


async def test_an_error_inside_a_stream_comes_after_the_text():
    asked = await in_stream({"error": {"message": "Provider returned error", "code": 502}})
    assert asked.text == "half"
    assert asked.failure.kind is FailureKind.SERVER
    assert asked.failure.transient


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        ({"error": {"message": "slow down", "code": 429}}, FailureKind.RATE_LIMITED),
        ({"error": {"message": "Rate limit", "type": "rate_limit"}}, FailureKind.RATE_LIMITED),
        ({"error": {"message": "Overloaded", "type": "overloaded_error"}}, FailureKind.SERVER),
        ({"error": {"message": "x", "code": "context_length_exceeded"}},
         FailureKind.CONTEXT_TOO_LONG),
        ({"error": "boom"}, FailureKind.SERVER),
    ],
)  # fmt: skip
async def test_errors_inside_a_stream_are_told_apart(problem: object, kind: FailureKind):
    assert (await in_stream(problem)).failure.kind is kind


@pytest.mark.parametrize("problem", [{"message": "boom"}, {"error": {"message": "boom"}}])
async def test_an_error_event_is_an_error(problem: object):
    failure = (await in_stream(problem, event="error")).failure
    assert "boom" in str(failure)


async def test_an_error_event_of_plain_text_is_shown():
    asked = await ask(Reply(b"event: error\ndata: out of memory\n\n"))
    assert "out of memory" in str(asked.failure)


async def test_the_wait_for_an_error_inside_a_stream_is_in_the_headers():
    body = b'data: {"error": {"message": "x", "code": 429}}\n\n'
    headers = {"Content-Type": "text/event-stream", "Retry-After": "4"}
    asked = await ask(Reply(body, headers=headers))
    assert asked.failure.retry_after_s == 4


# What a refusal teaches


LIMITED = ModelOptions(max_output_tokens=99)


async def test_a_refused_key_is_dropped_once_and_remembered():
    complaint = error(400, "Unrecognized request argument supplied: stream_options")
    asked = await ask_often([complaint, say("one"), say("two")], [HELLO] * 2)
    assert [one.text for one in asked] == ["one", "two"]
    keys = ["stream_options" in request.json for request in asked[-1].requests]
    assert keys == [True, False, False]


async def test_the_output_limit_is_called_by_its_other_name_when_the_first_is_refused():
    complaint = error(
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead.",
        param="max_tokens",
    )
    asked = await ask(complaint, say("hi"), options=LIMITED)
    assert asked.text == "hi"
    assert asked.requests[0].json["max_tokens"] == 99
    assert asked.requests[1].json["max_completion_tokens"] == 99
    assert "max_tokens" not in asked.requests[1].json


async def test_an_output_limit_that_is_only_too_high_is_shown():
    complaint = error(400, "max_tokens is too large: 99. This model supports at most 9.")
    asked = await ask(complaint, options=LIMITED)
    assert len(asked.requests) == 1
    assert "too large" in str(asked.failure)


async def test_a_refusal_that_teaches_nothing_is_not_repeated():
    asked = await ask(error(400, "temperature must be below 2"), say("never"))
    assert asked.failure.kind is FailureKind.REJECTED
    assert len(asked.requests) == 1


async def test_a_key_refused_again_after_it_was_dropped_ends_the_request():
    complaint = error(400, "stream_options is not permitted")
    asked = await ask(complaint, complaint, say("never"))
    assert asked.failure.kind is FailureKind.REJECTED
    assert len(asked.requests) == 2


def test_an_unknown_server_setting_is_refused():
    with pytest.raises(ModelError, match="'nine_chars'; known:"):
        make_client(
            model="m", base_url=REMOTE, api_key="", options=ModelOptions(server={"nine_chars": 1})
        )
