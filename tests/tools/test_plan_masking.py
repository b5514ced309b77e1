"""Secret values never show, wherever a stream is cut."""

from __future__ import annotations

import hashlib
import time

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.support.soon import SOON_S
from tools.engine.masking import MASK, Masker


def streamed(masker, *pieces):
    stream = masker.stream()
    return b"".join([*(stream.feed(piece) for piece in pieces), stream.finish()])


@pytest.mark.row("C291")
def test_secrets_become_asterisks_of_one_length():
    masker = Masker(["hunter22", "a-longer-secret"])
    assert masker.text("x hunter22 a-longer-secret.") == f"x {MASK} {MASK}."


def test_the_longest_secret_wins_and_short_values_stay():
    masker = Masker(["abcd", "abcdef", "abc", "1", ""])
    assert masker.text("abcdef abcd abc 1") == f"{MASK} {MASK} abc 1"
    assert not Masker(["abc", ""])


@pytest.mark.parametrize(
    "shown", ['p"ass/w örd', '"p\\"ass/w örd"', "p%22ass%2Fw%20%C3%B6rd", "cCJhc3MvdyDDtnJk"]
)
def test_the_usual_spellings_of_a_secret_are_masked_too(shown):
    assert MASK in Masker(['p"ass/w örd\n']).text(shown)


@settings(max_examples=300)
@given(
    st.lists(st.text("abc", min_size=4, max_size=7), min_size=1, max_size=3),
    st.lists(st.text("abcd", max_size=9) | st.just("SECRET"), max_size=8),
)
def test_cutting_a_stream_anywhere_changes_nothing(secrets, pieces):
    pieces = [secrets[0] if piece == "SECRET" else piece for piece in pieces]
    masker = Masker(secrets)
    whole = "".join(pieces)
    shown = streamed(masker, *(piece.encode() for piece in pieces)).decode()
    assert shown == masker.text(whole)
    assert shown == streamed(masker, *(letter.encode() for letter in whole)).decode()
    assert not any(secret in shown for secret in secrets)


def test_what_cannot_become_a_secret_is_not_held_back():
    stream = Masker(["secret"]).stream()
    assert stream.feed(b"a line\n") == b"a line\n"
    assert stream.feed(b"sec") == b""
    assert stream.feed(b"ond") == b"second"


def test_a_long_key_and_much_output_cost_little():
    key = "\n".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(60))
    masker = Masker([key, "x" * 1_000_000])
    started = time.monotonic()
    shown = streamed(masker, *[b"0123456789abcdef" * 4096] * 50, key.encode())
    assert time.monotonic() - started < SOON_S
    assert shown == b"0123456789abcdef" * 4096 * 50 + MASK.encode()
