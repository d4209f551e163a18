"""Recovery of correlated failures on real processes: Figures 12 to 15 of incremental recovery.

Its two halves run alone as well: benchmarks.recovery.correlated and benchmarks.recovery.locations.
`--quick`: one incremental and one blocking recovery, three of five nodes killed.
"""

from __future__ import annotations

import sys

from benchmarks.recovery.correlated import figure_12
from benchmarks.recovery.drawing import draw
from benchmarks.recovery.locations import figures_13_to_15
from benchmarks.runner import Report, Session, run


def measure(session: Session) -> Report:
    report = Report()
    figure_12(session, report)
    if not session.quick:
        figures_13_to_15(session, report)
    return report


if __name__ == "__main__":
    sys.exit(run(name="recovery", about=__doc__, measure=measure, draw=draw))
