"""Processes that freeze during a recovery: after one or two nodes have died, processes of one kind are
stopped (SIGSTOP) for some seconds, and then go on (SIGCONT). After each such schedule all queries must be
available and every row of every query exact (`manage.py verify`); and the processes really were in state T.

INPUT=<file> reads real tweets. On nodes it is the kind's processes of one node that freeze. `--kinds` and
`--seconds` choose some of the schedules, so those that failed can be repeated.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.kill_schedules import DELAY, NODES, RATE, schedules_run, schedules_table
from benchmarks.runner import Report, Session, at_least, run
from benchmarks.schedules import freeze_draw
from harness.roles import ROLES

KINDS = tuple(ROLES.values())
SECONDS = (5.0, 30.0, 120.0)


def measure(session: Session) -> Report:
    options = session.options
    kinds, seconds = options.kinds, options.seconds
    if session.quick:
        kinds, seconds = ["driver", "executor"], [5.0]
    drawn = [
        freeze_draw(f"{options.seed}/{kind}/{one:g}", kind=kind, seconds=one)
        for one in seconds
        for kind in kinds
    ]
    rows = schedules_run(session, drawn)
    freezes = [row for schedule in rows for row in schedule["freezes"]]
    frozen = [row for row in freezes if row["stopped"] > 0]
    # Detection freezes before it can open an incident.
    during = [row for row in freezes if row["recovering"] or row["kind"] == "detection"]
    return Report(
        parameters={"nodes": NODES, "rate": RATE, "delay": DELAY, "seed": options.seed, "seconds": seconds},
        results={"schedules": rows, "frozen": dict(Counter(row["kind"] for row in frozen))},
        criteria=[
            at_least("schedules verified clean / schedules", _share(rows, "verified", len(drawn)), 1.0),
            at_least("freezes in state T / schedules", len(frozen) / max(1, len(drawn)), 1.0),
            at_least("freezes during a recovery / schedules", len(during) / max(1, len(drawn)), 1.0),
        ],
        tables=[schedules_table(rows), _table(freezes)],
    )


def _share(rows: list[dict[str, Any]], name: str, count: int) -> float:
    return sum(bool(row[name]) for row in rows) / max(1, count)


def _table(freezes: list[dict[str, Any]]) -> Table:
    table = Table(title="What was frozen", title_justify="left")
    columns = ("kind", "seconds", "node", "stopped", "ended", "recovering")
    for column in columns:
        table.add_column(column, justify="left" if column in ("kind", "node") else "right")
    for row in freezes:
        table.add_row(*(str(row[column]) for column in columns))
    return table


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: all")
    parser.add_argument(
        "--seconds", nargs="+", type=float, default=list(SECONDS), help="for how long (default 5 30 120)"
    )
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn from (default 1)")
    parser.add_argument(
        "--logs", type=Path, default=Path("failed-schedules"), help="where logs of failed ones are kept"
    )


if __name__ == "__main__":
    sys.exit(run(name="freezes", about=__doc__, measure=measure, arguments=arguments))
