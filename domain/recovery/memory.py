"""What the story of an incident remembers, so that a coordinator can be started anew at any moment.

Facts are recalled in the order they were told. Failures are remembered per topology *and generation*: a plan
of a higher generation covers what was lost under the earlier ones, except what it does not assign (see
`case_rebuild`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from domain.recovery import facts
from domain.recovery.incident import Phase, TopologyCase

AVOIDED_FOR = 300.0
"""Seconds for which no plan uses a node on which partitions did not run; doubled with each further time."""
MOST_DOUBLED = 6


class Avoided(NamedTuple):
    """times: how often partitions did not run there. until: seconds since 1970."""

    times: int
    until: float


@dataclass(slots=True)
class Memory:
    """Changed by facts only, except `costs`."""

    lost: set[str] = field(default_factory=set)
    """Nodes that were lost and are not back, neither as themselves nor as a new process of that name."""
    losses: Counter[str] = field(default_factory=Counter)
    """Node -> how often it was lost and did not turn out to be alive: so many replacements it needs."""
    loss_times: list[tuple[float, str]] = field(default_factory=list)
    """(moment, node) of each of these losses."""
    arrived: set[str] = field(default_factory=set)
    """Nodes that joined during the incident."""
    avoided: dict[str, Avoided] = field(default_factory=dict)
    """Living nodes on which partitions did not run: no plan uses them for a while."""
    drained: set[str] = field(default_factory=set)
    """Nodes that an operator is emptying."""
    failed: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    """Topology -> generation -> partitions that failed under it."""
    parked: dict[str, frozenset[str]] = field(default_factory=dict)
    """Topology -> queries that are parked."""
    parked_by_policy: dict[str, frozenset[str]] = field(default_factory=dict)
    """Topology -> those of them that no operator asked for."""
    overloads: Counter[str] = field(default_factory=Counter)
    """Topology -> how often the policy parked queries of it."""
    parked_most: dict[str, int] = field(default_factory=dict)
    """Topology -> how many were parked by policy when it did so last."""
    joined_since: dict[str, set[str]] = field(default_factory=dict)
    """Topology -> nodes that joined since the policy parked queries of it last."""
    limits: dict[str, dict[str, float]] = field(default_factory=dict)
    """Topology -> node -> CPU percent that may be planned there, where more proved too much."""
    spread: dict[str, set[str]] = field(default_factory=dict)
    """Topology -> nodes for whose sake a wave was planned again before it began."""
    moves: dict[str, facts.Rebalancing] = field(default_factory=dict)
    """Topology -> what is to move, until something of it fails."""
    room_made: facts.RoomMade | None = None
    """When what runs was moved last to make room: not again before something returns, fails or joins."""
    tentative: dict[str, set[str]] = field(default_factory=dict)
    """Topology -> queries of which was told that they go on without a part of their input."""
    unrestored: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    """Topology -> generation -> what discarded plans were to restore."""
    forced: dict[str, int] = field(default_factory=dict)
    """Topology -> generation under which a plan is made also if nothing is down."""
    origin: dict[str, facts.RecoveryRequested] = field(default_factory=dict)
    """Topology -> the request with the checkpoint that an operator chose, until a plan is applied; that of an
    earlier deployment is another one."""
    rollback_pending: dict[str, int] = field(default_factory=dict)
    """Topology -> generation whose next plan must carry the rollback of a discarded one."""
    asked: dict[str, int] = field(default_factory=dict)
    """Topology -> generation under which an operator wants the nodes there are to be used."""
    applied: dict[str, int] = field(default_factory=dict)
    """Topology -> generation of the newest plan that its driver has applied."""
    refused: dict[str, facts.Refused] = field(default_factory=dict)
    """Topology -> the plan that its driver refused last, until one is applied."""
    caught_up: dict[str, int] = field(default_factory=dict)
    """Topology -> generation of the plan whose partitions work live."""
    verifying: dict[str, int] = field(default_factory=dict)
    """Topology -> generation of the plan whose proof, a global checkpoint, is awaited."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Topology -> generation under which nothing was left to recover."""
    waiting: dict[str, str] = field(default_factory=dict)
    """Topology -> why no plan can be made, as told last."""
    method: dict[str, str] = field(default_factory=dict)
    """Topology -> method told last."""
    proposals: dict[str, facts.Proposed] = field(default_factory=dict)
    """Topology -> what was proposed last."""
    approved: set[str] = field(default_factory=set)
    """Ids of confirmed proposals."""
    paused: bool = False
    costs: dict[str, dict[str, float]] = field(default_factory=dict)
    """Topology -> partition -> CPU percent it counts for (see `KeepCosts`); stored apart from the story."""

    @classmethod
    def recall(
        cls, recorded: Iterable[facts.Fact], costs: Mapping[str, dict[str, float]] | None = None
    ) -> Memory:
        memory = cls(costs=dict(costs or {}))
        for fact in recorded:
            memory.remember(fact)
        return memory

    def remember(self, fact: facts.Fact) -> None:
        """Take in one fact."""
        match fact:
            case facts.Lost():
                self._remember_lost(fact)
            case facts.Returned():
                self._remember_returned(fact)
            case facts.TakenOver(topology=topology, acting=acting):
                for by_generation in (self.failed, self.unrestored):
                    for failed in by_generation.get(topology, {}).values():
                        failed.difference_update(acting)
            case facts.Tentative(topology=topology, queries=queries):
                self.tentative.setdefault(topology, set()).update(queries)
            case facts.Arrived(node=node, kept=kept):
                self.arrived.add(node)
                self.avoided.pop(node, None)
                self.lost.discard(node)
                self.drained.discard(node)
                self._remember_kept(kept)
                for joined in self.joined_since.values():
                    joined.add(node)
            case facts.Drained(node=node, failed=failed):
                self.drained.add(node)
                self._remember_failed(failed)
            case facts.StillFailed(failed=failed):
                self._remember_failed(failed)
            case facts.Spread(topology=topology, failed=what, nodes=nodes):
                self._remember_failed({topology: what})
                self.spread.setdefault(topology, set()).update(nodes)
            case facts.Rebalancing(topology=topology):
                self.moves[topology] = fact
                self._look_again_at(topology)
            case facts.RoomMade():
                self.room_made = fact
            case facts.Parked():
                self._remember_parked(fact)
            case facts.Unrestored():
                self._remember_unrestored(fact)
            case facts.PlanApplied(topology=topology, generation=generation):
                self.applied[topology] = generation
                self.origin.pop(topology, None)
                self.refused.pop(topology, None)
            case facts.Refused(topology=topology):
                self.refused[topology] = fact
            case facts.CaughtUp(topology=topology, generation=generation):
                self.caught_up[topology] = generation
                self.waiting.pop(topology, None)  # what the rest waits for is told anew after a wave
            case facts.Verifying(topology=topology, generation=generation):
                self.verifying[topology] = generation
            case facts.Dropped(topology=topology, generation=generation):
                self.dropped[topology] = generation
                self.origin.pop(topology, None)
                self.moves.pop(topology, None)
                self.parked.pop(topology, None)
                self.parked_by_policy.pop(topology, None)
                self.limits.pop(topology, None)
            case facts.Deferred(topology=topology, reason=reason):
                self.waiting[topology] = reason
            case facts.MethodChosen(topology=topology, method=method):
                self.method[topology] = method
            case _:
                self._remember_order(fact)

    def _remember_order(self, fact: facts.Fact) -> None:
        """What operators asked for, and what was proposed to them."""
        match fact:
            case facts.RecoveryRequested(topology=topology, generation=generation):
                self.asked[topology] = generation
                self.waiting.pop(topology, None)
                self.moves.pop(topology, None)
                for node, avoided in self.avoided.items():
                    self.avoided[node] = avoided._replace(until=0.0)  # with the nodes there are
                if fact.forced:
                    self.forced[topology] = generation
                    self.dropped.pop(topology, None)
                    # Without one, the order before that named one is overtaken.
                    self.origin.pop(topology, None)
                    if fact.checkpoint is not None:
                        self.origin[topology] = fact
            case facts.Proposed(topology=topology):
                self.proposals[topology] = fact
                self.waiting.pop(topology, None)
            case facts.Withdrawn(topology=topology):
                self.proposals.pop(topology, None)
            case facts.Approved(proposal=proposal):
                self.approved.add(proposal)
            case facts.Paused():
                self.paused = True
            case facts.Resumed():
                self.paused = False
            case facts.Accepted():
                pass  # the incident ends with it
            case facts.Replanned(asked=asked):
                self.proposals.clear()
                self.approved.clear()
                self.waiting.clear()
                self.asked.update(asked)
            case _:
                raise TypeError(f"the memory of an incident does not know {fact!r}")

    def _remember_lost(self, fact: facts.Lost) -> None:
        self.lost.update(fact.nodes)
        self.losses.update(fact.nodes)
        self.loss_times += [(fact.at, node) for node in fact.nodes]
        self.arrived.difference_update(fact.nodes)
        self.drained.difference_update(fact.nodes)
        for node in fact.avoid:
            before = self.avoided[node].times if node in self.avoided else 0
            self.avoided[node] = Avoided(before + 1, fact.at + AVOIDED_FOR * 2.0 ** min(before, MOST_DOUBLED))
        self._remember_failed(fact.failed)

    def _remember_returned(self, fact: facts.Returned) -> None:
        self.lost.discard(fact.node)
        self.losses[fact.node] -= 1
        for index in range(len(self.loss_times) - 1, -1, -1):
            if self.loss_times[index][1] == fact.node:
                del self.loss_times[index]
                break
        self._remember_kept(fact.kept)

    def _remember_kept(self, kept: Mapping[str, Collection[str]]) -> None:
        for topology, partitions in kept.items():
            for failed in self.failed.get(topology, {}).values():
                failed.difference_update(partitions)

    def _remember_parked(self, fact: facts.Parked) -> None:
        topology, queries = fact.topology, frozenset(fact.queries)
        changed = queries != self.parked.get(topology, frozenset())
        before = self.parked_by_policy.get(topology, frozenset())
        self.parked[topology], self.parked_by_policy[topology] = queries, frozenset(fact.by_policy)
        self.limits.pop(topology, None)
        if fact.limits:
            self.limits[topology] = dict(fact.limits)
        if self.parked_by_policy[topology] - before:
            self.overloads[topology] += 1
            self.parked_most[topology] = len(self.parked_by_policy[topology])
            self.joined_since[topology] = set()
        if changed:
            self._look_again_at(topology)

    def _remember_unrestored(self, fact: facts.Unrestored) -> None:
        what = facts.Failed(fact.generation, fact.partitions)
        self._remember_failed({fact.topology: what})
        by_generation = self.unrestored.setdefault(fact.topology, {})
        by_generation.setdefault(fact.generation, set()).update(fact.partitions)
        if fact.forced:
            self.forced[fact.topology] = fact.generation
        if fact.rollback_pending:
            self.rollback_pending[fact.topology] = fact.generation

    def _remember_failed(self, failed: Mapping[str, facts.Failed]) -> None:
        for topology, what in failed.items():
            by_generation = self.failed.setdefault(topology, {})
            by_generation.setdefault(what.generation, set()).update(what.partitions)
            self.moves.pop(topology, None)
            self._look_again_at(topology)

    def _look_again_at(self, topology: str) -> None:
        """There is something to plan again."""
        for gone in (self.dropped, self.waiting, self.verifying):
            gone.pop(topology, None)

    def avoids(self, node: str, now: float) -> bool:
        """Whether no plan may use this living node at this moment."""
        return node in self.avoided and now < self.avoided[node].until

    def failed_under(self, topology: str, generation: int) -> set[str]:
        return set(self.failed.get(topology, {}).get(generation, ()))

    def proposal(self, topology: str, generation: int) -> facts.Proposed | None:
        """What was proposed last, if it is still about the present generation."""
        proposed = self.proposals.get(topology)
        return proposed if proposed is not None and proposed.generation == generation else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """The newest plan of a topology as recorded. `ours`: made for this incident."""

    generation: int
    state: str
    ours: bool
    wave: int = 0
    checkpoint: int = 0
    rollback: bool = False
    method: str = ""
    restore: frozenset[str] = frozenset()
    applied_at: float | None = None
    caught_up_at: float | None = None


