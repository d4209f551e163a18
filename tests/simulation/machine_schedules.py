"""Random schedules of the epoch machine and partition runs alone, with plans that no coordinator would make:
`python -m tests.simulation.machine_schedules --count 10000 --kind tentative`.

Counts what happened in them, and fails if nothing of what a kind is for did.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

from tests.simulation.exact_chaos import LIMIT, Chaos
from tests.simulation.many_seeds import run_seeds

# Kind -> what must have happened in its schedules.
KINDS = {
    "failures": ("epochs committed", "complete checkpoints compared"),
    "moves": ("states handed over",),
    "replicas": ("epochs of shadows", "takeovers"),
    "tentative": ("epochs of branches", "of them without an input", "tentative outputs"),
    "both": ("epochs of shadows", "takeovers", "epochs of branches", "tentative outputs"),
    "synchronous": ("turns that waited for a checkpoint",),
    "at-once": ("schedules with checkpoints beside each other",),
    "stops": ("stops", "stops that left a checkpoint"),
    "ends": ("epochs committed",),
    "cycles": (
        "complete checkpoints compared",
        "batches that feedback streams brought",
        "states handed over",
        "takeovers",
    ),
    "cycle-ends": ("batches that feedback streams brought", "epochs after the input"),
}
# Of these, too, every other schedule moves what runs.
MODES = ("synchronous", "at-once", "stops")


def run_schedule(seed: int, *, kind: str) -> dict[str, int]:
    """Raises AssertionError unless every query has every epoch once. Copies exist of deterministic operators
    only; in every fourth schedule of the other kinds no operator is. Every other schedule with copies moves
    what runs, and every third with cycles has replicas."""
    cycles, ends = kind in ("cycles", "cycle-ends"), kind in ("ends", "cycle-ends")
    replicas = kind in ("replicas", "both") or (kind == "cycles" and seed % 3 == 0)
    copies = replicas or kind == "tentative"
    chaos = Chaos(
        seed,
        deterministic=copies or seed % 4 > 0,
        limit=LIMIT if ends else None,
        moves=kind == "moves" or ((copies or cycles or kind in MODES) and seed % 2 == 0),
        replicas=replicas,
        tentative=kind in ("tentative", "both"),
        cycles=cycles,
        mode="synchronous" if kind == "synchronous" else "asynchronous",
        at_once=2 + seed % 4 if kind == "at-once" else 1,
        stops=kind == "stops",
    )
    if ends:
        chaos.go_to_the_end()
    else:
        chaos.go()
    run, history = chaos.run, chaos.run.outside.history
    assert not run.tracker.branches.homes, "branches are left although nothing is lost"
    return {
        "epochs committed": run.tracker.committed,
        "epochs replayed": run.replayed,
        "complete checkpoints compared": run.compared,
        "states handed over": run.handed_over,
        "epochs of shadows": history.shadowed,
        "takeovers": run.taken_over,
        "epochs of branches": history.branched,
        "of them without an input": history.lacking,
        "tentative outputs": len(history.tentative),
        "batches that feedback streams brought": history.returned,
        "epochs after the input": run.drained,
        "turns that waited for a checkpoint": run.stood_still,
        "schedules with checkpoints beside each other": int(run.at_once > 1),
        "stops": run.stops,
        "stops that left a checkpoint": run.left,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="schedules of each kind")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", choices=tuple(KINDS), action="append", help="only these; may be repeated")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    failed = False
    for kind in given.kind or KINDS:
        print(kind, flush=True)
        totals, failing = run_seeds(
            partial(run_schedule, kind=kind), count=given.count, first=given.first, processes=given.processes
        )
        missing = [what for what in KINDS[kind] if not totals[what]]
        if missing:
            print(f"there were no {', '.join(missing)}")
        failed = failed or bool(failing or missing)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
