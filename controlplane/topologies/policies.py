"""How a topology is to be recovered: its policy, and what a policy may say."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from django.conf import settings

from controlplane.errors import Invalid
from controlplane.topologies.choices import Desired, TentativeOutput
from controlplane.topologies.models import Topology
from controlplane.topologies.representation import POLICY_FIELDS
from domain.recovery.policy import RecoveryPolicy
from domain.topology import Topology as Graph
from domain.topology.spec import MAX_PARTITIONS

HIGHEST_THRESHOLD = 100_000


class _Range(NamedTuple):
    """The numbers that a field may have, and what is said of any other."""

    low: float
    high: float
    wrong: str
    whole: bool = False


_SHARE = _Range(0, 1, "is not a share from 0 to 1")
_RANGES = {
    "correlation_threshold": _Range(
        1, HIGHEST_THRESHOLD, f"is not a whole number of nodes from 1 to {HIGHEST_THRESHOLD}", whole=True
    ),
    "correlation_window": _Range(0, math.inf, "s is not possible; write 0 or more seconds"),
    "replication_budget": _Range(
        0, MAX_PARTITIONS, f"is not a whole number of partitions from 0 to {MAX_PARTITIONS}", whole=True
    ),
    "tentative_fidelity": _SHARE,
    "tentative_worth": _SHARE,
}
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
        raise Invalid(
            "replication_mode",
            f"replicas of {graph.name} cannot run, because {_unrepeatable(graph)} may give other rows for "
            "the same input: a replica would come to be in another state",
        )


def tentative_require(graph: Graph, changes: Mapping[str, Any]) -> None:
    """Raise `Invalid` unless this topology can give tentative output as these fields of its policy say."""
    queries = [one.name for one in graph.outputs]
    if changes.get("tentative_output") == TentativeOutput.ON and (why := _never_tentative(graph, queries)):
        raise Invalid("tentative_output", f"queries of {graph.name} {why}")
    for name in changes.get("tentative_except", ()):
        if name not in queries:
            raise Invalid("tentative_except", f"{name!r} is no query; there are {', '.join(queries)}")


def _never_tentative(graph: Graph, queries: Collection[str]) -> str:
    """Why none of these output operators can give tentative output, or ""."""
    if graph.spec.bounded:
        return (
            "give no tentative output, because its guarantee is bounded: they go on without lost inputs "
            "anyway, and no final rows come later"
        )
    if not graph.deterministic:
        return (
            f"cannot go on without lost inputs, because {_unrepeatable(graph)} may give other rows for the "
            "same input: all partitions start again from the checkpoint"
        )
    if graph.in_or_below_cycles.issuperset(queries):
        return (
            "cannot go on without lost inputs, because all of them are in a cycle or below one: tentative "
            "rows would go round and never become exact"
        )
    return ""


def _unrepeatable(graph: Graph) -> str:
    return ", ".join(one.name for one in graph.operators if not one.repeatable)


def tentative_above(topology: Topology, graph: Graph) -> dict[str, float]:
    """Operators whose queries go on without lost inputs -> the fidelity that their output must be above."""
    if topology.tentative_output != TentativeOutput.ON or topology.desired == Desired.STOPPED:
        return {}
    if not graph.deterministic or graph.spec.bounded:
        return {}
    return {
        operator.name: topology.tentative_fidelity
        for operator in graph.outputs
        if operator.name not in {*topology.tentative_except, *graph.in_or_below_cycles}
    }


def policy_require(field: str, value: Any) -> None:
    """Raise `Invalid` unless the policy may have this value."""
    if field not in POLICY_FIELDS:
        raise Invalid(field, f"a policy has no field {field!r}; it has {', '.join(POLICY_FIELDS)}")
    column = Topology._meta.get_field(field)
    if column.choices:
        names = [name for name, _ in column.flatchoices]
        if value not in names:
            raise Invalid(field, f"{value!r} is not one of {', '.join(names)}")
    elif field in _RANGES:
        if value is not None or not column.null:
            _number_require(field, value, _RANGES[field])
    elif not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise Invalid(field, f"{value!r} is not a list of names of operators")


def _number_require(field: str, value: Any, of: _Range) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Invalid(field, f"{value!r} is not a number")
    if not of.low <= value <= of.high or (of.whole and value != int(value)):
        raise Invalid(field, f"{value!r} {of.wrong}")
