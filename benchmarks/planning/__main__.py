"""Recovery planning: Figure 16 of incremental recovery, planning time, and look-ahead."""

from __future__ import annotations

import sys
from dataclasses import asdict

from benchmarks.planning import duration, quality, waves
from benchmarks.planning.cases import SETTINGS
from benchmarks.planning.drawing import draw
from benchmarks.runner import Report, Session, run


def measure(session: Session) -> Report:
    report = Report()
    report.parameters = {
        "settings": {name: asdict(recipe) for name, recipe in SETTINGS.items()},
        "fractions": quality.FRACTIONS,
        "topologies": 5 if session.quick else 100,
        "timed_recipe": asdict(duration.TIMED),
        "timed_fraction": duration.TIMED_FRACTION,
        "look_ahead": {
            "nodes": waves.NODES,
            "delay": waves.DELAY,
            "horizon": waves.HORIZON,
            "topologies": 2 if session.quick else 20,
        },
    }
    quality.figure_16(session, report)
    duration.planning_time(session, report)
    duration.bounded_search(session, report)
    waves.look_ahead(session, report)
    return report


if __name__ == "__main__":
    sys.exit(run(name="planning", about=__doc__, measure=measure, draw=draw))
