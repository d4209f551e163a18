"""A joint proposal of incremental recovery for some topologies: where partitions go, what that is worth."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from domain.planning import (
    Placement,
    QueryExplanation,
    RecoveryPlanProposal,
    RecoveryProblem,
    level_out,
    torn_chains,
)
from domain.recovery import wording
from domain.recovery.blocking import load_elsewhere
from domain.recovery.costs import full_name
from domain.recovery.homes import homeward
from domain.recovery.incident import TopologyCase
from domain.recovery.method import Situation, Waiting, Wave
from domain.recovery.pace import keeps_pace
from domain.recovery.wave_part import Part

SOME, MUCH = 0.5, 0.75
"""Shares of what may be planned on a node. It has little time left from the share on that all nodes would
have if the work were spread evenly, which counts from SOME to MUCH."""


@dataclass(frozen=True)
class Choice:
    """A joint proposal for some topologies. idle: by topology, what ran for nothing and was up for choice
    too. as_planned: what the planner has put together stays together. max_utilisation: share of a node that
    may be planned there; fuller_for: why, if that is more than usual. smaller: topologies of which less was
    chosen than there is room for, to keep pace. decided: where everything goes, if that is settled."""

    cases: Sequence[TopologyCase]
    situation: Situation
    problem: RecoveryProblem
    proposal: RecoveryPlanProposal
    idle: Mapping[str, set[str]]
    max_utilisation: float
    as_planned: bool = False
    fuller_for: str = ""
    smaller: frozenset[str] = frozenset()
    decided: Placement | None = None

    @property
    def torn(self) -> int:
        """How many chains have members on more than one node."""
        return torn_chains(self.problem, self.placement.assignment)

    def most_on(self, node: str) -> float:
        """The share of a node that may be planned there."""
        limited = node in self.situation.at_limit
        return self.situation.max_utilisation if limited else self.max_utilisation

    @property
    def useful(self) -> bool:
        stops = any(part.stop and part.assignment for part in self._parts.values())
        return (_worth_a_wave(self.proposal) and self.acts) or stops

    @property
    def acts(self) -> bool:
        """Whether anything would be restored or stopped."""
        return any(part.acts for part in self._parts.values())

    @property
    def value(self) -> float:
        """Points that it wins back, less those of tentative output that stops; nothing where a topology would
        be left without any partition, since its driver could not tell that from a plan whose nodes are
        missing."""
        if not any(self.idle.values()):
            return self.proposal.value
        useful = self.acts and all(part.assignment for part in self._parts.values())
        return self.proposal.value - sum(p.lost for p in self._parts.values()) if useful else 0.0

    def too_slow(self, situation: Situation) -> frozenset[str]:
        """The topologies that would not keep pace with their wave, as far as that is known. situation: with
        costs without a reserve."""
        return frozenset(
            name
            for name, part in self._parts.items()
            if part.acts
            and name not in situation.expedited
            and not keeps_pace(
                part.deployment,
                part.assignment,
                part.running,
                situation.costs[name],
                situation.nodes,
                beside=part.answers and part.case.wave > 0,
            )
        )

    @property
    def busy(self) -> set[str]:
        """Nodes that have little time left beside what runs there, where waves were applied before: a replay
        would make late what these brought back."""
        if not any(case.wave for case in self.cases):
            return set()
        situation = self.situation
        down = {name: situation.down(name) for name in situation.deployments}
        planned = load_elsewhere("", situation.deployments, situation.costs, down)
        used = {n.name: n.load + planned.get(n.name, 0.0) for n in situation.usable}
        capacity = sum(n.capacity for n in situation.usable)
        even = (sum(used.values()) + self.proposal.cost) / capacity if capacity else 0.0
        limit = situation.max_utilisation
        share = min(max(even, SOME * limit), MUCH * limit)
        return {n.name for n in situation.usable if used[n.name] >= share * n.capacity}

    @property
    def answering(self) -> frozenset[str]:
        """The topologies of which a query gives output now."""
        return frozenset(name for name, part in self._parts.items() if part.answers)

    def waves(self) -> Mapping[str, Wave | Waiting]:
        return {name: part.wave() if part.acts else self._waits(name) for name, part in self._parts.items()}

    def _waits(self, topology: str) -> Waiting:
        if topology in self.smaller:
            return waits_for_nodes(topology, self.situation.expected)
        return Waiting(f"No room yet for another query of {topology}.")

    @cached_property
    def _parts(self) -> dict[str, Part]:
        return {
            case.name: Part(
                case,
                self.situation,
                self.proposal,
                self.placement,
                points=self.problem.points,
                max_utilisation=self.max_utilisation,
                idle=self.idle[case.name],
                notes=self._notes(case.name),
            )
            for case in self.cases
        }

    def at_costs(
        self, problem: RecoveryProblem, situation: Situation, factors: Mapping[str, float]
    ) -> Choice:
        """The same choice, told in costs as they are. problem, situation: with these. factors: by topology,
        how many times as much partitions that are down counted for."""
        load = {node.name: node.load for node in problem.nodes}
        for partition, node in self.placement.assignment.items():
            if node in load:
                load[node] += problem.placed_costs[partition]
        chosen = self.proposal.partitions
        explanations = tuple(_divided(one, factors) for one in self.proposal.explanations)
        cost = sum(problem.placed_costs[partition] for partition in chosen)
        proposal = replace(self.proposal, cost=cost, explanations=explanations)
        decided = replace(self.placement, load=load)
        return replace(self, problem=problem, situation=situation, proposal=proposal, decided=decided)

    def _notes(self, topology: str) -> list[str]:
        usual, notes = self.situation.max_utilisation, []
        if self.max_utilisation > usual:
            notes.append(
                f"Nodes are planned to {self.max_utilisation:.0%} of their CPU instead of {usual:.0%}, so "
                f"that {self.fuller_for}."
            )
        if topology in self.smaller:
            notes.append("With more of its queries, epochs would take longer than their input lasts.")
        return notes

    @cached_property
    def placement(self) -> Placement:
        return self.decided or _placed(self)


def _placed(choice: Choice) -> Placement:
    """Where the plan puts its partitions: those that run, or whose node came back, there; the others where
    they make epochs least longer, or where the planner has put them."""
    problem, situation, placement = choice.problem, choice.situation, choice.proposal.placement
    if placement is None:  # only a problem without nodes is not placed
        raise ValueError(f"planner {choice.proposal.planner!r} has placed nothing")
    closed = choice.busy
    placement = homeward(
        placement,
        homes=_homes(situation, closed),
        costs=problem.placed_costs,
        limits={node.name: node.capacity * choice.most_on(node.name) for node in situation.usable},
        running={
            full_name(name, partition)
            for name, deployment in situation.deployments.items()
            for partition in deployment.assignment.keys() - situation.down(name)
        },
        chains=problem.affinity if choice.as_planned else (),
    )
    if choice.as_planned:
        return placement
    return level_out(problem, placement, fixed=at_home(situation, placement, closed), closed=closed)


def _homes(situation: Situation, closed: Collection[str]) -> dict[str, str]:
    """Where partitions belong. What does not run, and so has to replay, does not belong to `closed` nodes."""
    found: dict[str, str] = {}
    for name, deployment in situation.deployments.items():
        down = situation.down(name)
        for partition in deployment.topology.partitions:
            home = deployment.home(partition)
            replays = partition in down or partition not in deployment.assignment
            if home is not None and not (replays and home in closed):
                found[full_name(name, partition)] = home
    return found


def at_home(situation: Situation, placement: Placement, closed: Collection[str]) -> set[str]:
    homes = _homes(situation, closed)
    return {p for p, node in placement.placed.items() if homes.get(p) == node}


def _worth_a_wave(proposal: RecoveryPlanProposal) -> bool:
    """A query comes back, or only partitions that no query needs are left; the operator-centric baseline
    knows no queries."""
    if proposal.queries or not proposal.partitions:
        return bool(proposal.partitions)
    return not proposal.explanations or proposal.planner == "operator_centric"


def _divided(one: QueryExplanation, factors: Mapping[str, float]) -> QueryExplanation:
    factor = factors[one.query.rpartition("/")[0]]
    density = one.density if one.density is None else one.density * factor
    return replace(one, cost=one.cost / factor, marginal_cost=one.marginal_cost / factor, density=density)


def waits_for_nodes(topology: str, expected: int) -> Waiting:
    """What would fit, but would make everything late, waits for the nodes that are expected."""
    return Waiting(
        f"With another query of {topology} its epochs would take longer than their input lasts, so the rest "
        f"waits for {wording.counted(expected, 'node')} that {'is' if expected == 1 else 'are'} expected."
    )
