"""What the story of an incident remembers, so that a coordinator can be started anew at any moment.

Facts are the `data` of story entries, recalled in order. Failures are remembered per topology *and
generation*: a plan of a higher generation covers what was lost under the earlier ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controlplane.domain.recovery.incident import Phase, TopologyCase


@dataclass(slots=True)
class Memory:
    """lost: nodes given up and not back under any guise. losses: how often each was given up for good.
    returned: given up, but alive all the time. avoided: alive, but partitions do
    not run there. unrestored: what superseded plans were to restore.
    failed, forced, asked, caught_up, dropped: topology -> generation (-> partitions)."""

    lost: set[str] = field(default_factory=set)
    losses: Counter[str] = field(default_factory=Counter)
    arrived: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    avoided: set[str] = field(default_factory=set)
    drained: set[str] = field(default_factory=set)
    failed: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    unrestored: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    forced: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    caught_up: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)

    @classmethod
    def recall(cls, facts: Iterable[Mapping[str, Any]]) -> Memory:
        memory = cls()
        for fact in facts:
            memory.remember(fact)
        return memory

    def remember(self, fact: Mapping[str, Any]) -> None:
        """Take in one fact; anything without a known `fact` name is no business of the memory."""
        match fact.get("fact"):
            case "lost":
                self.lost.update(fact["nodes"])
                self.losses.update(fact["nodes"])
                self.arrived.difference_update(fact["nodes"])
                self.returned.difference_update(fact["nodes"])
                self.avoided.update(fact.get("avoid", ()))
                self._remember_failed(fact["failed"])
            case "unrestored":
                topology, generation = fact["topology"], fact["generation"]
                what = {topology: {"generation": generation, "partitions": fact["partitions"]}}
                self._remember_failed(what)
                by_generation = self.unrestored.setdefault(topology, {})
                by_generation.setdefault(generation, set()).update(fact["partitions"])
                if not fact["partitions"]:
                    self.forced[topology] = generation
            case "drained":
                self.drained.add(fact["node"])
                self._remember_failed(fact["failed"])
            case "returned":
                self.lost.discard(fact["node"])
                self.returned.add(fact["node"])
                self.losses[fact["node"]] -= 1
                for topology, partitions in fact["kept"].items():
                    for failed in self.failed.get(topology, {}).values():
                        failed.difference_update(partitions)
            case "arrived":
                self.arrived.add(fact["node"])
                self.avoided.discard(fact["node"])
                self.lost.discard(fact["node"])
            case "asked":
                self.asked[fact["topology"]] = fact["generation"]
                if fact["forced"]:
                    self.forced[fact["topology"]] = fact["generation"]
                    self.dropped.pop(fact["topology"], None)
            case "caught_up":
                self.caught_up[fact["topology"]] = fact["generation"]
            case "dropped":
                self.dropped[fact["topology"]] = fact["generation"]
            case "waiting":
                self.waiting[fact["topology"]] = fact["reason"]

    def _remember_failed(self, failed: Mapping[str, Any]) -> None:
        for topology, what in failed.items():
            by_generation = self.failed.setdefault(topology, {})
            by_generation.setdefault(what["generation"], set()).update(what["partitions"])
            self.dropped.pop(topology, None)
            self.waiting.pop(topology, None)

    def failed_under(self, topology: str, generation: int) -> set[str]:
        return set(self.failed.get(topology, {}).get(generation, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """The newest plan of a topology as recorded. `ours`: made for this incident."""

    generation: int
    state: str
    ours: bool
    wave: int = 0
    checkpoint: int = 0
    restore: frozenset[str] = frozenset()


_PHASES = {
    "planned": Phase.PLANNED,
    "published": Phase.PUBLISHED,
    "applied": Phase.REPLAYING,
    "verified": Phase.VERIFIED,
}


def case_rebuild(name: str, newest: PlanRecord, generation: int, memory: Memory) -> TopologyCase:
    """The case of a topology as it was when the last step ended. `generation`: of the topology, which
    is above the plan's where a plan was refused."""
    failed = memory.failed_under(name, generation)
    forced = memory.forced.get(name) == generation
    case = TopologyCase(
        name=name,
        generation=newest.generation,
        wave=newest.wave if newest.ours else 0,
        checkpoint=newest.checkpoint,
        failed=failed,
        restore=newest.restore if newest.ours else frozenset(),
        unrestored=set(memory.unrestored.get(name, {}).get(generation, ())),
        forced=forced,
    )
    if memory.dropped.get(name) == generation:
        case.phase, case.failed, case.unrestored, case.forced = Phase.DROPPED, set(), set(), False
    elif failed or forced or not newest.ours:
        case.phase = Phase.FAILED
    else:
        case.phase = _PHASES.get(newest.state, Phase.FAILED)
        if case.phase is Phase.REPLAYING and memory.caught_up.get(name) == newest.generation:
            case.phase = Phase.VERIFYING
    return case
