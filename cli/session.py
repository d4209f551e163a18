"""The context of one call: the server, the output, and whether there is a terminal to ask on."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import click

from cli.configuration import Target, target_find
from cli.words import plain

if TYPE_CHECKING:
    from rich.console import Console

    from cli.client import Rest

Format = Literal["json", "table"]
TIMEOUT = 15.0


class Session:
    """Lives as click's context object; options fill it in before the command runs."""

    def __init__(self) -> None:
        self.url = ""
        self.timeout = TIMEOUT
        self.asked_format: Format | None = None

    @property
    def format(self) -> Format:
        """Tables are for terminals; a pipe gets JSON."""
        return self.asked_format or ("table" if sys.stdout.isatty() else "json")

    @property
    def interactive(self) -> bool:
        """Whether there is a terminal for questions and answers."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    @cached_property
    def target(self) -> Target:
        return target_find(self.url)

    @cached_property
    def rest(self) -> Rest:
        from cli.client import Rest

        rest = Rest(self.target, timeout=self.timeout)
        click.get_current_context().find_root().call_on_close(rest.close)
        return rest

    @cached_property
    def console(self) -> Console:
        """Standard output. Where it is no terminal, lines are as long as they need to be."""
        return console_of(sys.stdout)

    @cached_property
    def notes(self) -> Console:
        """Standard error: questions, what will happen, progress."""
        return console_of(sys.stderr)

    def say(self, text: str) -> None:
        """A remark for a person; never part of the answer."""
        from rich.text import Text

        self.notes.print(Text(plain(text)))


def console_of(stream: Any) -> Console:
    from rich.console import Console

    if not stream.isatty():
        return Console(file=stream, width=10_000, highlight=False, no_color=True, soft_wrap=True)
    return Console(file=stream, highlight=False, width=terminal_width())


def terminal_width() -> int:
    return max(20, shutil.get_terminal_size((80, 24)).columns)


def session_of(context: click.Context | None = None) -> Session:
    found = (context or click.get_current_context()).find_root().ensure_object(Session)
    assert isinstance(found, Session)  # noqa: S101 - ensure_object has just made it one
    return found


def paged_out() -> bool:
    """Whether a terminal cannot place the cursor: progress is then told line by line."""
    return os.environ.get("TERM", "") in ("", "dumb")
