"""What a joint proposal of incremental recovery means for one topology: its wave, and the words for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from domain.planning import Placement, RecoveryPlanProposal, cores, cores_number, natural_key
from domain.recovery import wording
from domain.recovery.blocking import overload_words
from domain.recovery.costs import full_name
from domain.recovery.incident import TopologyCase
from domain.recovery.method import Situation, Wave, checkpoint_words, origin_of
from domain.recovery.policy import INCREMENTAL


@lru_cache(maxsize=4)
def _by_topology(names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Full names -> what they name of each topology; every part of a joint proposal asks for its own."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        topology, _, own = name.partition("/")
        found[topology].append(own)
    return {topology: tuple(own) for topology, own in found.items()}


class Part:
    """What a joint proposal means for one topology. points: of priority, for 1 of a query's priority. idle:
    what ran for nothing and was up for choice too. notes: sentences that the reason of the plan has besides.
    """

    def __init__(
        self,
        case: TopologyCase,
        situation: Situation,
        proposal: RecoveryPlanProposal,
        placement: Placement,
        *,
        points: int,
        max_utilisation: float,
        idle: set[str],
        notes: Sequence[str],
    ) -> None:
        self.case, self.situation, self.proposal, self.placement = case, situation, proposal, placement
        self.points, self.max_utilisation, self.notes = points, max_utilisation, notes
        self.deployment = situation.deployments[case.name]
        chosen = self._mine(proposal.partitions)
        self.placed = {p: self.placement.placed[full_name(case.name, p)] for p in chosen}
        stays = {p for p in idle if self.placed.get(p) == self.deployment.assignment[p]}
        self.restore = tuple(p for p in chosen if p not in stays)
        self.held = held = situation.held(case.name)
        self.stop = held & self.deployment.assignment.keys()
        """What runs and belongs to parked queries only."""
        self.parked = tuple(sorted(idle.difference(chosen) | self.stop, key=natural_key))
        self.queries = self._mine(proposal.queries)
        gone = situation.down(case.name) | idle | held
        self.running = {p: node for p, node in self.deployment.assignment.items() if p not in gone}
        self.assignment = {**self.running, **self.placed}

    def _mine(self, names: Sequence[str]) -> tuple[str, ...]:
        return _by_topology(tuple(names)).get(self.case.name, ())

    @property
    def answers(self) -> bool:
        """Whether a query has all that it needs now."""
        running = self.running.keys()
        return any(needed <= running for needed in self.deployment.topology.query_partitions.values())

    @property
    def lost(self) -> float:
        """Points of queries whose tentative output stops, and that do not return."""
        deployment = self.deployment
        if deployment.tentative is None:
            return 0.0
        after = deployment.tentative.counted(self.assignment.keys())
        return self.points * sum(
            max(0.0, share - after.get(query, 0.0))
            * deployment.priorities.get(query, deployment.topology.priority(query))
            for query, share in self.situation.tentative(self.case.name).items()
            if query not in self.queries
        )

    @property
    def acts(self) -> bool:
        """Whether anything would be restored or stopped. A driver cannot tell a plan that runs nothing from
        one whose nodes are missing, so something has to be left."""
        return bool(self.restore or (self.parked and self.assignment))

    @property
    def rollback(self) -> bool:
        """The first wave of `global` undoes everything, as in the paper; a topology that is not deterministic
        cannot do without in any wave, because its replays differ from what was seen."""
        policy = self.deployment.policy
        first = policy.rollback == "global" and not self.case.applied
        asked = self.case.rollback_pending or self.case.forced or self.case.origin is not None
        if not self.restore:
            return asked  # what only stops disturbs nothing
        return first or asked or not self.deployment.topology.deterministic

    def wave(self) -> Wave:
        mine = {p: self.placed[p] for p in self.restore}
        left = sorted({*self.case.failed.difference(self.restore), *self.parked}, key=natural_key)
        return Wave(
            method=INCREMENTAL,
            assignment=self.assignment,
            restore=self.restore,
            queries=self.queries,
            parked=self.parked,
            rollback=self.rollback,
            buffering=True,
            checkpoint=origin_of(self.case, self.situation),
            reason=self._reason(mine, left),
            explanation={
                "method": INCREMENTAL,
                "planner": self.proposal.planner,
                "topologies": sorted(self.situation.cases),
                "checkpoint": origin_of(self.case, self.situation),
                "queries": list(self.queries),
                "left": left,
                "parked": list(self.parked),
                "value": self._priority(self.proposal.value),
                "total": self._priority(self.proposal.total),
                "cost_percent": self.proposal.cost,
                "capacity_percent": self.proposal.capacity,
                "gap": self.proposal.gap,
                "proven": self.proposal.proven,
                "candidates": self.proposal.candidates,
                "alternatives": self._alternatives(),
                "note": self.proposal.note,
                "max_utilisation": round(self.max_utilisation, 4),
                "planned_load_percent": self._load(),
                "placed": mine,
                "explanations": self._explanations(),
            },
        )

    def _priority(self, points: int) -> float:
        """Points in units of priority; a whole number where all queries count for theirs."""
        return points if self.points == 1 else round(points / self.points, 2)

    def _alternatives(self) -> list[dict[str, Any]]:
        """Of its queries. With those of hundreds of topologies, each plan would name all that are down."""
        return [
            {
                "queries": list(self._mine(one["queries"])),
                "value": self._priority(one["value"]),
                "cost": one["cost"],
            }
            for one in self.proposal.alternatives
        ]

    def _load(self) -> dict[str, float]:
        """Of the nodes on which the topology runs."""
        nodes = {*self.assignment.values()}
        return {name: round(load, 1) for name, load in self.placement.load.items() if name in nodes}

    def _explanations(self) -> list[dict[str, Any]]:
        prefix, tentative = full_name(self.case.name, ""), self.situation.tentative(self.case.name)
        return [
            {
                "query": one.query.removeprefix(prefix),
                "priority": self._priority(one.priority),
                "tentative": round(tentative.get(one.query.removeprefix(prefix), 0.0), 4),
                "selected": one.selected,
                "rank": one.rank,
                "cost": one.cost,
                "marginal_cost": one.marginal_cost,
                "failed_partitions": one.failed_partitions,
                "shared": one.shared,
                "density": one.density if one.density is None else one.density / self.points,
                "reason": one.reason,
            }
            for one in self.proposal.explanations
            if one.query.startswith(prefix)
        ]

    def _reason(self, placed: Mapping[str, str], left: Sequence[str]) -> str:
        proposal, name = self.proposal, self.case.name
        if self.stop and not placed:
            stops = "stops" if len(self.stop) == 1 else "stop"
            what = f"{wording.listed(self.stop)} {stops}"
            return f"{what}: only parked queries of {name} need that. Everything else keeps running."
        back = f"no query of {name} returns yet"
        if len(self.queries) == 1:
            back = f"query {self.queries[0]} of {name} returns"
        elif self.queries:
            back = f"queries {wording.listed(self.queries)} of {name} return"
        if placed:
            nodes = wording.listed(set(placed.values()))
            back = f"{back}: {wording.counted(len(placed), 'partition')} on {nodes}"
        text = (
            f"{back}. This wave wins back {self._priority(proposal.value):g} of the "
            f"{self._priority(proposal.total):g} points of priority that are down and takes "
            f"{cores_number(proposal.cost)} of the {cores(proposal.capacity)} that are free "
            f"(planner: {proposal.planner.replace('_', ' ')})."
        )
        if self.points > 1:
            text += " Queries with tentative output count for what they lack."
        text = " ".join((text, *self.notes))
        idle = [p for p in self.parked if p not in self.stop]
        if idle:
            stop = "stops" if len(idle) == 1 else "stop"
            text += f" To make room, {wording.listed(idle)} {stop}: all queries that need them are down."
        down = set(left) - self.held
        if down:
            text += (
                f" {wording.counted(len(down), 'partition')} of {name} stay down until further nodes join."
            )
        start = checkpoint_words(self.case, self.situation)
        if self.rollback:
            text += f" All running partitions of {name} go back to {start}."
        else:
            text += f" Restored partitions start from {start}; running ones are not affected."
        return text + overload_words(name, self.situation)
