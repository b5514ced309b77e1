"""What `--help` of every command prints."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

from agent.cli import COMMANDS
from agent.parser import Parser
from tests.support.cli import opta


def parsers(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, Parser]]:
    """The parser of a command and those of all its subcommands, by what is typed."""
    assert isinstance(parser, Parser)
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from parsers(below, f"{name} {word}")


def commands() -> Iterator[tuple[str, Parser]]:
    for name, command in COMMANDS.items():
        if not command.own_words:
            parser = Parser(prog=f"opta {name}", description=command.help)
            importlib.import_module(command.module).configure(parser)
            yield from parsers(parser, f"opta {name}")


def test_a_command_without_a_page_of_its_own_answers_help_about_it():
    for words in (["team"], ["sessions", "list"]):
        helped = opta("help", *words)
        assert helped.returncode == 0, helped.stderr
        assert helped.stdout == opta(*words, "--help").stdout
    assert "there is no help about 'tool ad'" in opta("help", "tool", "ad").stderr
    assert "opta help COMMAND" in opta("help").stdout


def test_a_command_that_wants_another_one_names_those_there_are():
    for command, named in [("team", "status, sync, accept"), ("config", "show, get, set, unset")]:
        done = opta(command)
        assert done.returncode == 2
        assert done.stderr.startswith(f"opta: name what to do: {named}")


def test_every_usage_is_a_line_that_can_be_typed_and_every_command_says_what_it_does():
    found = dict(commands())
    assert {"opta demo", "opta loop log", "opta mcp add", "opta sessions rm"} <= found.keys()
    for name, parser in found.items():
        usage = parser.format_usage()
        typed = "opta loop SPEC.md" if name == "opta loop run" else name
        assert usage.startswith(f"usage: {typed} "), usage
        # A second way is a line of its own, never pasted into the first.
        assert all(line.startswith("       ") for line in usage.splitlines()[1:]), usage
        assert "\n[" not in usage, usage
        assert parser.description, name
