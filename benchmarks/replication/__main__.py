"""Replication plans: quality against the optimum, planning time, Figures 12 to 14 of the paper on PPA.

RESURGE_TEST_DATA names a directory with the real data of docs/experiments; without it the queries of Figures
12 and 13 read generated input."""

from __future__ import annotations

import argparse
import sys

from benchmarks.replication import accuracy, figures, quality
from benchmarks.replication.drawing import draw
from benchmarks.runner import Report, Session, run

PARTS = {
    "quality": (quality.small_topologies, quality.medium_topologies, quality.planning_time),
    "figures": (figures.queries_of_the_paper, figures.random_topologies),
    "accuracy": (accuracy.accuracy_of_plans,),
}


def measure(session: Session) -> Report:
    report = Report()
    for name in session.options.only or PARTS:
        for part in PARTS[name]:
            part(session, report)
    return report


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=PARTS, action="append", help="run only this part; may be repeated")


if __name__ == "__main__":
    sys.exit(run(name="replication", about=__doc__, measure=measure, draw=draw, arguments=arguments))
