"""From what recovery knows to what is to be expected. Pure; the control plane and the simulator both read
here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from domain.forecast.outlook import Outlook, Pace, PlanView, QueryView, outlook_of
from domain.planning import Arrival, DelayDistribution, ObservedDelay, expected_arrivals
from domain.recovery.incident import Deployment

NOTHING = 0
"""Generation that stands for: no plan is needed, what the query lacked is there."""
DELAYS = 50
"""Delays of the provider from which the next ones are expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoring:
    """A plan, and the partitions that it puts back."""

    plan: PlanView
    restore: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A node that was asked for and has not come. capacity: what of it may be planned, in CPU percent."""

    requested_at: float
    capacity: float


def queries_of(
    deployment: Deployment,
    *,
    awaited: Collection[str],
    failed: Collection[str],
    plans: Iterable[Restoring],
    checkpoint_at: float,
) -> list[QueryView]:
    """Those of one topology that are not available again. failed: partitions that no plan under way
    covers."""
    graph = deployment.topology
    newest_first = sorted(plans, key=lambda one: -one.plan.generation)
    lost = frozenset(failed)
    mean = sum(deployment.costs.values()) / len(deployment.costs) if deployment.costs else 1.0
    found: list[QueryView] = []
    for query in graph.queries:
        if query not in awaited:
            continue
        needs = graph.query_partitions[query]
        missing = needs & lost
        plan = (
            None
            if missing
            else next((one.plan.generation for one in newest_first if one.restore & needs), NOTHING)
        )
        found.append(
            QueryView(
                topology=graph.name,
                query=query,
                plan=plan,
                checkpoint_at=checkpoint_at,
                priority=deployment.priorities.get(query, 1),
                cost=sum(deployment.costs.get(partition, mean) for partition in missing),
            )
        )
    return found


def arrivals_of(asked: Iterable[Asked], delay: DelayDistribution, at: float) -> tuple[Arrival, ...]:
    open_now = list(asked)
    return expected_arrivals(
        delay,
        waited=[max(0.0, at - one.requested_at) for one in open_now],
        capacity=[one.capacity for one in open_now],
    )


def delay_learned(seen: Collection[float], otherwise: DelayDistribution) -> DelayDistribution:
    """What the provider took lately, once it has brought a few nodes."""
    newest = list(seen)[-DELAYS:]
    return ObservedDelay(newest) if len(newest) >= 3 else otherwise


def outlook_read(
    *,
    at: float,
    plans: Mapping[str, list[Restoring]],
    queries: Iterable[QueryView],
    arrivals: tuple[Arrival, ...],
    pace: Pace,
    together: bool,
    held: str,
    stays: str = "",
) -> Outlook:
    """plans: those of the incident, by topology; of the ones that were overtaken only those count that had
    already been applied."""
    newest = {name: max((one.plan.generation for one in mine), default=0) for name, mine in plans.items()}
    counted = [
        one.plan
        for name, mine in plans.items()
        for one in mine
        if one.plan.generation == newest[name] or one.plan.applied_at is not None
    ]
    return outlook_of(
        at=at,
        plans=counted,
        queries=list(queries),
        arrivals=arrivals,
        pace=pace,
        together=together,
        held=held,
        stays=stays,
    )
