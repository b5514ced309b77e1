"""Tokens are counted as tiktoken counts them, offline, and cheaply until a count is needed."""

from __future__ import annotations

import base64
import hashlib
import inspect
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tiktoken_ext import openai_public

from agent.tokens import _CONSTANTS, CL100K, O200K, _ranks, count_messages, count_text, encoding

ROOT = Path(__file__).resolve().parents[2]
ENCODINGS = {O200K: openai_public.o200k_base, CL100K: openai_public.cl100k_base}


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_constants_are_those_of_tiktoken(name, monkeypatch):
    """tiktoken's own definition is read with its downloader taken out."""
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: {})
    theirs = ENCODINGS[name]()
    assert {key: theirs[key] for key in _CONSTANTS[name]} == _CONSTANTS[name]


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_shipped_vocabulary_is_byte_for_byte_the_published_one(name):
    """Written out in the published form it has the sha256 that tiktoken's source gives."""
    lines = (
        b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in _ranks(name).items()
    )  # fmt: skip
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    assert f'expected_hash="{digest}"' in inspect.getsource(ENCODINGS[name])


def test_the_vocabularies_are_complete():
    assert encoding(O200K).n_vocab == 200019
    assert encoding(CL100K).n_vocab == 100277


@pytest.mark.parametrize(
    ("name", "text", "ids"),
    [
        (O200K, "hello world", [24912, 2375]),
        (O200K, "antidisestablishmentarianism", [493, 129901, 376, 160388, 21203, 2367]),
        (CL100K, "hello world", [15339, 1917]),
        (CL100K, "antidisestablishmentarianism", [519, 85342, 34500, 479, 8997, 2191]),
        (CL100K, "2 + 2 = 4", [17, 489, 220, 17, 284, 220, 19]),
    ],
)
def test_published_encodings_of_known_texts(name, text, ids):
    assert encoding(name).encode_ordinary(text) == ids


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize(
    "text", ["", "<|endoftext|>", "日本 🎉 é\u0301", "a\n\n\tb  ", "\ud800x", "x" * 5000]
)
def test_any_text_can_be_counted(name, text):
    assert count_text(text, name) == len(encoding(name).encode_ordinary(text))


@pytest.mark.parametrize("space", [" ", "\n", " \n\t"])
def test_endless_white_space_is_counted(space):
    text = "a" + space * 1_000_000 + "b"
    assert 1000 < count_text(text) < len(text)


def test_messages_follow_the_published_recipe():
    messages = [
        {"role": "system", "content": "You are a helpful assistant that can answer to questions "
         "about the weather."},
        {"role": "user", "content": "What's the weather like in San Francisco?"},
    ]  # fmt: skip
    assert count_messages(messages, O200K) == 33
    assert count_messages(messages, CL100K) == 34
    named = [{"role": "user", "name": "Bob", "content": "hi"}]
    assert count_messages(named) == 3 + 3 + count_text("user") + count_text("Bob") + 1 + 1


def test_threads_that_count_at_once_share_one_vocabulary():
    found = []
    program = [threading.Thread(target=lambda: found.append(encoding(O200K))) for _ in range(8)]
    for thread in program:
        thread.start()
    for thread in program:
        thread.join()
    assert len(set(map(id, found))) == 1


def test_importing_loads_neither_tiktoken_nor_a_vocabulary():
    program = "import agent.tokens, sys; print('tiktoken' in sys.modules, 'regex' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


def test_the_notice_names_both_makers():
    notice = (ROOT / "agent" / "data" / "NOTICE").read_text()
    assert "OpenAI" in notice
    assert "Bazyli Brzoska" in notice
    assert notice.count("Permission is hereby granted") == 2
