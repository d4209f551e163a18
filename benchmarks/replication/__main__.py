"""Replication plans: quality against the optimum, planning time, Figures 13 and 14 of the paper on PPA."""

from __future__ import annotations

import sys

from benchmarks.replication import figures, quality
from benchmarks.replication.drawing import draw
from benchmarks.runner import Report, Session, run


def measure(session: Session) -> Report:
    report = Report()
    quality.small_topologies(session, report)
    quality.medium_topologies(session, report)
    quality.planning_time(session, report)
    figures.queries_of_the_paper(session, report)
    figures.random_topologies(session, report)
    return report


if __name__ == "__main__":
    sys.exit(run(name="replication", about=__doc__, measure=measure, draw=draw))
