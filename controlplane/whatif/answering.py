"""Asking the simulator, and its answer as plain data."""

from __future__ import annotations

import threading
import time
from typing import Any

from controlplane.errors import Busy, Invalid
from controlplane.whatif.outlooks import outlooks
from controlplane.whatif.request import AT_ONCE, SECONDS, WhatIf
from controlplane.whatif.selectors import Loaded, scenario_load
from domain.availability import Milestones
from domain.simulation.comparison import Comparison, TookTooLongError, compare
from domain.simulation.outcome import Outcome, curve_data

_places = threading.BoundedSemaphore(AT_ONCE)


def what_if_answer(asked: WhatIf) -> dict[str, Any]:
    """The simulated recovery of each algorithm after the failure. Reads the database and writes nothing.

    Raises `Invalid` (a question that cannot be answered within `SECONDS`) and `Busy`.
    """
    deadline = time.monotonic() + SECONDS
    if not _places.acquire(blocking=False):
        raise Busy(f"{AT_ONCE} other what-if questions are being answered; ask again in a few seconds")
    try:
        loaded = scenario_load(asked, deadline=deadline)
        left = max(0.0, deadline - time.monotonic())
        comparison = compare(loaded.scenario, asked.algorithms, seconds=left)
    except TookTooLongError as error:
        advice = "ask about fewer or faster algorithms, or fewer nodes"
        raise Invalid("algorithms", f"{error}; {advice}") from None
    finally:
        _places.release()
    return _answer(asked, loaded, comparison)


def _answer(asked: WhatIf, loaded: Loaded, comparison: Comparison) -> dict[str, Any]:
    scenario = loaded.scenario
    outcomes, reference, horizon = comparison.outcomes, comparison.reference, comparison.horizon
    any_outcome = next(iter(outcomes.values()))
    best = None if reference is None else reference.area(horizon)
    longest = max(outcomes.values(), key=lambda outcome: len(outcome.arrivals))
    return {
        "failed_nodes": [name for failure in scenario.failures for name in scenario.victims(failure)],
        "topologies": [one.topology.name for one in scenario.topologies],
        "queries": len(any_outcome.queries),
        "failed_queries": [query.name for query in any_outcome.failed],
        "replicas": asked.replicas,
        "outlooks": outlooks(scenario, loaded.problems, loaded.supposed),
        "horizon": round(horizon, 3),
        "arrivals": [
            {"at": round(node.at - scenario.first_failure, 3), "capacity": node.capacity, "rack": node.rack}
            for node in longest.arrivals
        ],
        "algorithms": [
            {
                "algorithm": name,
                "ended": outcome.ended,
                "waves": _waves(outcome),
                "curve": list(curve_data(outcome.curve, outcome.started_at, asked.points)),
                **_milestones(outcome.milestones),
                "area": round(outcome.area(horizon), 6),
                "share_of_best": round(outcome.area(horizon) / best, 6) if best else None,
            }
            for name, outcome in outcomes.items()
        ],
        "best": None
        if reference is None
        else {
            "curve": list(curve_data(reference.curve, reference.started_at, asked.points)),
            **_milestones(reference.milestones),
            "area": round(reference.area(horizon), 6),
            "placed": reference.placed,
            "proven": reference.proven,
        },
    }


def _milestones(found: Milestones) -> dict[str, float | None]:
    return {
        name: None if value is None else round(value, 3)
        for name, value in (("first", found.first), ("half", found.half), ("all", found.all))
    }


def _waves(outcome: Outcome) -> list[dict[str, Any]]:
    start = outcome.started_at
    return [
        {
            "number": wave.number,
            "at": round(wave.decided_at - start, 3),
            "restored_at": None if wave.restored_at is None else round(wave.restored_at - start, 3),
            "rollback": wave.rollback,
            "nodes": list(wave.nodes),
            "partitions": wave.partitions,
            "queries": list(wave.queries),
            "cost": round(wave.cost, 2),
            "capacity": round(wave.capacity, 2),
        }
        for wave in outcome.waves
    ]
