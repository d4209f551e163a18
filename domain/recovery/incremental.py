"""Incremental, query-centric recovery (incremental-recovery, sections 4.4 and 5).

With every look, what is free on the nodes there are is given to the failed partitions of those queries that
are worth most for it, over all topologies of the incident at once. The rest waits for the next node and is
left out of the assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from domain.planning import (
    Arrival,
    LookAhead,
    NodeSpace,
    Placement,
    Planner,
    RecoveryPlanProposal,
    RecoveryProblem,
    TooManyPlansError,
    cores,
    cores_number,
    epoch_cost,
    level_out,
    natural_key,
    place,
    planner_named,
    recovery_problem,
    rejoined,
    torn_chains,
    with_whole_chains,
)
from domain.recovery import wording
from domain.recovery.blocking import overload_words
from domain.recovery.costs import full_name
from domain.recovery.homes import homeward
from domain.recovery.incident import TopologyCase
from domain.recovery.method import Situation, Waiting, Wave, checkpoint_words, origin_of
from domain.recovery.pace import keeps_pace
from domain.recovery.policy import INCREMENTAL
from domain.recovery.reserve import reserves, with_reserve

FALLBACK = "best_density"
WORTH_WHOLE = 0.5
"""Share of the priority that a plan with whole chains has to win back, of what one that tears some does."""
FULLER = 1.1
"""How much of what may be planned on a node, at most, where that keeps chains whole, or makes epochs much
shorter: 0.88 instead of 0.8."""
TRIES, LESS = 8, 1.1
"""How often a wave that would not keep pace is planned again, and how many times smaller at least."""
ROUNDING = 1.01
SHORTER = 0.9
"""Share of an epoch's time that is much shorter. A stage lasts as long as its busiest node works, and on
nodes that are filled to the brim nothing can change its place."""


def planner_for(name: str, arrivals: Sequence[Arrival]) -> Planner:
    """The planner of that name; `look_ahead` learns when further nodes are expected."""
    return LookAhead(arrivals=tuple(arrivals)) if name == LookAhead.name else planner_named(name)


@dataclass(frozen=True)
class Incremental:
    """planner_of: makes the planner from its name and the expected arrivals; simulations give their own,
    whose limits do not depend on the machine."""

    planner_of: Callable[[str, Sequence[Arrival]], Planner] = planner_for
    name: str = INCREMENTAL

    def next_waves(self, cases: Sequence[TopologyCase], situation: Situation) -> Mapping[str, Wave | Waiting]:
        if not cases:
            return {}
        usable = situation.usable
        if not usable:
            return _all_wait(cases, situation, "No node is alive that could take partitions.")
        down = {case.name: situation.down(case.name) - situation.held(case.name) for case in cases}
        # What still runs, on a node that is being drained, moves when everything else is back.
        wanted = (
            down
            if any(down.values())
            else {case.name: case.failed - situation.held(case.name) for case in cases}
        )
        for reserve in reserves(cases, situation):
            reserved = with_reserve(situation, down, dict.fromkeys(down, reserve))
            choice = self._best(wanted, cases, reserved, park=reserve == 1.0)
            if choice.useful and situation.expected:
                return self._in_time(choice, wanted, cases, situation, down, reserve)
            if choice.useful:
                return choice.waves()
        if not any(wanted.values()):
            return {case.name: self._parked(case, situation) for case in cases}
        return _all_wait(cases, situation, _no_room(choice.proposal, len(usable)))

    def _parked(self, case: TopologyCase, situation: Situation) -> Waiting:
        """One node more is asked for where a recovery had to park queries: the nodes cannot take them."""
        short = case.name in situation.limited and not situation.expected
        return Waiting(wording.parked(case.name, situation.parked), short=short)

    def _in_time(
        self,
        choice: _Choice,
        wanted: Mapping[str, set[str]],
        cases: Sequence[TopologyCase],
        situation: Situation,
        down: Mapping[str, set[str]],
        reserve: float,
    ) -> Mapping[str, Wave | Waiting]:
        """The waves of a choice, or of a smaller one with which topologies keep pace with their input: the
        rest waits for the nodes that are expected. Where one keeps pace with none, as little as possible of
        it comes back, unless others of its queries give output and would be late."""
        park, more = reserve == 1.0, dict.fromkeys(down, reserve)
        smaller: set[str] = set()
        for _ in range(TRIES):
            slow = choice.too_slow(situation)
            if not slow:
                break
            smaller |= slow
            # The same partitions would take more than is free.
            factor = max(LESS, ROUNDING * choice.proposal.capacity / max(choice.proposal.cost, ROUNDING))
            more |= {name: factor * more[name] for name in slow}
            less = self._best(wanted, cases, with_reserve(situation, down, more), park=park)
            if not less.useful:
                break
            choice = less
        late, waves = choice.too_slow(situation) & choice.answering, choice.waves()
        return {
            name: _too_slow(name, situation.expected)
            if name in late or (name in smaller and isinstance(wave, Waiting))
            else wave
            for name, wave in waves.items()
        }

    def _best(
        self,
        wanted: Mapping[str, set[str]],
        cases: Sequence[TopologyCase],
        situation: Situation,
        *,
        park: bool,
    ) -> _Choice:
        """The best choice among the partitions wanted back. park: what runs for nothing makes room if more
        comes back without it."""
        choice = self._choice(wanted, {case.name: set() for case in cases}, cases, situation)
        idle = {case.name: _to_park(case, cases, situation) for case in cases}
        if not park or not any(idle.values()) or all(one.selected for one in choice.proposal.explanations):
            return choice
        other = self._choice(wanted, idle, cases, situation)
        return other if other.value > choice.value else choice

    def _choice(
        self,
        wanted: Mapping[str, set[str]],
        idle: Mapping[str, set[str]],
        cases: Sequence[TopologyCase],
        situation: Situation,
    ) -> _Choice:
        """What the planner chooses among the partitions wanted back and the idle ones that may stop."""
        problem = _problem({name: mine | idle[name] for name, mine in wanted.items()}, situation)
        planner, most = _planner_name(cases, situation), situation.max_utilisation
        choice = _Choice(cases, situation, problem, self._propose(planner, problem, situation), idle, most)
        if not choice.torn:
            return _shorter(choice) or choice
        proposal = self._propose(planner, with_whole_chains(problem), situation)
        if proposal.placement is None:
            return _together(choice) or choice
        proposal = replace(proposal, placement=rejoined(problem, proposal.placement))
        whole = _Choice(cases, situation, problem, proposal, idle, most)
        if whole.torn:  # by placing again what had been placed
            whole = replace(whole, as_planned=True)
        better = whole.useful and whole.torn < choice.torn and whole.value >= WORTH_WHOLE * choice.value
        choice = whole if better else choice
        choice = _together(choice) or choice if choice.torn else choice
        return _shorter(choice) or choice

    def _propose(self, name: str, problem: RecoveryProblem, situation: Situation) -> RecoveryPlanProposal:
        try:
            return self.planner_of(name, situation.arrivals).plan(problem)
        except TooManyPlansError:
            return self.planner_of(FALLBACK, situation.arrivals).plan(problem)


@dataclass(frozen=True)
class _Choice:
    """A joint proposal for some topologies. idle: by topology, what ran for nothing and was up for choice
    too. as_planned: what the planner has put together stays together. max_utilisation: share of a node that
    may be planned there; fuller_for: why, if that is more than usual."""

    cases: Sequence[TopologyCase]
    situation: Situation
    problem: RecoveryProblem
    proposal: RecoveryPlanProposal
    idle: Mapping[str, set[str]]
    max_utilisation: float
    as_planned: bool = False
    fuller_for: str = ""

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
                part.deployment, part.assignment, part.running, situation.costs[name], situation.nodes
            )
        )

    @property
    def answering(self) -> frozenset[str]:
        """The topologies of which a query gives output now."""
        return frozenset(name for name, part in self._parts.items() if part.answers)

    def waves(self) -> Mapping[str, Wave | Waiting]:
        return {
            name: part.wave() if part.acts else Waiting(f"No room yet for another query of {name}.")
            for name, part in self._parts.items()
        }

    @cached_property
    def _parts(self) -> dict[str, _Part]:
        return {case.name: _Part(case, self, self.idle[case.name]) for case in self.cases}

    @cached_property
    def placement(self) -> Placement:
        return _placement(self)


def _together(choice: _Choice) -> _Choice | None:
    """The same partitions with fewer chains torn, on nodes that may be planned a little fuller; None if that
    is not possible. What a torn chain sends takes more of both its nodes than that. Nodes of which more
    proved too much are not planned fuller."""
    problem, chosen, (most, nodes) = choice.problem, choice.proposal.partitions, _fuller(choice)
    placement = place(
        partitions=chosen,
        nodes=nodes,
        costs=problem.placed_costs,
        assigned=problem.assigned,
        max_utilisation=most,
        affinity=problem.affinity,
        levels=problem.levels,
    )
    if placement.unplaced:
        return None
    proposal = replace(choice.proposal, placement=placement)
    why = "connected partitions stay together"
    fuller = replace(choice, proposal=proposal, max_utilisation=most, as_planned=True, fuller_for=why)
    return fuller if fuller.torn < choice.torn else None


def _shorter(choice: _Choice) -> _Choice | None:
    """The same partitions with much shorter epochs, on nodes that may be planned a little fuller; None if
    that is not possible. Nodes of which more proved too much are not planned fuller."""
    if not choice.proposal.partitions or choice.proposal.placement is None:
        return None
    problem, (most, nodes) = choice.problem, _fuller(choice)
    placement = level_out(
        replace(problem, nodes=tuple(nodes), max_utilisation=most),
        choice.placement,
        fixed=_at_home(choice.situation, choice.placement),
    )
    if epoch_cost(problem, placement) > SHORTER * epoch_cost(problem, choice.placement):
        return None
    proposal = replace(choice.proposal, placement=placement)
    why = choice.fuller_for or "epochs are shorter"
    shorter = replace(choice, proposal=proposal, max_utilisation=most, as_planned=True, fuller_for=why)
    return shorter if shorter.torn <= choice.torn else None


def _fuller(choice: _Choice) -> tuple[float, list[NodeSpace]]:
    """The share of nodes that may be planned where that gains much, and the nodes; of those of which more
    proved too much no more than otherwise."""
    usual, limited = choice.situation.max_utilisation, choice.situation.at_limit
    most = min(1.0, FULLER * usual)
    return most, [
        replace(node, capacity=usual / most * node.capacity) if node.name in limited else node
        for node in choice.problem.nodes
    ]


def _to_park(case: TopologyCase, cases: Sequence[TopologyCase], situation: Situation) -> set[str]:
    """What may stop to make room: what runs for nothing. Plans that wait for an operator make no room for
    those of other topologies, which are carried out at once."""
    waits = situation.deployments[case.name].policy.approval != "automatic"
    return set() if waits and len(cases) > 1 else situation.idle(case.name)


def _problem(wanted: Mapping[str, set[str]], situation: Situation) -> RecoveryProblem:
    """The global topology: everything that runs, of whatever topology, takes its room."""
    failed = {full_name(topology, p) for topology, partitions in wanted.items() for p in partitions}
    down = {name: situation.down(name) for name in situation.deployments}
    assigned = {
        full_name(name, partition): node
        for name, deployment in situation.deployments.items()
        for partition, node in deployment.assignment.items()
        if partition not in down[name] and full_name(name, partition) not in failed
    }
    return recovery_problem(
        [situation.deployments[topology].topology for topology in wanted],
        failed=failed,
        costs={
            full_name(name, partition): cost
            for name, costs in situation.costs.items()
            for partition, cost in costs.items()
        },
        nodes=[NodeSpace(name=n.name, capacity=n.capacity, load=n.load) for n in situation.usable],
        assigned=assigned,
        priorities={
            full_name(topology, query): priority
            for topology in wanted
            for query, priority in situation.deployments[topology].priorities.items()
        },
        parked={full_name(topology, q) for topology in wanted for q in situation.parked.get(topology, ())},
        tentative={
            full_name(topology, query): share
            for topology in wanted
            for query, share in situation.tentative(topology).items()
        },
        max_utilisation=situation.max_utilisation,
    )


def _placement(choice: _Choice) -> Placement:
    """Where the plan puts its partitions: those that run, or whose node came back, there; the others where
    they make epochs least longer, or where the planner has put them."""
    problem, situation, placement = choice.problem, choice.situation, choice.proposal.placement
    if placement is None:  # only a problem without nodes is not placed
        raise ValueError(f"planner {choice.proposal.planner!r} has placed nothing")
    placement = homeward(
        placement,
        homes=_homes(situation),
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
    return level_out(problem, placement, fixed=_at_home(situation, placement))


def _homes(situation: Situation) -> dict[str, str]:
    return {
        full_name(name, partition): home
        for name, deployment in situation.deployments.items()
        for partition in deployment.topology.partitions
        if (home := deployment.home(partition)) is not None
    }


def _at_home(situation: Situation, placement: Placement) -> set[str]:
    homes = _homes(situation)
    return {p for p, node in placement.placed.items() if homes.get(p) == node}


def _planner_name(cases: Sequence[TopologyCase], situation: Situation) -> str:
    """One plan needs one planner: that of the topology with most priority to win back."""

    def at_stake(case: TopologyCase) -> tuple[int, Any]:
        deployment = situation.deployments[case.name]
        graph = deployment.topology
        priorities = [
            deployment.priorities.get(query, graph.priority(query))
            for query in graph.failed_queries(case.failed)
        ]
        return -sum(priorities), natural_key(case.name)

    return situation.deployments[min(cases, key=at_stake).name].policy.planner


def _worth_a_wave(proposal: RecoveryPlanProposal) -> bool:
    """A query comes back, or only partitions that no query needs are left; the operator-centric baseline
    knows no queries."""
    if proposal.queries or not proposal.partitions:
        return bool(proposal.partitions)
    return not proposal.explanations or proposal.planner == "operator_centric"


def _all_wait(
    cases: Sequence[TopologyCase], situation: Situation, reason: str
) -> Mapping[str, Wave | Waiting]:
    """Nothing can be done now. One node more is asked for, once, if none is on its way: for the topology with
    the largest partition down, because what is large enough for that is large enough for all."""

    def largest(case: TopologyCase) -> float:
        costs = situation.costs.get(case.name, {})
        return max((costs.get(partition, 0.0) for partition in case.failed), default=0.0)

    neediest = max(cases, key=largest)
    short = not situation.expected and not situation.busy
    if situation.busy:
        reason = f"{reason} Partitions that still catch up are planned with more CPU than usual."
    return {case.name: Waiting(reason, short=short and case is neediest) for case in cases}


def _too_slow(topology: str, expected: int) -> Waiting:
    """What would fit, but would make everything late, waits for the nodes that are expected."""
    return Waiting(
        f"With another query of {topology} its epochs would take longer than their input lasts, so the rest "
        f"waits for {wording.counted(expected, 'node')} that {'is' if expected == 1 else 'are'} expected."
    )


def _no_room(proposal: RecoveryPlanProposal, nodes: int) -> str:
    """Why nothing can be done: what is free, against the least that is needed."""
    alive = f"{wording.counted(nodes, 'node')} that can take partitions {'has' if nodes == 1 else 'have'}"
    free = f"{cores(proposal.capacity)} free" if proposal.capacity > 0 else "nothing free"
    if not proposal.explanations:
        return f"Partitions that no query needs cannot be restored yet: none fits, the {alive} {free}."
    left = wording.counted(len(proposal.explanations), "failed query", "failed queries")
    least = min(proposal.explanations, key=lambda one: (one.cost, natural_key(one.query)))
    text = f"{left} cannot be restored yet: the {alive} {free}"
    if least.cost > proposal.capacity:
        topology, _, query = least.query.rpartition("/")
        return f"{text}, and even {query} of {topology}, which needs least, takes {cores(least.cost)}."
    return f"{text} in total, but no single node has room for a partition that is needed."


class _Part:
    """What a joint proposal means for one topology. idle: what ran for nothing and was up for choice too."""

    def __init__(
        self,
        case: TopologyCase,
        choice: _Choice,
        idle: set[str],
    ) -> None:
        self.case, self.situation, self.proposal = case, choice.situation, choice.proposal
        self.points = choice.problem.points
        self.placement, self.max_utilisation = choice.placement, choice.max_utilisation
        self.fuller_for = choice.fuller_for
        situation, proposal = self.situation, self.proposal
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
        prefix = full_name(self.case.name, "")
        return tuple(name.removeprefix(prefix) for name in names if name.startswith(prefix))

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
                "alternatives": list(self.proposal.alternatives),
                "note": self.proposal.note,
                "max_utilisation": round(self.max_utilisation, 4),
                "planned_load_percent": {name: round(load, 1) for name, load in self.placement.load.items()},
                "placed": mine,
                "explanations": self._explanations(),
            },
        )

    def _priority(self, points: int) -> float:
        """Points in units of priority; a whole number where all queries count for theirs."""
        return points if self.points == 1 else round(points / self.points, 2)

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
        back = (
            f"queries {wording.listed(self.queries)} of {name} return"
            if self.queries
            else f"no query of {name} returns yet"
        )
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
        if self.max_utilisation > self.situation.max_utilisation:
            text += (
                f" Nodes are planned to {self.max_utilisation:.0%} of their CPU instead of "
                f"{self.situation.max_utilisation:.0%}, so that {self.fuller_for}."
            )
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
