"""What a slash command of the person's own sends."""

from __future__ import annotations

import pytest

from agent.user_commands import UserCommand


@pytest.mark.parametrize(
    ("text", "typed", "sent"),
    [
        ("Do it.", "", "Do it."),
        ("Do it.", "now", "Do it.\n\nnow"),
        ("All: $ARGUMENTS.", "a  'b", "All: a  'b."),
        ("$2 then $1, $3", 'one "two words"', "two words then one, "),
        # What was typed is put in once and never read as a place itself.
        ("$1", "'$2 $ARGUMENTS' x", "$2 $ARGUMENTS"),
        ("costs $10 or $ARGUMENTSX", "y", "costs $10 or $ARGUMENTSX\n\ny"),
    ],
)
def test_arguments_stand_where_the_text_wants_them_and_else_below(text: str, typed: str, sent: str):
    assert UserCommand("x", "", text).message(typed) == sent
