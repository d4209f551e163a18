"""How an incident is recovered: the decision when to plan, and what.

A method looks at a `Situation` and answers with a `Wave` to carry out now or with a `Waiting` that says
for what. It keeps no state: the machine asks again whenever something changes. Blocking recovery gives one
wave that restores everything; incremental recovery will give one per arrival that restores a part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from controlplane.domain.planning import (
    NodeSpace,
    Placement,
    effective_costs,
    natural_key,
    replacement_placement,
)
from controlplane.domain.recovery.incident import Deployment, NodeView, TopologyCase


@dataclass(slots=True, kw_only=True)
class Situation:
    """What a method decides upon.

    lost: nodes given up and not returned, for which replacements are awaited.
    expected: replacements asked for that have neither come nor failed.
    expedited: topologies for which an operator wants the nodes there are to be used now.
    """

    cases: Mapping[str, TopologyCase]
    deployments: Mapping[str, Deployment]
    nodes: Mapping[str, NodeView]
    lost: frozenset[str]
    expected: int
    expedited: frozenset[str]
    max_utilisation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """New assignment of one topology; `restore` are the partitions brought back by it."""

    assignment: Mapping[str, str]
    restore: tuple[str, ...]
    rollback: bool
    checkpoint: int
    reason: str
    explanation: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not yet; `reason` is a sentence for the operator. `short`: what is alive and expected is not enough,
    so a further node has to be asked for."""

    reason: str
    short: bool = False


class Method(Protocol):
    name: str

    def next_wave(self, case: TopologyCase, situation: Situation) -> Wave | Waiting:
        """What to do now for one topology whose phase is `failed`."""


class Blocking:
    """Wait for as many empty nodes as were lost, then restore everything at once and roll back to the
    newest complete checkpoint (the baseline of incremental-recovery, section 4)."""

    name = "blocking"

    def next_wave(self, case: TopologyCase, situation: Situation) -> Wave | Waiting:
        expedited = case.name in situation.expedited
        wanted, spare = lost_homes(case, situation), spare_nodes(case, situation)
        if len(spare) < len(wanted) and situation.expected and not expedited:
            return Waiting(
                f"Waiting for replacement nodes: {len(spare)} of {len(wanted)} are here. "
                "The blocking method restores everything at once, when the last one has come."
            )
        deployment = situation.deployments[case.name]
        usable = sorted((n for n in situation.nodes.values() if n.usable), key=lambda n: natural_key(n.name))
        if not usable:
            return Waiting("No node is alive that could take partitions.", short=not situation.expected)
        placement, scale = _placement(case, situation, usable)
        restored = tuple(sorted(case.failed, key=natural_key))
        if placement.unplaced:
            return Waiting(
                f"{len(placement.unplaced)} of {len(case.failed)} failed partitions do not fit on the "
                f"{len(usable)} nodes alive without planning one above "
                f"{situation.max_utilisation:.0%} of its capacity.",
                short=not situation.expected,
            )
        # Partitions that still run stay, also where nothing new may be placed.
        assignment = {**deployment.assignment, **placement.placed}
        chosen = sorted({assignment[p] for p in restored}, key=natural_key)
        reason = _reason(case, deployment, situation, restored, chosen, expedited, scale)
        return Wave(
            assignment=assignment,
            restore=restored,
            rollback=True,
            checkpoint=deployment.latest,
            reason=reason,
            explanation={
                "method": self.name,
                "expedited": expedited,
                "checkpoint": deployment.latest,
                "replacements": chosen,
                "planned_load_percent": {name: round(load, 1) for name, load in placement.load.items()},
                "max_utilisation": situation.max_utilisation,
                "cost_scale": round(scale, 3),
                "placed": dict(placement.placed),
            },
        )


def lost_homes(case: TopologyCase, situation: Situation) -> set[str]:
    """Where the failed partitions of a topology ran, as far as those nodes are still lost."""
    assignment = situation.deployments[case.name].assignment
    return {assignment[p] for p in case.failed if p in assignment} & situation.lost


def spare_nodes(case: TopologyCase, situation: Situation) -> list[str]:
    """Usable nodes on which nothing of this topology runs or is to run."""
    assignment = situation.deployments[case.name].assignment
    occupied = set(assignment.values())
    spare = (node.name for node in situation.nodes.values() if node.usable and node.name not in occupied)
    return sorted(spare, key=natural_key)


