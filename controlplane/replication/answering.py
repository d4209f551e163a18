"""Computing a replication plan for a topology as it runs, as plain data."""

from __future__ import annotations

import math
from typing import Any

from controlplane.errors import Invalid
from controlplane.replication.recent import Recent
from controlplane.replication.selectors import EXPLAINED, Measured, measured_load
from domain.replication import (
    Objective,
    ReplicationProblem,
    TooLargeError,
    replication_planner_named,
)

MOST_PARTITIONS = 2_000
"""Partitions of the largest topology that a request may plan for: computing a plan occupies a processor."""

DEFAULT_SHARE = 0.25
"""The budget as a share of the partitions, where neither the request nor the policy names one."""

plans: Recent[tuple[tuple[int, int], str, str, str, int], dict[str, Any]] = Recent()


def budget_of(measured: Measured) -> int:
    """How many partitions the policy wants to be replicated."""
    count = len(measured.graph.partitions)
    return min(count, math.ceil(DEFAULT_SHARE * count) if measured.budget is None else measured.budget)


def replication_plan_answer(
    name: str, *, budget: int | None = None, planner: str | None = None, objective: Objective = "weighted"
) -> dict[str, Any]:
    """The plan for `budget` partitions by `planner`; values that are not given come from the topology's
    policy. Reads the database and writes nothing. A plan may be a few seconds old (`recent.py`).

    Raises `Missing`, and `Invalid` for what cannot be computed within a request.
    """
    measured = measured_load(name)
    count = len(measured.graph.partitions)
    if count > MOST_PARTITIONS:
        raise Invalid(
            "",
            f"{name} has {count} partitions; plans are computed for up to {MOST_PARTITIONS}. Plan smaller "
            "topologies that it could be divided into",
        )
    budget = budget_of(measured) if budget is None else min(budget, count)
    chosen, most = replication_planner_named(planner or measured.planner), budget

    def compute() -> dict[str, Any]:
        problem = ReplicationProblem(
            measured.graph, measured.rates, most, objective, measured.priorities, measured.flows
        )
        return chosen.plan(problem).to_data()

    try:
        plan = plans.get((measured.version, measured.source, chosen.name, objective, budget), compute)
    except TooLargeError as error:
        raise Invalid("planner", str(error)) from None
    return {
        "topology": name,
        **plan,
        "rates": measured.source,
        "rates_note": EXPLAINED[measured.source],
        "checkpoint": measured.checkpoint,
    }
