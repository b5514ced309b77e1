from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ui.markdown_stream import MarkdownStream

ANSWER = """\
# Title
First paragraph,
second line.

- one
- two

  more of two
- three

```python
def f():

    # not a heading
    return 1
```
| a | b |
|---|---|
| 1 | 2 |

> quoted
> text

1. x

   ```sh
   ls

   # still code
   ```

2. y

Last words"""

BLOCKS = [
    "# Title\n",
    "First paragraph,\nsecond line.\n\n",
    "- one\n- two\n\n  more of two\n- three\n\n",
    "```python\ndef f():\n\n    # not a heading\n    return 1\n```\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
    "> quoted\n> text\n\n",
    "1. x\n\n   ```sh\n   ls\n\n   # still code\n   ```\n\n2. y\n\n",
    "Last words",
]

LINES = st.sampled_from(
    ["", "", "text", "# h", "#", "- item", "1. item", "2) item", "   indented", "      deep", "```",
     "````py", "   ```", "~~~", "> quote", "| a | b |", "|---|", "---", "***", "\t", " x ``` y"]
)  # fmt: skip
DOCUMENTS = st.lists(LINES, max_size=25).map("\n".join)


def split(text: str, sizes: list[int]) -> list[str]:
    stream = MarkdownStream()
    blocks: list[str] = []
    position = 0
    for size in sizes:
        blocks += stream.feed(text[position : position + size])
        position += size
        assert "".join(blocks) + stream.tail(10**9) == text[:position]
    blocks += stream.feed(text[position:])
    return blocks + stream.finish()


def test_an_answer_is_cut_at_its_blocks():
    assert split(ANSWER, []) == BLOCKS


def test_one_character_at_a_time_gives_the_same_blocks():
    assert split(ANSWER, [1] * len(ANSWER)) == BLOCKS


@given(DOCUMENTS, st.lists(st.integers(0, 9), max_size=40))
def test_blocks_do_not_depend_on_how_the_text_arrives(text: str, sizes: list[int]):
    whole = split(text, [])
    assert "".join(whole) == text
    assert split(text, sizes) == whole


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("a\n```\nb", ["a\n", "```\nb"]),
        ("```\n~~~\n\n```\nb\n", ["```\n~~~\n\n```\n", "b\n"]),
        ("````\n```\n````\n", ["````\n```\n````\n"]),
        ("Here:\n- a\n- b\n\nDone\n", ["Here:\n", "- a\n- b\n\n", "Done\n"]),
        ("in 2020.\n2019. was\n", ["in 2020.\n2019. was\n"]),
        ("- a\n  ```\n  x\nout\n", ["- a\n  ```\n  x\n", "out\n"]),
        ("text\n> q\n", ["text\n", "> q\n"]),
        ("\n\na\n", ["\n\na\n"]),
    ],
)
def test_where_blocks_end(text: str, blocks: list[str]):
    assert split(text, []) == blocks


def test_the_tail_is_only_as_long_as_asked():
    stream = MarkdownStream()
    for _ in range(1000):
        stream.feed("word ")
    assert 50 <= len(stream.tail(50)) < 60


def test_the_cost_is_linear_in_the_length_of_an_open_block():
    def cost(pieces: int) -> float:
        stream = MarkdownStream()
        started = time.process_time()
        for number in range(pieces):
            stream.feed("```\n" if number == 0 else "some code\n")
            stream.tail(500)
        return time.process_time() - started

    # Ten times the text: 10 when linear, 100 when quadratic.
    assert cost(30_000) < 40 * max(cost(3_000), 0.001)
