"""Plans against the best that nodes have room for: single waves, areas under availability, planning time."""

from __future__ import annotations

import sys

from benchmarks.packing import areas, quality, scale
from benchmarks.runner import Report, Session, run


def measure(session: Session) -> Report:
    report = Report()
    report.parameters["settings"] = quality.parameters()
    quality.small_problems(session, report)
    quality.never_below(session, report)
    quality.larger_problems(session, report)
    areas.areas(session, report)
    scale.planning_time(session, report)
    return report


if __name__ == "__main__":
    sys.exit(run(name="packing", about=__doc__, measure=measure))
