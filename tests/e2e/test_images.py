"""Images that a person hands over with `@`: what the model gets, and what a refusal costs."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import pytest

from agent.conversation import IMAGE_TOKENS, Conversation
from agent.images import MAX_IMAGE_BYTES
from agent.messages import AssistantMessage, Image, UserMessage
from tests.support.cli import OPTA, connected, opta
from tests.support.clipboard import PNG, put_program
from tests.support.model_server import ModelServer, call, error, say
from tests.support.terminal import Terminal, needs_tmux

ADDRESS = "data:image/png;base64," + base64.b64encode(PNG).decode()


@pytest.fixture(autouse=True)
def picture() -> Path:
    path = Path("shot.png")
    path.write_bytes(PNG)
    return path


def user_contents(server: ModelServer) -> list[object]:
    return [m["content"] for m in server.sent_messages if m["role"] == "user"]


def test_an_image_goes_along_with_the_message_that_names_it_and_comes_back_with_the_session():
    with ModelServer([say("A red dot."), say("Still red.")]) as server:
        done = opta("-p", "what is in @shot.png?", server=server)
        assert (done.returncode, done.stdout) == (0, "A red dot.\n")
        assert "attached shot.png (an image)" in done.stderr
        (content,) = user_contents(server)
        assert [part["type"] for part in content] == ["text", "image_url"]
        assert content[0]["text"].endswith("what is in @shot.png?")
        assert '<image path="shot.png">' in content[0]["text"]
        assert content[1]["image_url"]["url"] == ADDRESS
        opta("-p", "and now?", "--continue", server=server)
        assert user_contents(server) == [content, "and now?"]


def test_the_responses_api_gets_it_in_its_own_form():
    with ModelServer([say("A red dot.")]) as server:
        opta("-p", "what is in @shot.png?", "--api", "responses", server=server)
        (item,) = server.requests[0].json["input"]
    assert [part["type"] for part in item["content"]] == ["input_text", "input_image"]
    assert item["content"][1]["image_url"] == ADDRESS


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "Invalid content type. image_url is only supported by certain models."),
        (404, "No endpoints found that support image input"),
        (500, "image input is not supported - hint: you may need to provide the mmproj"),
        (400, "unknown variant `image_url`, expected `text`"),
        (400, "messages[1].content must be a string"),
        (400, "we do not say why"),
    ],
)
def test_a_model_that_sees_no_images_costs_one_turn_and_never_the_conversation(status, words):
    with ModelServer([error(status, words), say("Then in words.")]) as server:
        refused = opta("-p", "what is in @shot.png?", server=server)
        assert refused.returncode == 1
        assert words in refused.stderr
        assert "the images are left out of the conversation from now on" in refused.stderr
        assert len(server.requests) == 1
        done = opta("-p", "without, then", "--continue", server=server)
        assert done.stdout == "Then in words.\n"
        first, last = user_contents(server)
    assert "could not be sent" in first
    assert last == "without, then"


def test_a_server_that_is_out_of_order_for_a_moment_costs_no_image():
    busy = error(503, "overloaded", headers={"Retry-After": "0"})
    with ModelServer([busy, say("A red dot.")]) as server:
        done = opta("-p", "what is in @shot.png?", server=server)
        assert done.stdout == "A red dot.\n"
        assert user_contents(server)[0][1]["image_url"]["url"] == ADDRESS


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("old.bmp", b"BM" + b"\0" * 50, "models take PNG, JPEG, GIF, WebP; this is a BMP image"),
        ("big.png", PNG + b"\0" * MAX_IMAGE_BYTES, "too large"),
    ],
)
def test_what_no_server_takes_is_told_and_left_out(name, data, why):
    Path(name).write_bytes(data)
    with ModelServer([say("What?")]) as server:
        done = opta("-p", f"what is in @{name}?", server=server)
        assert f"{name} is not attached: " in done.stderr
        assert why in done.stderr
        assert user_contents(server)[0].endswith(f"what is in @{name}?")


def test_the_model_is_told_how_it_may_get_to_see_one():
    with ModelServer([call("read_file", path="shot.png"), say("Please hand it over.")]) as server:
        opta("-p", "look at my picture", server=server)
        (result,) = server.results
    assert "shot.png is a PNG image (70 bytes)" in result
    assert "ask the user to name it with @" in result


def test_an_image_counts_in_the_context_and_the_newest_one_survives_a_summary():
    conversation = Conversation("")
    seen = UserMessage("look", "", (Image("image/png", "aGk="),))
    for message in (UserMessage("first"), AssistantMessage("ok"), seen):
        conversation.messages.append(message)
    conversation.compact("so far", 1)
    (left,) = conversation.messages
    assert left.images == seen.images
    assert left.model_text == "so far\n\nlook"
    assert conversation.context_tokens >= IMAGE_TOKENS
    assert conversation.drop_images()
    assert conversation.context_tokens < IMAGE_TOKENS
    assert not conversation.drop_images()


def chat_on_display(server, *places):
    """A chat on a machine with a screen, whose programs are in these places alone."""
    for needed in ("sh", "cat"):
        (places[-1] / needed).symlink_to(shutil.which(needed))
    path = ":".join(map(str, places))
    return Terminal(["env", f"PATH={path}", "DISPLAY=:9", *OPTA, *connected(server)])


@needs_tmux
def test_ctrl_v_pastes_the_image_in_the_clipboard_into_the_message(tmp_path):
    put_program(tmp_path, "xclip", {"image/png": PNG})
    with ModelServer([say("A red dot.")]) as server, chat_on_display(server, tmp_path) as terminal:
        terminal.wait("ask ·")
        terminal.type("what is this?")
        terminal.send("C-v")
        terminal.wait("-pasted.png")
        terminal.type("tell me")
        terminal.send("Enter")
        terminal.wait("A red dot.")
        ((words, image),) = user_contents(server)
    assert image["image_url"]["url"] == ADDRESS
    said = words["text"].splitlines()[-1]
    assert said.startswith('what is this? @"/')
    assert said.endswith('-pasted.png" tell me')


@needs_tmux
def test_ctrl_v_pastes_text_and_says_why_where_it_cannot(tmp_path):
    with ModelServer([]) as server, chat_on_display(server, Path.cwd(), tmp_path) as terminal:
        terminal.wait("ask ·")
        put_program(Path.cwd(), "xclip", {})
        terminal.send("C-v")
        terminal.wait("there is no xclip on PATH")
        put_program(tmp_path, "xclip", {"UTF8_STRING": b"one two"})
        terminal.send("C-v")
        terminal.wait("> one two")
