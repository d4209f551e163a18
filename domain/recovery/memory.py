"""What the story of an incident remembers, so that a coordinator can be started anew at any moment.

Facts are the `data` of story entries, recalled in order. Failures are remembered per topology *and
generation*: a plan of a higher generation covers what was lost under the earlier ones, except what it
leaves out of its assignment (see `case_rebuild`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from domain.recovery.incident import Phase, TopologyCase


@dataclass(slots=True)
class Memory:
    """lost: nodes given up and not back under any guise. losses: how often each was given up for good.
    loss_times: (moment, node) of these. returned: given up, but alive all the time. avoided: alive, but
    partitions do not run there. unrestored: what plans were to restore that were thrown away.
    failed, unrestored: topology -> generation -> partitions; forced, owed, asked, applied, caught_up,
    verifying, dropped: topology -> generation. method: told last. proposals: topology -> (generation, id).
    origin: topology -> checkpoint an operator asked for, until a plan is applied.
    costs: see `KeepCosts`; stored apart from the story."""

    lost: set[str] = field(default_factory=set)
    losses: Counter[str] = field(default_factory=Counter)
    loss_times: list[tuple[float, str]] = field(default_factory=list)
    arrived: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    avoided: set[str] = field(default_factory=set)
    drained: set[str] = field(default_factory=set)
    failed: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    unrestored: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    forced: dict[str, int] = field(default_factory=dict)
    origin: dict[str, int] = field(default_factory=dict)
    owed: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    applied: dict[str, int] = field(default_factory=dict)
    caught_up: dict[str, int] = field(default_factory=dict)
    verifying: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    method: dict[str, str] = field(default_factory=dict)
    proposals: dict[str, tuple[int, str]] = field(default_factory=dict)
    approved: set[str] = field(default_factory=set)
    paused: bool = False
    costs: dict[str, dict[str, float]] = field(default_factory=dict)

    @classmethod
    def recall(
        cls, facts: Iterable[Mapping[str, Any]], costs: Mapping[str, dict[str, float]] | None = None
    ) -> Memory:
        memory = cls(costs=dict(costs or {}))
        for fact in facts:
            memory.remember(fact)
        return memory

    def remember(self, fact: Mapping[str, Any]) -> None:
        """Take in one fact; anything without a known `fact` name is no business of the memory."""
        match fact.get("fact"):
            case "lost":
                self.lost.update(fact["nodes"])
                self.losses.update(fact["nodes"])
                self.loss_times += [(fact["at"], node) for node in fact["nodes"]]
                self.arrived.difference_update(fact["nodes"])
                self.returned.difference_update(fact["nodes"])
                self.drained.difference_update(fact["nodes"])
                self.avoided.update(fact.get("avoid", ()))
                self._remember_failed(fact["failed"])
            case "unrestored":
                topology, generation = fact["topology"], fact["generation"]
                what = {topology: {"generation": generation, "partitions": fact["partitions"]}}
                self._remember_failed(what)
                by_generation = self.unrestored.setdefault(topology, {})
                by_generation.setdefault(generation, set()).update(fact["partitions"])
                if fact["forced"]:
                    self.forced[topology] = generation
                if fact["owed"]:
                    self.owed[topology] = generation
            case "drained":
                self.drained.add(fact["node"])
                self._remember_failed(fact["failed"])
            case "still_failed":
                self._remember_failed(fact["failed"])
            case "returned":
                self._remember_returned(fact["node"])
                for topology, partitions in fact["kept"].items():
                    for failed in self.failed.get(topology, {}).values():
                        failed.difference_update(partitions)
            case "arrived":
                self.arrived.add(fact["node"])
                self.avoided.discard(fact["node"])
                self.lost.discard(fact["node"])
            case "asked":
                self.asked[fact["topology"]] = fact["generation"]
                self.waiting.pop(fact["topology"], None)
                if fact["forced"]:
                    self.forced[fact["topology"]] = fact["generation"]
                    self.dropped.pop(fact["topology"], None)
                    if fact.get("checkpoint") is not None:
                        self.origin[fact["topology"]] = fact["checkpoint"]
            case "applied" | "caught_up" | "verifying" | "dropped" as what:
                known: dict[str, int] = getattr(self, what)
                known[fact["topology"]] = fact["generation"]
                if what in ("applied", "dropped"):
                    self.origin.pop(fact["topology"], None)
            case "waiting":
                self.waiting[fact["topology"]] = fact["reason"]
            case "method":
                self.method[fact["topology"]] = fact["method"]
            case _:
                self._remember_order(fact)

    def _remember_order(self, fact: Mapping[str, Any]) -> None:
        """What operators decided, and what was put before them."""
        match fact.get("fact"):
            case "proposed":
                self.proposals[fact["topology"]] = (fact["generation"], fact["proposal"])
                self.waiting.pop(fact["topology"], None)
            case "withdrawn":
                self.proposals.pop(fact["topology"], None)
            case "approved":
                self.approved.add(fact["proposal"])
            case "paused" | "resumed" as what:
                self.paused = what == "paused"
            case "replan":
                self.proposals.clear()
                self.approved.clear()
                self.waiting.clear()
                self.asked.update(fact["asked"])

    def _remember_returned(self, node: str) -> None:
        self.lost.discard(node)
        self.returned.add(node)
        self.losses[node] -= 1
        for index in range(len(self.loss_times) - 1, -1, -1):
            if self.loss_times[index][1] == node:
                del self.loss_times[index]
                break

    def _remember_failed(self, failed: Mapping[str, Any]) -> None:
        for topology, what in failed.items():
            by_generation = self.failed.setdefault(topology, {})
            by_generation.setdefault(what["generation"], set()).update(what["partitions"])
            for gone in (self.dropped, self.waiting, self.verifying):
                gone.pop(topology, None)

    def failed_under(self, topology: str, generation: int) -> set[str]:
        return set(self.failed.get(topology, {}).get(generation, ()))

    def proposal(self, topology: str, generation: int) -> str | None:
        """The proposal an operator has before him, if it is still about the present generation."""
        about, proposal = self.proposals.get(topology, (-1, ""))
        return proposal if about == generation else None


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
    left_out: Collection[str] = (),
    before: int = 0,
) -> TopologyCase:
    """The case of a topology as it was when the last step ended.

    generation: of the topology, which is above the plan's where a plan was refused.
    left_out: partitions that plan does not run. before: generation of the newest plan not of this incident.
    """
    failed = memory.failed_under(name, generation) | set(left_out)
    forced = memory.forced.get(name) == generation
    ours = newest.ours
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
        forced=forced,
        origin=memory.origin.get(name),
        applied=memory.applied.get(name, -1) > before,
        owed=memory.owed.get(name) == generation,
    )
    if memory.dropped.get(name) == generation:
        case.phase, case.failed, case.unrestored = Phase.DROPPED, set(), set()
        case.forced = case.owed = False
        case.origin = None
        return case
    case.phase = _PHASES.get(newest.state, Phase.FAILED) if ours else Phase.FAILED
    if case.phase is Phase.VERIFIED and (failed or forced):
        case.phase = Phase.FAILED
    if case.phase is Phase.REPLAYING and not failed and memory.verifying.get(name) == newest.generation:
        case.phase = Phase.VERIFYING
    return case
