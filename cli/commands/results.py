"""`resurge results`: what queries give."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.options import ResurgeCommand, with_session
from cli.output import Column, field, show_rows
from cli.paths import resource
from cli.session import Session
from cli.words import clock, count

PAGE = 1_000
"""Rows that are asked for at once: as many as the server gives."""
WINDOWS = (
    Column("FROM", lambda row: clock(row["start"])),
    Column("TO", lambda row: clock(row["end"])),
    Column("ROWS", lambda row: count(row["rows"]), right=True),
    Column("TOTAL", lambda row: count(row["total"]), right=True),
    Column("LARGEST", field("key")),
    Column("COUNT", lambda row: count(row["count"]), right=True),
)


@click.command("results", cls=ResurgeCommand)
@click.argument("topology", shell_complete=completion.TOPOLOGIES)
@click.argument("query")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=50,
    show_default=True,
    metavar="ROWS",
    help="at most so many rows, the newest first",
)
@click.option("--windows", is_flag=True, help="a line for each window instead of its rows")
@with_session
def results(session: Session, topology: str, query: str, limit: int, windows: bool) -> None:
    """The newest committed rows of a query: the newest window first, in it the largest count first.

    \b
    Examples:
      resurge results hashtags "O3[0]"
      resurge results hashtags "O3[0]" --windows --limit 20
      resurge results hashtags "O3[0]" --limit 1000 -o json | jq -r '.[] | [.window_end, .key, .count] | @csv'
    """
    path = resource("topologies", topology, "queries", query, "results")
    if windows:
        answer = session.rest.get(path, {"limit": 1, "windows": min(limit, 500)})
        show_rows(session, answer["windows"], WINDOWS, empty=_empty(answer, "window"))
        return
    rows: list[dict[str, Any]] = []
    before = ""
    while True:
        wanted = min(PAGE, limit - len(rows))
        answer = session.rest.get(path, {"limit": wanted, "before": before or None})
        rows += answer["rows"]
        before = answer["next"]
        if not before or len(rows) >= limit:
            break
    columns = [
        Column(one["name"].upper(), _cell(one["name"], one["type"]), right=one["type"] == "number")
        for one in answer["columns"]
    ]
    show_rows(session, rows, columns, empty=_empty(answer, "row"))


def _cell(name: str, kind: str) -> Any:
    """Instants in the local zone, numbers as they are: what has been counted is not rounded."""
    if kind == "time":
        return lambda row: clock(row.get(name))
    return lambda row: None if row.get(name) is None else str(row[name])


def _empty(answer: Any, what: str) -> str:
    removed = f"; epochs up to {answer['removed']:,} were removed" if answer["removed"] else ""
    return f"No {what}s up to epoch {answer['epoch']:,}{removed}."
