"""Blocking recovery: everything at once, when the last replacement has come (the baseline of
incremental-recovery, section 4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from domain.planning import Placement, natural_key, replacement_placement
from domain.recovery import wording
from domain.recovery.costs import Costs
from domain.recovery.incident import Deployment, NodeView, TopologyCase
from domain.recovery.method import Situation, Waiting, Wave, checkpoint_words, origin_of
from domain.recovery.policy import BLOCKING

ROUNDING = 1e-6


class Blocking:
    """Wait for as many empty nodes as were lost, then restore everything at once and roll back to the
    newest complete checkpoint."""

    name = BLOCKING

    def next_waves(self, cases: Sequence[TopologyCase], situation: Situation) -> Mapping[str, Wave | Waiting]:
        """Topologies do not share what is free: give one case at a time and carry its wave out first."""
        return {case.name: self.next_wave(case, situation) for case in cases}

    def next_wave(self, case: TopologyCase, situation: Situation) -> Wave | Waiting:
        expedited = case.name in situation.expedited
        wanted, spare = lost_homes(case, situation), spare_nodes(case, situation)
        if len(spare) < len(wanted) and situation.expected and not expedited:
            return Waiting(
                f"Waiting for replacement nodes: {len(spare)} of {len(wanted)} are here. "
                "The blocking method restores everything at once, when the last one has come."
            )
        deployment = situation.deployments[case.name]
        usable = situation.usable
        if not usable:
            return Waiting("No node is alive that could take partitions.", short=not situation.expected)
        placement = placement_of(case, situation, usable)
        restored = tuple(sorted(case.failed, key=natural_key))
        if placement.unplaced:
            return Waiting(
                f"{len(placement.unplaced)} of {wording.counted(len(case.failed), 'failed partition')} "
                f"{'does' if len(placement.unplaced) == 1 else 'do'} not fit on the "
                f"{wording.counted(len(usable), 'node')} that can take partitions without planning one above "
                f"{situation.max_utilisation:.0%} of its capacity.",
                short=not situation.expected,
            )
        # Partitions that still run stay, also where nothing new may be placed.
        assignment = {**deployment.assignment, **placement.placed}
        chosen = sorted({assignment[p] for p in restored}, key=natural_key)
        return Wave(
            method=self.name,
            assignment=assignment,
            restore=restored,
            queries=tuple(deployment.topology.failed_queries(restored)),
            rollback=True,
            checkpoint=origin_of(case, situation),
            reason=_reason(case, situation, restored, chosen, expedited),
            explanation={
                "method": self.name,
                "expedited": expedited,
                "checkpoint": origin_of(case, situation),
                "replacements": chosen,
                "planned_load_percent": {name: round(load, 1) for name, load in placement.load.items()},
                "max_utilisation": situation.max_utilisation,
                "placed": dict(placement.placed),
            },
        )


def lost_homes(case: TopologyCase, situation: Situation) -> set[str]:
    """Where the failed partitions of a topology ran, as far as those nodes are still lost."""
    deployment = situation.deployments[case.name]
    return {home for p in case.failed if (home := deployment.home(p)) is not None} & situation.lost


def spare_nodes(case: TopologyCase, situation: Situation) -> list[str]:
    """Usable nodes on which nothing of this topology runs or is to run."""
    occupied = set(situation.deployments[case.name].assignment.values())
    return [node.name for node in situation.usable if node.name not in occupied]


def everything_fits(case: TopologyCase, situation: Situation) -> bool:
    """Whether all failed partitions of a topology have room on the nodes there are."""
    return bool(situation.usable) and not placement_of(case, situation, situation.usable).unplaced


def placement_of(case: TopologyCase, situation: Situation, usable: list[NodeView]) -> Placement:
    """Place the failed partitions. Those whose node is usable stay if there is room: it may be a new
    process under the old name, or a discarded plan had chosen it, or only an executor died."""
    homes = situation.deployments[case.name].assignment
    placement = _place(case, situation, usable, homes)
    kept = {homes[p] for p in case.failed if p in homes and p not in placement.placed}
    limit = {node.name: node.capacity * situation.max_utilisation + ROUNDING for node in usable}
    if any(placement.load.get(node, 0.0) > limit.get(node, 0.0) for node in kept):
        return _place(case, situation, usable, {p: n for p, n in homes.items() if p not in case.failed})
    return placement


def _place(
    case: TopologyCase, situation: Situation, usable: list[NodeView], homes: Mapping[str, str]
) -> Placement:
    deployment = situation.deployments[case.name]
    usable_names = {node.name for node in usable}
    failed = {name: situation.failed(name) for name in situation.deployments}
    elsewhere = load_elsewhere(case.name, situation.deployments, situation.costs, failed)
    return replacement_placement(
        deployment.topology,
        homes,
        {homes[p] for p in case.failed if p in homes} - usable_names,
        [node.space(elsewhere.get(node.name, 0.0)) for node in usable],
        situation.costs[case.name],
        partitions=case.failed,
        max_utilisation=situation.max_utilisation,
        unmeasured={p for p in case.failed if deployment.costs.get(p, 0.0) <= 0.0},
    )


def load_elsewhere(
    name: str,
    deployments: Mapping[str, Deployment],
    costs: Costs,
    failed: Mapping[str, Collection[str]],
) -> dict[str, float]:
    """CPU percent that the other topologies plan on each node. failed: theirs, which take nothing."""
    load: dict[str, float] = {}
    for other, deployment in deployments.items():
        if other == name:
            continue
        gone = failed.get(other, ())
        for partition, node in deployment.assignment.items():
            if partition not in gone:
                load[node] = load.get(node, 0.0) + costs[other][partition]
    return load


def _reason(
    case: TopologyCase,
    situation: Situation,
    restored: Collection[str],
    chosen: Sequence[str],
    expedited: bool,
) -> str:
    deployment = situation.deployments[case.name]
    checkpoint = checkpoint_words(case, situation)
    if not restored:
        return f"All of {case.name} goes back to {checkpoint} and replays from there, as was asked."
    lost = sorted({home for p in restored if (home := deployment.home(p))}, key=natural_key)
    why = "the nodes with most free capacity"
    if expedited:
        why += " among those alive now, because an operator asked not to wait"
    text = (
        f"{wording.counted(len(restored), 'partition')} of {case.name} that ran on {', '.join(lost)} "
        f"{'goes' if len(restored) == 1 else 'go'} to {', '.join(chosen)}: "
        f"{why}. All of {case.name} goes back to {checkpoint} and replays from there."
    )
    return text + overload_words(case.name, situation)


def overload_words(topology: str, situation: Situation) -> str:
    """A remark where nodes carried more than may be planned: costs were then reduced to what they may."""
    load = situation.carried
    homes = set(situation.deployments[topology].homes.values()) & situation.nodes.keys()
    if all(load[home] < 0.999 * situation.nodes[home].limit(situation.max_utilisation) for home in homes):
        return ""
    return (
        f" Nodes carried the {situation.max_utilisation:.0%} that may be planned on one, or more, already "
        "before the failure; a replacement takes over what a lost node carried. Consider more nodes."
    )
