"""The event stream decoder, against every way a network can cut the bytes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.model.sse import MAX_LINE_BYTES, SseDecoder, SseEvent


def decode(*pieces: bytes) -> list[SseEvent]:
    decoder = SseDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


def data(*payloads: str) -> list[SseEvent]:
    return [SseEvent("", payload) for payload in payloads]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_every_line_ending_separates_events(newline: bytes):
    stream = b"data: a\n\ndata: b\n\n".replace(b"\n", newline)
    assert decode(stream) == data("a", "b")


def test_an_event_is_delivered_as_soon_as_its_blank_line_arrives():
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\n") == data("a")


def test_crlf_cut_between_its_bytes_is_one_line_end():
    assert decode(b"data: a\r", b"\n\r", b"\ndata: b\r\n\r\n") == data("a", "b")


def test_data_lines_of_one_event_are_joined_with_newlines():
    assert decode(b"data: a\ndata\ndata:b\n\n") == data("a\n\nb")


def test_only_one_space_after_the_colon_is_dropped():
    assert decode(b"data:  a\n\n") == data(" a")


def test_comments_ids_and_retry_are_skipped():
    assert decode(b": OPENROUTER PROCESSING\n\nid: 7\nretry: 10\ndata: a\n\n:\n\n") == data("a")


def test_the_event_type_belongs_to_its_event_only():
    stream = b"event: error\ndata: a\n\ndata: b\n\nevent: lost\n\ndata: c\n\n"
    assert decode(stream) == [SseEvent("error", "a"), *data("b", "c")]


@pytest.mark.parametrize("cut", range(4))
def test_a_byte_order_mark_is_dropped_even_if_cut(cut: int):
    stream = b"\xef\xbb\xbfdata: a\n\n"
    assert decode(stream[:cut], stream[cut:]) == data("a")


def test_utf8_cut_between_reads_is_put_together():
    stream = "data: naïve 🙂\n\n".encode()
    assert decode(*(stream[i : i + 1] for i in range(len(stream)))) == data("naïve 🙂")


def test_bytes_that_are_not_utf8_become_replacement_characters():
    assert decode(b"data: a\xffb\n\n") == data("a\N{REPLACEMENT CHARACTER}b")


def test_an_event_without_its_blank_line_is_delivered_by_close():
    assert decode(b"data: a\n\ndata: b") == data("a", "b")


def test_an_endless_line_is_refused():
    pieces = [b"x" * (MAX_LINE_BYTES // 4)] * 5
    with pytest.raises(ValueError, match="longer than"):
        decode(*pieces)


LINE = st.sampled_from(
    [b"", b"data: a", b"data:\xc3\xa9", b"data", b": c", b"event: error", b"id: 1", b"\xef\xbb\xbf"]
)
STREAM = st.builds(
    lambda lines: b"".join(line + end for line, end in lines),
    st.lists(st.tuples(LINE, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=12),
)


@settings(max_examples=300, deadline=None)
@given(stream=STREAM | st.binary(max_size=60), data=st.data())
def test_how_the_bytes_are_cut_makes_no_difference(stream: bytes, data: st.DataObject):
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    cuts = [0, *places, len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(cuts)]
    bytewise = [stream[i : i + 1] for i in range(len(stream))]
    assert decode(*pieces) == decode(stream) == decode(*bytewise)
