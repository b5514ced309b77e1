"""Children get the person's environment, without opta's keys and set up for having no terminal."""

from __future__ import annotations

from tools.engine.environment import WITHOUT_TERMINAL, child_environment

SECRETS = {
    "OPENAI_API_KEY": "sk-1",
    "ANTHROPIC_API_KEY": "sk-2",
    "OPTA_TEAM_TOKEN": "t",
    "OPTA_API_KEY": "k",
    "MY_GATEWAY_KEY": "g",
}
OTHERS = {"PATH": "/bin", "OPTA_MODEL": "gpt", "GITHUB_TOKEN": "theirs", "PYTHONPATH": "lib"}


def test_keys_of_opta_are_left_out_and_nothing_else() -> None:
    made = child_environment(SECRETS | OTHERS, secrets=["MY_GATEWAY_KEY"])
    assert made == OTHERS | WITHOUT_TERMINAL


def test_programs_are_told_not_to_ask_and_not_to_page() -> None:
    made = child_environment({"PAGER": "less", "GIT_PAGER": "delta", "GIT_TERMINAL_PROMPT": "1"})
    assert (made["PAGER"], made["GIT_PAGER"], made["GIT_TERMINAL_PROMPT"]) == ("cat", "cat", "0")
