"""How a topology is to be recovered: its policy, and what a policy may say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from controlplane.errors import Invalid
from controlplane.topologies.choices import (
    PLANNER_CHOICES,
    REPLICATION_PLANNER_CHOICES,
    ApprovalPolicy,
    Desired,
    MethodPolicy,
    OverloadPolicy,
    RebalancingPolicy,
    ReplicationMode,
    RollbackPolicy,
    SlowNodesPolicy,
    TentativeOutput,
)
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Topology
from controlplane.topologies.representation import POLICY_FIELDS
from domain.recovery.policy import RecoveryPolicy
from domain.topology import Topology as Graph
from domain.topology.spec import MAX_PARTITIONS

_CHOICES: dict[str, list[str]] = {
    "method": list(MethodPolicy.values),
    "planner": [name for name, _ in PLANNER_CHOICES],
    "rollback": list(RollbackPolicy.values),
    "approval": list(ApprovalPolicy.values),
    "rebalancing": list(RebalancingPolicy.values),
    "overload": list(OverloadPolicy.values),
    "slow_nodes": list(SlowNodesPolicy.values),
    "replication_mode": list(ReplicationMode.values),
    "replication_planner": [name for name, _ in REPLICATION_PLANNER_CHOICES],
    "tentative_output": list(TentativeOutput.values),
}
SHARES = ("tentative_fidelity", "tentative_worth")
"""Fields that are numbers from 0 to 1."""
HIGHEST_THRESHOLD = 100_000
NO_REPLICAS = (
    "its guarantee is bounded: what is left goes on at once after a failure, and rows that were lost do not "
    "come again, so a replica would come to be in another state"
)


def policy_of(topology: Topology) -> RecoveryPolicy:
    """The policy in force; numbers that are not set are the installation's."""
    threshold, window = topology.correlation_threshold, topology.correlation_window
    return RecoveryPolicy(
        method=topology.method,
        planner=topology.planner,
        rollback=topology.rollback,
        approval=topology.approval,
        rebalancing=topology.rebalancing,
        overload=topology.overload,
        correlation_threshold=settings.RESURGE.correlation_threshold if threshold is None else threshold,
        correlation_window=settings.RESURGE.correlation_window if window is None else window,
    )


def replicas_require(graph: Graph) -> None:
    """Raise `Invalid` unless replicas of this topology can run."""
    if graph.spec.bounded:
        raise Invalid("replication_mode", f"replicas of {graph.name} cannot run, because {NO_REPLICAS}")
    if not graph.deterministic:
        names = ", ".join(one.name for one in graph.operators if not one.repeatable)
        raise Invalid(
            "replication_mode",
            f"replicas of {graph.name} cannot run, because {names} may give other rows for the same input: a "
            "replica would come to be in another state",
        )


def tentative_require(graph: Graph, changes: Mapping[str, Any]) -> None:
    """Raise `Invalid` unless this topology can give tentative output as these fields of its policy say."""
    if changes.get("tentative_output") == TentativeOutput.ON and graph.spec.bounded:
        raise Invalid(
            "tentative_output",
            f"queries of {graph.name} give no tentative output, because its guarantee is bounded: they go on "
            "without lost inputs anyway, and no final rows come later",
        )
    if changes.get("tentative_output") == TentativeOutput.ON and not graph.deterministic:
        names = ", ".join(one.name for one in graph.operators if not one.repeatable)
        raise Invalid(
            "tentative_output",
            f"queries of {graph.name} cannot go on without lost inputs, because {names} may give other rows "
            "for the same input: all partitions start again from the checkpoint",
        )
    queries = [one.name for one in graph.outputs]
    if changes.get("tentative_output") == TentativeOutput.ON and graph.in_or_below_cycles.issuperset(queries):
        raise Invalid(
            "tentative_output",
            f"queries of {graph.name} cannot go on without lost inputs, because all of them are in a "
            "cycle or below one: tentative rows would go round and never become exact",
        )
    for name in changes.get("tentative_except", ()):
        if name not in queries:
            raise Invalid("tentative_except", f"{name!r} is no query; there are {', '.join(queries)}")


def tentative_above(topology: Topology) -> dict[str, float]:
    """Operators whose queries go on without lost inputs -> the fidelity that their output must be above."""
    if topology.tentative_output != TentativeOutput.ON or topology.desired == Desired.STOPPED:
        return {}
    graph = graph_of(topology.spec)
    if not graph.deterministic or graph.spec.bounded:
        return {}
    return {
        operator.name: topology.tentative_fidelity
        for operator in graph.outputs
        if operator.name not in {*topology.tentative_except, *graph.in_or_below_cycles}
    }


def policy_require(field: str, value: Any) -> None:
    """Raise `Invalid` unless the policy may have this value."""
    if field in _CHOICES:
        if value not in _CHOICES[field]:
            raise Invalid(field, f"{value!r} is not one of {', '.join(_CHOICES[field])}")
        return
    if field not in POLICY_FIELDS:
        raise Invalid(field, f"a policy has no field {field!r}; it has {', '.join(POLICY_FIELDS)}")
    if field == "tentative_except":
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise Invalid(field, f"{value!r} is not a list of names of operators")
        return
    if value is None and field not in SHARES:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number:
        raise Invalid(field, f"{value!r} is not a number")
    if field == "correlation_threshold" and (value != int(value) or not 1 <= value <= HIGHEST_THRESHOLD):
        raise Invalid(field, f"{value!r} is not a whole number of nodes from 1 to {HIGHEST_THRESHOLD}")
    if field == "replication_budget":
        if value != int(value) or not 0 <= value <= MAX_PARTITIONS:
            raise Invalid(field, f"{value!r} is not a whole number of partitions from 0 to {MAX_PARTITIONS}")
        return
    if field in SHARES:
        if not 0 <= value <= 1:
            raise Invalid(field, f"{value!r} is not a share from 0 to 1")
        return
    if value < 0:
        raise Invalid(field, f"{value!r} s is not possible; write 0 or more seconds")
