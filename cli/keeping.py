"""A secret that the server shows once: written to a new file for its owner only, or printed on request."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from cli.output import Column, Columns, field, show
from cli.session import Session

Make = Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where the secret goes; at least one of the two."""

    file: str | None
    shown: bool


def keeping_options(secret: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--to FILE` and `--show` for a `secret` of this name, given to the command as one `Keeping`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(*arguments: Any, **given: Any) -> Any:
            keeping = Keeping(given.pop("file"), given.pop("shown"))
            if not keeping.file and not keeping.shown:
                raise click.UsageError(f"say where the {secret} goes: --to FILE, or --show to print it")
            return function(*arguments, keeping=keeping, **given)

        shown = click.option("--show", "shown", is_flag=True, help=f"print the {secret}")
        to = click.option(
            "--to",
            "file",
            type=click.Path(dir_okay=False),
            help=f"a new file, for you only, that gets the {secret}",
        )
        return to(shown(command))

    return decorate


def secret_keep(session: Session, keeping: Keeping, make: Make, secret: str, columns: Columns) -> None:
    """Make the object, write its field `secret` to the file, and show the rest (with the secret if asked)."""
    # The file comes first: without it the new secret would be lost.
    handle = _private_file(keeping.file) if keeping.file else None
    try:
        row = make()
    except BaseException:
        if handle is not None and keeping.file:
            os.close(handle)
            os.unlink(keeping.file)
        raise
    text = row.pop(secret)
    if handle is not None:
        with os.fdopen(handle, "w", encoding="ascii") as out:
            out.write(f"{text}\n")
        row["file"] = keeping.file
    if keeping.shown:
        row[secret] = text
    extra = [Column(name, field(name)) for name in ("file", secret) if name in row]
    show(session, row, [*columns, *extra])


def _private_file(file: str) -> int:
    try:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise click.UsageError(f"{file} is there already: name a new file") from None
    except OSError as error:
        raise click.UsageError(f"{file} cannot be written: {error.strerror}") from None
