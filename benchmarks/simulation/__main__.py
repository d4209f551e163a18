"""Simulated recoveries: Figure 12 of incremental recovery, 10,000 partitions, and rollback policies."""

from __future__ import annotations

import sys
from dataclasses import asdict

from benchmarks.runner import Report, Session, run
from benchmarks.simulation import fifteen, rollback, scale
from benchmarks.simulation.cases import COSTS
from benchmarks.simulation.drawing import draw
from domain.simulation.scenario import PAPER_ARRIVALS, Delays, Scenario


def measure(session: Session) -> Report:
    report = Report()
    defaults = Scenario.__dataclass_fields__
    report.parameters = {
        "arrivals": asdict(PAPER_ARRIVALS),
        "delays": asdict(Delays()),
        "costs": COSTS,
        **{name: defaults[name].default for name in ("replay_speed", "checkpoint_age", "max_utilisation")},
    }
    fifteen.measure(session, report)
    rollback.measure(session, report)
    scale.measure(session, report)
    return report


if __name__ == "__main__":
    sys.exit(run(name="simulation", about=__doc__, measure=measure, draw=draw))
