"""Recovery by active replicas, checkpoints and source replay, and what checkpoints cost: the counterparts of
Figures 7 to 10 of partially active replication, on real processes.

Nodes with synthetic partitions get SIGKILL, one of them (Figure 7) or all (Figures 8 and 10). Measured is
when the query has output of an epoch that was not complete at the kill, and when all that was lost is as far
as its input again. The newest checkpoint is as old as its interval then: the longest replay of that interval,
so kills of different techniques can be compared. Source replay starts from the state before the first epoch,
one window length after it.

`--quick`: one rate, one interval, no source replay. `--figures 7,8` chooses; `--rates` are tuples per second
of each of 16 source partitions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.active_replicas.cells import FIGURES, INTERVALS, QUICK_INTERVAL, RATES, Cell, stacks_of
from benchmarks.active_replicas.cost import cost_of_checkpoints
from benchmarks.active_replicas.drawing import draw
from benchmarks.active_replicas.figures import criteria, kills_table
from benchmarks.active_replicas.pipeline import SLIDE, SOURCES, SYNTHETIC, WINDOW
from benchmarks.active_replicas.stage import (
    DELAY,
    EPOCH,
    SESSION_TIMEOUT,
    SPARE_NODES,
    SYNTHETIC_NODES,
    scene,
)
from benchmarks.runner import Report, Session, at_least, run
from benchmarks.stack import StackError, stopping_in_order


def measure(session: Session) -> Report:
    options = session.options
    rates = options.rates[:1] if session.quick else options.rates
    intervals = [QUICK_INTERVAL] if session.quick else options.intervals
    stacks = stacks_of(options.figures, intervals=intervals, replay=not session.quick)
    report = Report(
        parameters={
            "sources": SOURCES,
            "synthetic": SYNTHETIC,
            "window": WINDOW,
            "slide": SLIDE,
            "epoch": EPOCH,
            "session_timeout": SESSION_TIMEOUT,
            "nodes": {"sources": 1, "synthetic": SYNTHETIC_NODES, "spare": SPARE_NODES},
            "replacement_delay": DELAY,
            "rates": list(rates),
            "checkpoint_intervals": list(intervals),
        }
    )
    kills: list[dict[str, Any]] = []
    verified: list[dict[str, Any]] = []
    wanted = len(rates) * sum(map(len, stacks))
    with stopping_in_order():
        try:
            if wanted:
                with session.progress("kills", wanted) as step:
                    for rate in rates:
                        for cells in stacks:
                            _on_one_stack(session, rate, cells, kills, verified, step)
            if 9 in options.figures:
                _figure_9(session, report, rates[0])
        except KeyboardInterrupt:
            session.note(f"interrupted after {len(kills)} of {wanted} kills")
    if wanted:
        report.results |= {"kills": kills, "verified": verified}
        report.tables.append(kills_table(kills))
        report.criteria += criteria(kills, verified, bound=SESSION_TIMEOUT + 2 * EPOCH, wanted=wanted)
    return report


def _figure_9(session: Session, report: Report, rate: int) -> None:
    """What was found before is reported also where this breaks off, which is a failure."""
    problem = ""
    try:
        cost_of_checkpoints(session, report, rate=rate)
    except StackError as error:
        problem = str(error)[:300]
        session.note(f"figure 9: {problem}")
    report.criteria.append(at_least("figure 9: measured to its end", float(not problem), 1.0))


def _on_one_stack(
    session: Session,
    rate: int,
    cells: list[Cell],
    kills: list[dict[str, Any]],
    verified: list[dict[str, Any]],
    step: Callable[[], None],
) -> None:
    """The kills of one stack. Where one does not recover the rest are left out, which is a failure."""
    before = len(kills)
    try:
        with scene(rate, keep_logs=session.options.logs) as stage:
            try:
                for cell in cells:
                    stage.prepare(cell)
                    row = {"rate": rate, **stage.kill(cell)}
                    kills.append(row)
                    session.note(f"{rate}/s, {cell}: {row}")
                    step()
            finally:
                if len(kills) > before:  # else what went wrong says more
                    verified.append({"rate": rate, **asdict(stage.stack.verify())})
    except StackError as error:
        session.note(f"{rate}/s: {error}")
        verified.append({"rate": rate, "clean": False, "rows": 0, "faults": {"problem": str(error)[:300]}})


def numbers_parse(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: positive numbers, for example 5,15,30")
    return found


def rates_parse(text: str) -> list[int]:
    return [round(one) for one in numbers_parse(text)]


def figures_parse(text: str) -> list[int]:
    found = rates_parse(text)
    if not set(found) <= set(FIGURES):
        raise argparse.ArgumentTypeError(f"{text!r}: some of {', '.join(map(str, FIGURES))}")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    chosen: dict[str, Any] = {"metavar": "N,..."}
    parser.add_argument("--figures", type=figures_parse, default=list(FIGURES), **chosen)
    parser.add_argument("--rates", type=rates_parse, default=list(RATES), **chosen)
    parser.add_argument("--intervals", type=numbers_parse, default=list(INTERVALS), **chosen)
    parser.add_argument("--logs", type=Path, default=None, help="where logs of what failed are kept")


if __name__ == "__main__":
    sys.exit(run(name="active_replicas", about=__doc__, measure=measure, draw=draw, arguments=arguments))
