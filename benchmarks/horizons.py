"""Up to which moments areas under availability are reported. Pure.

One horizon alone favours a method: up to the end of the slowest recovery, most of the time is that in which
all is back with the others, and up to the last arrival hardly anything can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

RECOVERY, ARRIVAL, BLOCKING, SLOWEST = "recovery's end", "last arrival", "blocking's end", "slowest's end"
HORIZONS = (RECOVERY, ARRIVAL, BLOCKING, SLOWEST)


def horizons_of(
    *, recovered: float, arrivals: Sequence[float], blocking: float | None, slowest: float
) -> dict[str, float]:
    """Seconds since the failure by horizon, without those that do not exist.

    recovered: when the last query was back in this recovery, or, if none was, when its observation ended;
    blocking, slowest: the same of the blocking method, and of the slowest of all.
    """
    named = {
        RECOVERY: recovered,
        ARRIVAL: max(arrivals, default=0.0),
        BLOCKING: blocking or 0.0,
        SLOWEST: slowest,
    }
    return {name: at for name, at in named.items() if at > 0}


def areas_table(rows: Mapping[str, Mapping[str, Any]], title: str) -> Table:
    """rows: by label, with what is reported as `areas`: horizon -> `seconds`, `availability` and, where one
    was computed, the `optimum`."""
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in HORIZONS:
        table.add_column(f"to {name}", justify="right")
    for label, row in rows.items():
        table.add_row(label, *(_cell(row["areas"].get(name)) for name in HORIZONS))
    return table


def _cell(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "-"
    beside = "" if found.get("optimum") is None else f" of {found['optimum']:.1%}"
    return f"{found['availability']:.1%}{beside} ({found['seconds']:.0f} s)"
