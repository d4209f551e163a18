"""Moving partitions that run: off a node that is being drained, or to even out the nodes.

They take their state with them (`domain.execution.instructions.HandOver`), so nothing is put back and no
query waits for a replay.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from domain.planning import balancing_moves, natural_key
from domain.planning.balance import MOST_MOVES, WORTHWHILE
from domain.planning.racks import RackTerms
from domain.recovery import wording
from domain.recovery.blocking import ROUNDING, load_elsewhere, placement_of
from domain.recovery.costs import Costs
from domain.recovery.incident import Deployment, NodeView, TopologyCase
from domain.recovery.method import Situation, Waiting, Wave
from domain.recovery.policy import MOVE

UNASKED = 0.25
"""Share of an epoch's time that moves by policy must save."""
UNASKED_LEAST = 0.03
"""And seconds of each second of epochs."""


class Move:
    """One wave moves all that is to move and has room. It waits for no replacement: what runs goes on."""

    name = MOVE

    def next_waves(self, cases: Sequence[TopologyCase], situation: Situation) -> Mapping[str, Wave | Waiting]:
        """Topologies do not share what is free: give one case at a time and carry its wave out first."""
        return {case.name: self.next_wave(case, situation) for case in cases}

    def next_wave(self, case: TopologyCase, situation: Situation) -> Wave | Waiting:
        deployment = situation.deployments[case.name]
        usable = situation.usable
        if not usable:
            return Waiting("No node is alive that could take partitions.", short=not situation.expected)
        down = situation.down(case.name)
        if case.failed - situation.held(case.name) - (down if case.moves else set()):
            placement = placement_of(case, situation, usable)
            placed = dict(placement.placed)
            if not placed:
                return Waiting(
                    f"{wording.counted(len(case.failed), 'partition')} to move, and the "
                    f"{wording.counted(len(usable), 'other node')} would be planned above "
                    f"{situation.max_utilisation:.0%} of capacity with any of them.",
                    short=not situation.expected,
                )
        else:
            placed = possible_moves(case, situation)
        moved = tuple(sorted(placed, key=natural_key))
        return Wave(
            method=self.name,
            assignment={**{p: n for p, n in deployment.assignment.items() if p not in down}, **placed},
            restore=moved,
            rollback=False,
            checkpoint=deployment.latest,
            reason=_reason(case, deployment, placed, down),
            explanation={
                "method": self.name,
                "max_utilisation": situation.max_utilisation,
                "placed": {p: placed[p] for p in moved},
                "moved_from": {p: deployment.assignment[p] for p in moved},
            },
        )


def possible_moves(case: TopologyCase, situation: Situation) -> dict[str, str]:
    """Those of the wanted moves for which there is room on a node that can take partitions."""
    deployment, costs = situation.deployments[case.name], situation.costs[case.name]
    failed = {name: situation.failed(name) for name in situation.deployments}
    load = load_elsewhere(case.name, situation.deployments, situation.costs, failed)
    for partition, node in deployment.assignment.items():
        load[node] = load.get(node, 0.0) + costs[partition]
    limits = {node.name: node.limit(situation.max_utilisation) for node in situation.usable}
    before, placed = dict(load), dict[str, str]()
    for partition, node in sorted(case.moves.items(), key=lambda move: natural_key(move[0])):
        home = deployment.assignment.get(partition)
        if home is not None and home != node and node in limits:
            placed[partition] = node
            load[node] = load.get(node, 0.0) + costs[partition]
            load[home] -= costs[partition]
    while placed:
        # All of them take effect at once, so only what nodes have in the end counts: two may change places.
        full = {
            node
            for node in placed.values()
            if load[node] > max(limits[node], before.get(node, 0.0)) + ROUNDING
        }
        stays = next((p for p in reversed(placed) if placed[p] in full), None)
        if stays is None:
            break
        load[placed.pop(stays)] -= costs[stays]
        load[deployment.assignment[stays]] += costs[stays]
    return placed


def _reason(case: TopologyCase, deployment: Deployment, placed: Mapping[str, str], down: set[str]) -> str:
    left = len(case.failed - placed.keys() - down)
    they = "It keeps its state and continues." if len(placed) == 1 else "They keep their state and continue."
    text = f"{moves_words(case.name, deployment.assignment, placed)} {they}"
    return f"{text} {wording.counted(left, 'partition')} cannot move yet." if left else text


def moves_words(topology: str, assignment: Mapping[str, str], moves: Mapping[str, str]) -> str:
    """`4 partitions of counts move from node-1 to node-5 and node-6.`"""
    start = wording.listed({assignment[p] for p in moves})
    what = wording.counted(len(moves), f"partition of {topology} moves", f"partitions of {topology} move")
    return f"{what} from {start} to {wording.listed(set(moves.values()))}."


def _without(
    planned: Mapping[str, float], deployment: Deployment, costs: Mapping[str, float]
) -> dict[str, float]:
    elsewhere = dict(planned)
    for partition, node in deployment.assignment.items():
        elsewhere[node] = max(0.0, elsewhere[node] - costs[partition])
    return elsewhere


def even_out(
    name: str,
    *,
    deployments: Mapping[str, Deployment],
    usable: Collection[NodeView],
    costs: Costs,
    max_utilisation: float,
    failed: Mapping[str, Collection[str]],
    asked: bool = True,
    rack_price: float = 0.0,
    most: int = MOST_MOVES,
    movable: Collection[str] | None = None,
    planned: Mapping[str, float] | None = None,
) -> dict[str, str]:
    """Which partitions of a topology should go to which node, for its epochs to take less time and the loss
    of a rack to take down less; empty if no move is worth it. failed: by topology, what takes no room
    although it is assigned. asked: by an operator or a recovery. Otherwise much more must be gained, since
    what is measured varies. rack_price: `RackTerms.price`; 0 while a recovery needs the time. most: moves.
    movable: the partitions that may move, None for all. planned: what all topologies together plan on each
    node, for callers that ask for one topology after the other.
    """
    deployment = deployments[name]
    if planned is None:
        elsewhere = load_elsewhere(name, deployments, costs, failed)
    else:
        elsewhere = _without(planned, deployment, costs[name])
    spaces = [node.space(elsewhere.get(node.name, 0.0)) for node in usable]
    gone = failed.get(name, ())
    running = {p: node for p, node in deployment.assignment.items() if p not in gone}
    return balancing_moves(
        deployment.topology,
        running,
        spaces,
        costs[name],
        max_utilisation=max_utilisation,
        worthwhile=WORTHWHILE if asked else UNASKED,
        least=0.0 if asked else UNASKED_LEAST,
        most=most,
        movable=movable,
        racks=RackTerms(
            of={node.name: node.rack for node in usable}, priorities=deployment.priorities, price=rack_price
        ),
    )
