"""Which queries go on after a failure, from what replicas take over (read side)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from controlplane.topologies.models import FlowRates, Partition
from controlplane.topologies.rates import flows_of, rates_of
from controlplane.whatif.replicas import Supposed
from controlplane.whatif.request import WhatIf
from domain.planning import natural_key
from domain.recovery.incident import Deployment
from domain.replication import ReplicationProblem
from domain.replication.losses import what_is_left
from domain.simulation.scenario import Scenario, SimulatedTopology
from domain.topology import partition_id

TENTATIVE = "tentative"


def problems_load(asked: WhatIf, deployments: Mapping[str, Deployment]) -> dict[str, ReplicationProblem]:
    """What is to be known of each topology to say what it gives, without a budget; two queries."""
    told = {
        row.topology.name: row
        for row in FlowRates.objects.select_related("topology").only("given", "pairs", "topology__name")
    }
    flows: defaultdict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    rows = Partition.objects.filter(topology__name__in=deployments)
    columns = rows.values_list("topology__name", "operator", "index", "rows_in_rate", "rows_out_rate")
    for name, operator, index, read, given in columns:
        flows[name][partition_id(operator, index)] = (read, given)
    return {
        name: _problem(
            deployment,
            flows[name],
            told.get(name) or FlowRates(),
            {**deployment.priorities, **asked.priorities.get(name, {})},
        )
        for name, deployment in deployments.items()
    }


def _problem(
    deployment: Deployment,
    measured: Mapping[str, tuple[float, float]],
    told: FlowRates,
    priorities: Mapping[str, int],
) -> ReplicationProblem:
    graph = deployment.topology
    rates, flows = rates_of(graph, measured, told.given)[0], flows_of(graph, told.pairs)[0]
    return ReplicationProblem(graph, rates, 0, "weighted", priorities, flows)


def outlooks(
    scenario: Scenario, problems: Mapping[str, ReplicationProblem], supposed: Supposed
) -> list[dict[str, Any]]:
    """By topology what the failure leaves at once, before anything is restored."""
    dead = {name for failure in scenario.failures for name in scenario.victims(failure)}
    return [_outlook(one, problems[one.topology.name], supposed, dead) for one in scenario.topologies]


def _outlook(
    one: SimulatedTopology, problem: ReplicationProblem, supposed: Supposed, dead: Collection[str]
) -> dict[str, Any]:
    name, taken = one.topology.name, one.taken_over(dead)
    after = {**one.assignment, **taken}
    running = [p for p, node in after.items() if node not in dead]
    left = what_is_left(problem.model, running)
    tentative = one.tentative.left(running) if one.tentative is not None else {}
    return {
        "topology": name,
        "fidelity": left.fidelity,
        "replicas": len(one.replicas),
        "unplaced": list(supposed.unplaced.get(name, ())),
        "taken_over": [{"partition": p, "node": taken[p]} for p in sorted(taken, key=natural_key)],
        "queries": [
            {
                "query": query.query,
                "outcome": TENTATIVE if query.query in tentative else query.outcome,
                "fidelity": query.left,
            }
            for query in left.queries
        ],
    }