_PHASES = {
    "planned": Phase.PLANNED,
    "published": Phase.PUBLISHED,
    "applied": Phase.REPLAYING,
    "verified": Phase.VERIFIED,
}


def case_rebuild(
    name: str,
    newest: PlanRecord,
    generation: int,
    memory: Memory,
    *,
    unassigned: Collection[str] = (),
    before: int = 0,
    deployed: int = 0,
) -> TopologyCase:
    """The case of a topology as it was when the last step ended.

    generation: of the topology, which is above the plan's where a plan was refused.
    unassigned: partitions that plan does not run. before: generation of the newest plan not of this incident.
    deployed: generation of the plan that deployed it.
    """
    failed = memory.failed_under(name, generation) | set(unassigned)
    forced = memory.forced.get(name) == generation
    asked = memory.moves.get(name)
    moves = asked.moves if asked is not None and asked.generation == generation else {}
    ours = newest.ours
    chosen = memory.origin.get(name)
    case = TopologyCase(
        name=name,
        generation=newest.generation,
        wave=newest.wave if ours else 0,
        checkpoint=newest.checkpoint,
        rollback=newest.rollback and ours,
        method=newest.method if ours else "",
        failed=failed,
        restore=newest.restore if ours else frozenset(),
        unrestored=set(memory.unrestored.get(name, {}).get(generation, ())),
        moves=dict(moves),
        applied_at=newest.applied_at if ours else None,
        caught_up_at=newest.caught_up_at if ours else None,
        forced=forced,
        origin=chosen.checkpoint if chosen is not None and chosen.generation >= deployed else None,
        applied=memory.applied.get(name, -1) > before,
        rollback_pending=memory.rollback_pending.get(name) == generation,
    )
    # The machine knows of one that was undeployed the plan's generation only.
    if memory.dropped.get(name) in (generation, newest.generation):
        case.phase, case.failed, case.unrestored, case.moves = Phase.DROPPED, set(), set(), {}
        case.forced = case.rollback_pending = False
        case.origin = None
        return case
    case.phase = _PHASES.get(newest.state, Phase.FAILED) if ours else Phase.FAILED
    if case.phase is Phase.VERIFIED and (failed or forced or moves):
        case.phase = Phase.FAILED
    settled = not failed and not moves and not forced and memory.verifying.get(name) == newest.generation
    if case.phase is Phase.REPLAYING and settled:
        case.phase = Phase.VERIFYING
    return case
