"""Incremental, query-centric recovery (incremental-recovery, sections 4.4 and 5).

With every look, what is free on the nodes there are is given to the failed partitions of those queries that
are worth most for it, over all topologies of the incident at once. The rest waits for the next node and is
left out of the assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from domain.planning import (
    Arrival,
    LookAhead,
    Planner,
    RecoveryPlanProposal,
    RecoveryProblem,
    TooManyPlansError,
    cores,
    leaves_parts,
    natural_key,
    planner_named,
    recovery_problem,
    rejoined,
    with_whole_chains,
)
from domain.recovery import wording
from domain.recovery.costs import full_name
from domain.recovery.fuller import shorter, together
from domain.recovery.incident import TopologyCase
from domain.recovery.making_room import Room, room_by_moves
from domain.recovery.method import Situation, Waiting, Wave
from domain.recovery.policy import INCREMENTAL
from domain.recovery.reserve import reserves, with_reserve
from domain.recovery.wave_choice import Choice, waits_for_nodes

FALLBACK = "best_density"
WORTH_WHOLE = 0.5
"""Share of the priority that a plan with whole chains has to win back, of what one that tears some does."""
TRIES, LESS = 8, 1.1
"""How often a wave that would not keep pace is planned again, and how many times smaller at least."""
ROUNDING = 1.01


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
        # What still runs, on a node that is being drained, moves when all else is back, or finds no room.
        moving = {case.name: case.failed - situation.held(case.name) for case in cases}
        turns = [one for one in (down, moving) if any(one.values())] or [moving]
        for wanted in turns if not situation.expected else turns[:1]:
            for reserve in reserves(cases, situation):
                reserved = with_reserve(situation, down, dict.fromkeys(down, reserve))
                choice = self._best(wanted, cases, reserved, park=reserve == 1.0)
                if choice.useful and situation.expected:
                    return self._in_time(choice, wanted, cases, situation, down, reserve)
                if choice.useful:
                    return choice.waves()
        if not any(moving.values()):
            return {case.name: self._parked(case, situation) for case in cases}
        return _all_wait(cases, situation, _no_room(choice.proposal, len(usable)))

    def room(self, cases: Sequence[TopologyCase], situation: Situation) -> Room | None:
        """What is to move first, where nothing comes back without that. A planner that packs finds it, also
        where another one plans the wave."""
        if situation.busy or not situation.usable:
            return None
        cases = [one for one in cases if situation.deployments[one.name].policy.approval == "automatic"]
        if not cases:
            return None
        down = {case.name: situation.down(case.name) - situation.held(case.name) for case in cases}
        return room_by_moves(
            situation,
            propose=lambda prices: self._propose(FALLBACK, _problem(down, situation, prices), situation),
            waves=lambda after: self.next_waves(cases, after),
        )

    def _parked(self, case: TopologyCase, situation: Situation) -> Waiting:
        """One node more is asked for where a recovery had to park queries: the nodes cannot take them."""
        short = case.name in situation.limited and not situation.expected
        return Waiting(wording.parked(case.name, situation.parked), short=short)

    def _in_time(
        self,
        choice: Choice,
        wanted: Mapping[str, set[str]],
        cases: Sequence[TopologyCase],
        situation: Situation,
        down: Mapping[str, set[str]],
        reserve: float,
    ) -> Mapping[str, Wave | Waiting]:
        """The waves of a choice, or of a smaller one with which topologies keep pace with their input: the
        rest waits for the nodes that are expected. Where one keeps pace with none, as little as possible of
        it comes back, unless others of its queries give output and would be late."""
        park, times = reserve == 1.0, dict.fromkeys(down, 1.0)
        for _ in range(TRIES):
            slow = choice.too_slow(situation)
            if not slow:
                break
            # The same partitions would take more than is free.
            more = max(LESS, ROUNDING * choice.proposal.capacity / max(choice.proposal.cost, ROUNDING))
            tried = {name: one * more if name in slow else one for name, one in times.items()}
            reserved = {name: reserve * one for name, one in tried.items()}
            less = self._best(wanted, cases, with_reserve(situation, down, reserved), park=park)
            if not less.useful:
                break
            choice, times = replace(less, smaller=choice.smaller | slow), tried
        if choice.smaller:
            problem = _problem({name: mine | choice.idle[name] for name, mine in wanted.items()}, situation)
            choice = choice.at_costs(problem, situation, times)
        late = choice.too_slow(situation) & choice.answering
        return {**choice.waves(), **{name: waits_for_nodes(name, situation.expected) for name in late}}

    def _best(
        self,
        wanted: Mapping[str, set[str]],
        cases: Sequence[TopologyCase],
        situation: Situation,
        *,
        park: bool,
    ) -> Choice:
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
    ) -> Choice:
        """What the planner chooses among the partitions wanted back and the idle ones that may stop."""
        problem = _problem({name: mine | idle[name] for name, mine in wanted.items()}, situation)
        planner, most = _planner_name(cases, situation), situation.max_utilisation
        choice = Choice(cases, situation, problem, self._propose(planner, problem, situation), idle, most)
        if not choice.torn:
            return shorter(choice) or choice
        proposal = self._propose(planner, with_whole_chains(problem), situation)
        if proposal.placement is None or leaves_parts(problem, proposal.partitions):
            return together(choice) or choice
        proposal = replace(proposal, placement=rejoined(problem, proposal.placement))
        whole = Choice(cases, situation, problem, proposal, idle, most)
        if whole.torn:  # by placing again what had been placed
            whole = replace(whole, as_planned=True)
        better = whole.useful and whole.torn < choice.torn and whole.value >= WORTH_WHOLE * choice.value
        choice = whole if better else choice
        choice = together(choice) or choice if choice.torn else choice
        return shorter(choice) or choice

    def _propose(self, name: str, problem: RecoveryProblem, situation: Situation) -> RecoveryPlanProposal:
        try:
            return self.planner_of(name, situation.arrivals).plan(problem)
        except TooManyPlansError:
            return self.planner_of(FALLBACK, situation.arrivals).plan(problem)


def _to_park(case: TopologyCase, cases: Sequence[TopologyCase], situation: Situation) -> set[str]:
    """What may stop to make room: what runs for nothing. Plans that wait for an operator make no room for
    those of other topologies, which are carried out at once."""
    waits = situation.deployments[case.name].policy.approval != "automatic"
    return set() if waits and len(cases) > 1 else situation.idle(case.name)


def _problem(
    wanted: Mapping[str, set[str]], situation: Situation, movable: Mapping[str, float] | None = None
) -> RecoveryProblem:
    """The global topology: everything that runs, of whatever topology, takes its room. movable: what of it
    may move, full name -> points of priority."""
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
        nodes=[node.space() for node in situation.usable],
        assigned=assigned,
        movable=movable,
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
