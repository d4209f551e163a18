"""The output of a command: the objects of REST as JSON, or a table of their main fields.

JSON is what REST sent, unchanged: its fields are those of the OpenAPI document. Tables are for reading, and
may change; scripts read JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from cli.session import Session
from cli.words import DASH, plain

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

Row = Mapping[str, Any]
Cell = Callable[[Row], "str | Text | None"]


@dataclass(frozen=True, slots=True)
class Column:
    """`value` makes a cell of a row. A column with a `least_width` is shown on terminals of at least that
    width."""

    title: str
    value: Cell
    right: bool = False
    least_width: int = 0


Columns = Sequence[Column]


def field(name: str) -> Cell:
    """The field as it is; for names and words."""
    return lambda row: None if row.get(name) is None else str(row[name])


def show_rows(session: Session, rows: Sequence[Row], columns: Columns, *, empty: str) -> None:
    """A list: JSON array or table; for a table without rows `empty` is written to standard error."""
    if session.format == "json":
        dump(rows)
    elif rows:
        session.console.print(table_of(rows, columns, width=session.console.width))
    else:
        session.notes.print(empty, style="dim")


def show(session: Session, row: Row, columns: Columns) -> None:
    """One object: JSON object, or its fields below each other."""
    if session.format == "json":
        dump(row)
    else:
        session.console.print(record_of(row, columns))


def dump(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


def dump_line(value: Any) -> None:
    """One object per line, for endless output."""
    click.echo(json.dumps(value, separators=(",", ":")))


def table_of(rows: Sequence[Row], columns: Columns, *, width: int) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    chosen = [column for column in columns if column.least_width <= width]
    for column in chosen:
        # Numbers are useless when cut off, texts are not.
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=column.right,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(cell(column, row) for column in chosen))
    return table


def record_of(row: Row, columns: Columns) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for column in columns:
        table.add_row(column.title, cell(column, row))
    return table


def cell(column: Column, row: Row) -> Text:
    """Never markup: `O3[2]` is a name here."""
    from rich.text import Text

    made = column.value(row)
    if isinstance(made, Text):
        return made
    return Text(plain(made) if made not in (None, "") else DASH)
