"""Options that filter a list. The server applies them, so other rows are never sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from cli import completion
from cli.numbers import whole
from cli.status import TONES

ALL = "all"
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGO = re.compile(r"(\d{1,6})([smhdw])")

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Moment(click.ParamType[str]):
    """`90s`, `15m`, `2h`, `7d` or `2w` ago, or ISO 8601, of the local time zone where it names none; in ISO
    8601 with an offset, as REST takes it."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = _AGO.fullmatch(str(value))
        try:
            if found is not None:
                ago = timedelta(seconds=int(found[1]) * SECONDS[found[2]])
                return (datetime.now(UTC) - ago).isoformat()
            return datetime.fromisoformat(str(value)).astimezone().isoformat()
        except (ValueError, OverflowError):
            self.fail(f"{value!r}: write how long ago (90s, 15m, 2h, 7d), or 2026-01-31T08:00", param, ctx)


class Limit(click.ParamType[int]):
    """A number of rows, or `all`; 0 for all."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == ALL:
            return 0
        if not whole(str(value)) or int(value) == 0:
            self.fail(f"{value!r}: write how many at most, or {ALL}", param, ctx)
        return int(value)


def limit_option(default: int) -> Decorator:
    """`limit` rows at most, 0 for all: what `Rest.rows` takes as `most`."""
    return click.option(
        "--limit",
        type=Limit(),
        default=default,
        show_default=True,
        metavar=f"N|{ALL}",
        help="the number of rows at most, newest first",
    )


def state_option(kind: str, name: str = "state") -> Decorator:
    """`--state`, repeatable, given to the command as the list `wanted`."""
    return click.option(
        f"--{name}",
        "wanted",
        multiple=True,
        type=click.Choice(tuple(TONES[kind])),
        help="only these; repeatable",
    )


def kinds_option(words: Sequence[str], help: str = "only these; repeatable") -> Decorator:  # noqa: A002  (Click's)
    """`--kind`, repeatable, given to the command as the list `kinds`; `words` are offered by the shell."""
    complete = completion.words(words)
    return click.option("--kind", "kinds", multiple=True, metavar="KIND", shell_complete=complete, help=help)


def span_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--since` and `--until`, given to the command as times that REST takes."""
    until = click.option(
        "--until", type=Moment(), metavar="TIME", help="only rows before: 2h (ago), or 2026-01-31T08:00"
    )
    since = click.option(
        "--since", type=Moment(), metavar="TIME", help="only rows since: 2h (ago), or 2026-01-31T08:00"
    )
    return since(until(function))