def _failed(situation: Situation, topology: str) -> set[str]:
    case = situation.cases.get(topology)
    return case.failed if case is not None else set()


def _placement(case: TopologyCase, situation: Situation, usable: list[NodeView]) -> tuple[Placement, float]:
    """Place the failed partitions; retry with costs scaled to what the nodes carried before.

    Costs above the bound already before the failure (a topology that runs as fast as it can) must not
    keep an incident open for ever: then nobody gets more than the lost nodes had.
    """
    deployment = situation.deployments[case.name]
    # Failed partitions whose node is usable stay: it may be a new process under the old name, or a plan
    # that was superseded had chosen it, or only an executor had died.
    homes = deployment.assignment
    usable_names = {node.name for node in usable}
    lost = {homes[p] for p in case.failed if p in homes} - usable_names
    elsewhere = _load_elsewhere(case.name, situation)

    def attempt(scale: float) -> Placement:
        return replacement_placement(
            deployment.topology,
            homes,
            lost,
            [
                NodeSpace(name=n.name, capacity=n.capacity, load=elsewhere.get(n.name, 0.0) * scale)
                for n in usable
            ],
            {partition: cost * scale for partition, cost in deployment.costs.items()},
            partitions=case.failed,
            max_utilisation=situation.max_utilisation,
        )

    placement = attempt(1.0)
    if not placement.unplaced:
        return placement, 1.0
    scale = _overload_scale(case.name, situation, homes, elsewhere)
    if scale >= 1.0:
        return placement, 1.0
    scaled = attempt(scale)
    return (scaled, scale) if not scaled.unplaced else (placement, 1.0)


def _load_elsewhere(name: str, situation: Situation) -> dict[str, float]:
    """CPU percent that the other topologies plan on each node."""
    load: dict[str, float] = {}
    for other, deployment in situation.deployments.items():
        if other == name:
            continue
        failed = _failed(situation, other)
        for partition, node in deployment.assignment.items():
            if partition not in failed:
                load[node] = load.get(node, 0.0) + deployment.costs.get(partition, 0.0)
    return load


def _overload_scale(
    name: str, situation: Situation, homes: Mapping[str, str], elsewhere: Mapping[str, float]
) -> float:
    """By what to multiply costs so that no node was above the bound before the failure."""
    deployment = situation.deployments[name]
    usable = [NodeSpace(name=n.name, capacity=n.capacity) for n in situation.nodes.values() if n.usable]
    costs = effective_costs(partitions=homes, nodes=usable, costs=deployment.costs)
    load: dict[str, float] = {}
    for partition, node in homes.items():
        load[node] = load.get(node, elsewhere.get(node, 0.0)) + costs[partition]
    ratios = [
        total / (situation.nodes[node].capacity * situation.max_utilisation)
        for node, total in load.items()
        if node in situation.nodes
    ]
    return min(1.0, 0.999 / max(ratios, default=1.0))


def _reason(
    case: TopologyCase,
    deployment: Deployment,
    situation: Situation,
    restored: tuple[str, ...],
    chosen: list[str],
    expedited: bool,
    scale: float,
) -> str:
    checkpoint = (
        f"checkpoint {deployment.latest}, the newest that every partition completed"
        if deployment.latest
        else "the empty state, because no checkpoint is complete yet"
    )
    if not restored:
        return f"All of {case.name} goes back to {checkpoint} and replays from there, as was asked."
    lost = sorted({deployment.assignment[p] for p in restored if p in deployment.assignment}, key=natural_key)
    why = "the nodes with most free capacity"
    if expedited:
        why += " among those alive now, because an operator asked not to wait"
    text = (
        f"{len(restored)} partitions of {case.name} that ran on {', '.join(lost)} go to {', '.join(chosen)}: "
        f"{why}. All of {case.name} goes back to {checkpoint} and replays from there."
    )
    if scale < 1.0:
        text += (
            f" Measured load was above {situation.max_utilisation:.0%} of a node already before the failure; "
            "each replacement takes over no more than a lost node carried. Consider more nodes."
        )
    return text
