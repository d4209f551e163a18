"""The live system as a scenario of the simulator (read side)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from statistics import median
from typing import Any

from django.conf import settings
from django.utils import timezone

from controlplane.errors import Conflict, Invalid
from controlplane.incidents.loading import deployments_load, nodes_load, plans_newest
from controlplane.incidents.restorations import deployed_at
from controlplane.topologies.graphs import checkpoint_interval_of
from controlplane.topologies.models import Query
from controlplane.whatif.outlooks import problems_load
from controlplane.whatif.replicas import Supposed, replicas_load
from controlplane.whatif.request import MOST_PARTITIONS, WhatIf
from domain.availability import Policy
from domain.health.shape import counted
from domain.planning import UniformDelay
from domain.recovery.incident import Deployment, NodeView
from domain.replication import ReplicationProblem
from domain.simulation.scenario import (
    Failure,
    Scenario,
    ScenarioError,
    SimulatedNode,
    SimulatedTopology,
)
from domain.topology import FieldProblem

LIMIT = 3_600.0
"""Simulated seconds after the last node has come in which a recovery has to end. Latencies are not told, so
they are not sampled either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The running system and the failure, with the replicas of the question. problems: what the outputs of
    each topology are worth."""

    scenario: Scenario
    supposed: Supposed
    problems: dict[str, ReplicationProblem]


def scenario_load(asked: WhatIf, *, deadline: float) -> Loaded:
    """The running system and the failure of the request, read with a constant number of queries. deadline:
    by `time.monotonic`, for planning replicas. Raises `Invalid` for a name that does not exist, and
    `Conflict` while no topology is deployed or one is being recovered.
    """
    arrivals = asked.arrivals_read(settings.RESURGE.replacement_delay)
    deployments = deployments_load(plans_newest())
    nodes = nodes_load(deployments)
    _refuse_unfit(deployments, nodes)
    problems = [*_failure_problems(asked, nodes), *_priority_problems(asked, deployments)]
    if problems:
        raise Invalid.from_problems(problems)
    valued = problems_load(asked, deployments)
    supposed = replicas_load(asked, deployments, nodes, valued, deadline=deadline)
    scenario = _scenario(asked, deployments, nodes, arrivals, supposed)
    return Loaded(scenario=scenario, supposed=supposed, problems=valued)


def _scenario(
    asked: WhatIf,
    deployments: dict[str, Deployment],
    nodes: dict[str, NodeView],
    arrivals: UniformDelay | tuple[float, ...],
    supposed: Supposed,
) -> Scenario:
    latencies, bound = _latencies(), settings.RESURGE.max_utilisation
    intervals = {name: checkpoint_interval_of(one.topology.spec) for name, one in deployments.items()}
    ages = _checkpoint_ages(deployments, intervals)
    longest = arrivals.longest if isinstance(arrivals, UniformDelay) else max(arrivals, default=0.0)
    hosts = {node for deployment in deployments.values() for node in deployment.assignment.values()}
    try:
        return Scenario(
            topologies=tuple(
                SimulatedTopology(
                    topology=deployment.topology,
                    assignment=deployment.assignment,
                    costs=deployment.costs,
                    priorities={**deployment.priorities, **asked.priorities.get(name, {})},
                    latency=latencies.get(name, deployment.topology.spec.epoch_interval),
                    rollback=asked.rollback or deployment.policy.rollback,
                    checkpoint_age=ages[name],
                    replicas=supposed.placed.get(name, {}),
                    tentative=deployment.tentative,
                )
                for name, deployment in sorted(deployments.items())
            ),
            nodes=tuple(
                SimulatedNode(
                    name=node.name,
                    # With the bound on it, what may be planned there with partitions.
                    capacity=max(1.0, node.limit(bound) / bound),
                    rack=node.rack,
                    usable=node.usable or node.standby,
                )
                for node in nodes.values()
                if node.alive or node.name in hosts
            ),
            failures=(Failure(nodes=asked.nodes, racks=asked.racks),),
            arrivals=arrivals,
            seed=asked.seed,
            replay_speed=asked.replay_speed,
            checkpoint_interval=max(intervals.values()),
            limit=LIMIT + 2 * longest + max(ages.values()),
            sample_every=LIMIT,
            policy=Policy(theta=settings.RESURGE.theta),
            max_utilisation=bound,
            replay_reserve=settings.RESURGE.replay_reserve,
        )
    except ScenarioError as error:
        raise Invalid.from_problems(error.problems) from None


def _refuse_unfit(deployments: dict[str, Deployment], nodes: dict[str, NodeView]) -> None:
    if not deployments:
        raise Invalid("", "no topology is deployed, so nothing can fail; deploy one first")
    count = sum(len(deployment.topology.partitions) for deployment in deployments.values())
    if count > MOST_PARTITIONS:
        raise Invalid("", f"{count} partitions run; at most {MOST_PARTITIONS} can be simulated in a request")
    for name, deployment in sorted(deployments.items()):
        down = [
            partition
            for partition in deployment.topology.partitions
            if (host := nodes.get(deployment.assignment.get(partition, ""))) is None or not host.alive
        ]
        if down:
            are = "is" if len(down) == 1 else "are"
            what = f"{counted(len(down), 'partition')} of {name} {are} down now"
            raise Conflict(f"{what}; {_again(name)}")


def _again(name: str) -> str:
    """When a topology of which something is down can be asked about."""
    parked = Query.objects.filter(topology__name=name, parked=True).count()
    if not parked:
        return "ask again when they have been recovered"
    return (
        f"{counted(parked, 'query', 'queries')} of it {'is' if parked == 1 else 'are'} parked, and what-if "
        "knows only topologies that run whole; ask again when all of them have returned"
    )


def _failure_problems(asked: WhatIf, nodes: dict[str, NodeView]) -> list[FieldProblem]:
    problems = []
    for index, name in enumerate(asked.nodes):
        if name not in nodes:
            problems.append(FieldProblem(f"nodes[{index}]", f"there is no node {name!r}"))
        elif not nodes[name].alive:
            problems.append(FieldProblem(f"nodes[{index}]", f"{name!r} is not alive, so it cannot fail"))
    racks = {node.rack for node in nodes.values() if node.alive and node.rack}
    for index, rack in enumerate(asked.racks):
        if rack not in racks:
            known = ", ".join(sorted(racks)) or "none"
            problems.append(
                FieldProblem(f"racks[{index}]", f"no alive node is in rack {rack!r}; known: {known}")
            )
    return problems


def _priority_problems(asked: WhatIf, deployments: dict[str, Deployment]) -> list[FieldProblem]:
    problems = []
    for name, queries in asked.priorities.items():
        if name not in deployments:
            problems.append(FieldProblem(f"priorities.{name}", f"no topology {name!r} is deployed"))
            continue
        known = set(deployments[name].topology.queries)
        problems += [
            FieldProblem(f"priorities.{name}.{query}", f"{name} has no query {query!r}")
            for query in queries
            if query not in known
        ]
    return problems


def _checkpoint_ages(
    deployments: Mapping[str, Deployment], intervals: Mapping[str, float]
) -> dict[str, float]:
    """Half of the interval, as is to be expected of a checkpoint; where none is complete although two were
    due, the seconds since the last one, or since the topology was deployed."""
    now, began = timezone.now().timestamp(), deployed_at(deployments)
    ages = {
        name: round(now - (one.checkpoint_at if isfinite(one.checkpoint_at) else began.get(name, now)))
        for name, one in deployments.items()
        if not one.topology.spec.bounded
    }
    return {
        name: float(age) if (age := ages.get(name, 0)) > 2 * interval else interval / 2
        for name, interval in intervals.items()
    }


def _latencies() -> dict[str, float]:
    """Median latency of each topology's queries without a failure, where it was measured."""
    measured: defaultdict[str, list[float]] = defaultdict(list)
    rows: Any = Query.objects.filter(baseline_latency__gt=0).values_list("topology__name", "baseline_latency")
    for topology, latency in rows:
        measured[topology].append(latency)
    return {topology: max(0.05, median(values)) for topology, values in measured.items()}
