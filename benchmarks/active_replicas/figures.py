"""Tables and criteria of the kills: Figures 7, 8 and 10. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.table import Table

from benchmarks.active_replicas.cells import ALL, HALF, NOTHING
from benchmarks.runner import Criterion, at_least, at_most

Row = Mapping[str, Any]
COLUMNS = ("output", "caught_up", "active", "tentative")
WISHED = 10.0
"""How many times sooner tentative output is to be there than all is recovered."""


def kills_table(rows: Sequence[Row]) -> Table:
    table = Table(title="Seconds from SIGKILL", title_justify="left")
    named = ("failure", "technique", "tuples/s", "age s", "nodes", "lost", "taken over")
    for column in (*named, "output", "caught up", "active", "tentative", "load"):
        table.add_column(column, justify="left" if column in named[:2] else "right")
    for row in rows:
        table.add_row(
            row["failure"],
            row["technique"],
            f"{row['rate']:,}",
            f"{row['age']:g}",
            str(row["killed"]),
            str(row["lost"]),
            str(row["taken_over"]),
            *("-" if row[name] is None else f"{row[name]:.1f}" for name in COLUMNS),
            f"{row['load']:.1f}",
        )
    return table


def criteria(rows: Sequence[Row], verified: Sequence[Row], *, bound: float, wanted: int) -> list[Criterion]:
    """bound: seconds that a replica may take. wanted: kills that were to be measured."""
    found = [
        at_least("kills measured / kills", len(rows) / max(1, wanted), 1.0),
        at_least("nodes killed, least", min((row["killed"] for row in rows), default=0), 1),
        at_least("partitions lost, least", min((row["lost"] for row in rows), default=0), 1),
        at_least("runs verified clean / runs", _share(verified), 1.0),
        at_least("rows compared, least", min((one["rows"] for one in verified), default=0), 1),
    ]
    active = [row for row in rows if row["share"] == ALL]
    passive = [row for row in rows if row["share"] == NOTHING]
    if active:
        found += [
            at_least("taken over / lost, with all replicas, least", min(map(_taken, active)), 1.0),
            at_most("s to output with all replicas, at worst", max(row["output"] for row in active), bound),
        ]
    if passive:
        least = min(row["restored"] for row in passive)
        found.append(at_least("partitions restored without replicas, least", least, 1))
    ratios = [_sooner(row, passive) for row in active]
    if known := [ratio for ratio in ratios if ratio is not None]:
        found.append(at_least("output: quickest passive / replica, least", min(known), 1.0))
    halves = [row for row in rows if row["share"] == HALF]
    if halves:
        least = min(row["taken_over"] for row in halves)
        found.append(at_least("taken over with half of the replicas, least", least, 1))
        gains = [row["output"] / row["tentative"] if row["tentative"] else 0.0 for row in halves]
        found.append(at_least("full recovery / first tentative output, least", min(gains), WISHED))
    return found


def _share(verified: Collection[Row]) -> float:
    return sum(bool(one["clean"]) for one in verified) / max(1, len(verified))


def _taken(row: Row) -> float:
    return float(row["taken_over"] / row["lost"]) if row["lost"] else 0.0


def _sooner(row: Row, passive: Sequence[Row]) -> float | None:
    """The quickest passive recovery of the same failure at the same rate, as a multiple."""
    same = [one["output"] for one in passive if all(one[k] == row[k] for k in ("failure", "rate"))]
    return min(same) / row["output"] if same else None
