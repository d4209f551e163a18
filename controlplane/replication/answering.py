"""Computing a replication plan for a topology as it runs, as plain data."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from controlplane.errors import Busy, Invalid
from controlplane.replication.recent import Recent
from controlplane.replication.selectors import EXPLAINED, Measured, measured_load
from controlplane.topologies.policies import NO_REPLICAS
from domain.replication import (
    Objective,
    ReplicationProblem,
    StructureAware,
    TooLargeError,
    replication_planner_named,
)
from domain.replication.next_replica import next_replica

MOST_PARTITIONS = 2_000
"""Partitions of the largest topology that a request may plan for: computing a plan occupies a processor."""

DEFAULT_SHARE = 0.25
"""The budget as a share of the partitions, where neither the request nor the policy names one."""

plans: Recent[tuple[tuple[int, int], str, str, str, int], dict[str, Any]] = Recent()
gains: Recent[tuple[tuple[int, int], str, str, int], dict[str, Any] | None] = Recent()

MOST_PARTITIONS_AHEAD = 250
"""Partitions of the largest topology for which it is computed what the next replica would buy: it takes
several plans, and the page asks every few seconds."""

USUAL_PLANNER = StructureAware.name
SLOW_PLANNERS = frozenset({"optimal", "dynamic_programming"})
"""In their place `structure_aware` says what the next replica would buy."""


def budget_of(measured: Measured) -> int:
    """How many partitions the policy wants to be replicated."""
    count = len(measured.graph.partitions)
    return min(count, math.ceil(DEFAULT_SHARE * count) if measured.budget is None else measured.budget)


def next_replica_answer(measured: Measured) -> dict[str, Any] | None:
    """What one replica more than the policy's budget would buy, or as few more as buy anything. None where
    every partition may have one, for topologies that are too large, and where too many others ask. It may be
    a few seconds old."""
    if len(measured.graph.partitions) > MOST_PARTITIONS_AHEAD:
        return None
    budget = budget_of(measured)
    planner = USUAL_PLANNER if measured.planner in SLOW_PLANNERS else measured.planner
    problem = ReplicationProblem(
        measured.graph, measured.rates, budget, "weighted", measured.priorities, measured.flows
    )

    def compute() -> dict[str, Any] | None:
        try:
            found = next_replica(replication_planner_named(planner), problem)
        except TooLargeError:
            found = next_replica(replication_planner_named(USUAL_PLANNER), problem)
        return None if found is None else asdict(found)

    try:
        return gains.get((measured.version, measured.source, planner, budget), compute)
    except Busy:
        return None  # what it is told with can be said without


def replication_plan_answer(
    name: str, *, budget: int | None = None, planner: str | None = None, objective: Objective = "weighted"
) -> dict[str, Any]:
    """The plan for `budget` partitions by `planner`; values that are not given come from the topology's
    policy. Reads the database and writes nothing. A plan may be a few seconds old (`recent.py`).

    Raises `Missing`, `Busy`, and `Invalid` where no replica can run or for what cannot be computed within a
    request.
    """
    measured = measured_load(name)
    if measured.graph.spec.bounded:
        raise Invalid("", f"{name} can have no replicas, because {NO_REPLICAS}")
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
