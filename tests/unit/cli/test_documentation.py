"""Every command has a help text, docs/cli.md lists all commands, and its examples can be parsed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from cli.failures import Exit
from cli.main import resurge

DOCUMENTATION = (Path(__file__).resolve().parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every group and command, by its words."""
    waiting: list[tuple[tuple[str, ...], click.Command]] = [((), resurge)]
    while waiting:
        path, command = waiting.pop()
        yield path, command
        inner: Mapping[str, click.Command] = getattr(command, "commands", {})
        waiting += [((*path, name), one) for name, one in inner.items()]


COMMANDS = dict(commands())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.help
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.help, parameter.name


def test_the_documentation_lists_every_command_and_no_other() -> None:
    table = DOCUMENTATION.partition("| resource | actions |")[2].partition("\n\n")[0]
    listed: set[tuple[str, ...]] = set()
    for row in table.splitlines()[2:]:
        names, actions = (re.findall(r"`([a-z][a-z-]*)`", cell) for cell in row.strip("|").split("|"))
        listed |= {(name, action) for name in names for action in actions}
        listed |= {(name,) for name in names}
    assert listed == {path for path in COMMANDS if path}


def test_the_documentation_names_every_exit_code() -> None:
    table = DOCUMENTATION.partition("## Exit codes")[2].partition("\n## ")[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.M)} == {int(code) for code in Exit}


@pytest.mark.parametrize(
    "line",
    re.findall(r"^    resurge (.*)", DOCUMENTATION, re.M)
    + [
        example
        for command in COMMANDS.values()
        for example in re.findall(r"^ *resurge (.*)", command.help or "", re.M)
    ],
)
def test_examples_are_understood(line: str) -> None:
    """The commands and options of the example exist."""
    words = shlex.split(
        line.partition(" | ")[0].partition(" > ")[0].partition(" < ")[0].rstrip("\\"), comments=True
    )
    path = max((path for path in COMMANDS if tuple(words[: len(path)]) == path), key=len)
    options = {
        option
        for parameter in COMMANDS[path].params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    used = {word for word in words[len(path) :] if word.startswith("-") and word != "-"}
    assert path
    assert used <= options | {"--help"}
