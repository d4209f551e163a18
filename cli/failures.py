"""The kinds of failures, each with an exit code for scripts and a sentence that says what to do."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import IO, Any

import click

from cli.words import plain


class Exit(IntEnum):
    """The exit codes; documented in docs/cli.md, and never renumbered."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    UNAUTHORISED = 4
    TIMED_OUT = 5
    MISSING = 6
    INTERRUPTED = 130


class CommandError(click.ClickException):
    """Ends the command. `message` is for a person; further `lines` follow it, indented."""

    exit_code = int(Exit.FAILED)

    def __init__(self, message: str, *, lines: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.lines = lines

    def show(self, file: IO[Any] | None = None) -> None:
        texts = [f"resurge: {plain(self.message)}", *(f"  {plain(line)}" for line in self.lines)]
        click.echo("\n".join(texts), file=file or sys.stderr)


class RefusedError(CommandError):
    """The server said no (`status` is that of HTTP), or an operation failed."""

    def __init__(self, message: str, *, lines: tuple[str, ...] = (), status: int = 0) -> None:
        super().__init__(message, lines=lines)
        self.status = status


class ConfigurationError(CommandError):
    """The configuration file, or what the environment says, cannot be used."""

    exit_code = int(Exit.USAGE)


class UnreachableError(CommandError):
    """No answer, or an answer that cannot be used."""

    exit_code = int(Exit.UNREACHABLE)


class UnauthorisedError(CommandError):
    """No token, one that is not valid any more, or a role that does not permit it."""

    exit_code = int(Exit.UNAUTHORISED)


class TimedOutError(CommandError):
    """No answer, or no end of an operation, in the time given."""

    exit_code = int(Exit.TIMED_OUT)


class MissingError(CommandError):
    """The named object does not exist."""

    exit_code = int(Exit.MISSING)


class InterruptedByUserError(CommandError):
    """Ctrl+C while an operation continues on the server."""

    exit_code = int(Exit.INTERRUPTED)
