"""How an incident is recovered: the decision when to plan, and what.

A method looks at a `Situation` and answers, for each topology, with a `Wave` to carry out now or with a
`Waiting` that says for what. It keeps no state: the machine asks again whenever something changes.
`Blocking` gives one wave that restores everything; `Incremental` one per arrival that restores a part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from domain.planning import Arrival, natural_key
from domain.recovery.costs import Costs
from domain.recovery.incident import Deployment, NodeView, TopologyCase


@dataclass(slots=True, kw_only=True)
class Situation:
    """What a method decides upon.

    costs: what each partition counts for, in CPU percent, by topology (see `KeepCosts`).
    lost: nodes given up and not returned, for which replacements are awaited.
    expected: replacements asked for that have neither come nor failed; arrivals: when they are expected.
    expedited: topologies for which an operator wants the nodes there are to be used now.
    drained: nodes that run on while they are being emptied.
    replaying: by topology, partitions that need more than their costs until they have caught up;
    replay_reserve: how many times their costs. parked: by topology, queries that are not to run.
    limited: topologies whose nodes had too much to do with what is parked now.
    at_limit: nodes of which more than their capacity proved too much.
    """

    cases: Mapping[str, TopologyCase]
    deployments: Mapping[str, Deployment]
    nodes: Mapping[str, NodeView]
    costs: Costs
    lost: frozenset[str]
    expected: int
    expedited: frozenset[str]
    max_utilisation: float
    arrivals: tuple[Arrival, ...] = ()
    drained: frozenset[str] = frozenset()
    replaying: Mapping[str, frozenset[str]] = field(default_factory=dict)
    replay_reserve: float = 1.0
    parked: Mapping[str, frozenset[str]] = field(default_factory=dict)
    limited: frozenset[str] = frozenset()
    at_limit: frozenset[str] = frozenset()
    _carried: dict[str, float] = field(default_factory=dict)

    @property
    def usable(self) -> list[NodeView]:
        """Nodes that can take partitions, in name order."""
        return sorted((n for n in self.nodes.values() if n.usable), key=lambda n: natural_key(n.name))

    @property
    def busy(self) -> bool:
        """Whether a replay takes room that will be free soon; without a reserve it takes none."""
        reserved = self.replay_reserve * self.max_utilisation > 1.0
        return reserved and any(self.replaying.values())

    @property
    def carried(self) -> Mapping[str, float]:
        """CPU percent of the partitions that are at home on each node, whether it lives or not; reckoned when
        it is first asked for, since each topology of a wave does."""
        if not self._carried:
            for name, deployment in self.deployments.items():
                costs = self.costs[name]
                for partition, home in deployment.homes.items():
                    self._carried[home] = self._carried.get(home, 0.0) + costs.get(partition, 0.0)
        return self._carried

    def failed(self, topology: str) -> set[str]:
        case = self.cases.get(topology)
        return case.failed if case is not None else set()

    def moving(self, topology: str) -> set[str]:
        """Failed partitions that still run, on a node that is being drained."""
        assignment = self.deployments[topology].assignment
        leaving = {name for name in self.drained if name in self.nodes and self.nodes[name].alive}
        return {p for p in self.failed(topology) if assignment.get(p) in leaving}

    def down(self, topology: str) -> set[str]:
        """Failed partitions that do not run at all."""
        return self.failed(topology) - self.moving(topology)

    def held(self, topology: str) -> frozenset[str]:
        """Partitions that only parked queries need: no plan runs them."""
        queries = self.parked.get(topology, frozenset())
        return self.deployments[topology].topology.exclusive_partitions(queries)

    def tentative(self, topology: str) -> dict[str, float]:
        """Queries that give tentative output, as long as what is down stays down -> what that counts for, as
        a share of their priority."""
        deployment = self.deployments[topology]
        if deployment.tentative is None:
            return {}
        return deployment.tentative.counted(deployment.assignment.keys() - self.down(topology))

    def idle(self, topology: str) -> set[str]:
        """Partitions that run for nothing: every query they work for is down, or none needs them. Those of
        parked queries stop anyway."""
        deployment = self.deployments[topology]
        without = deployment.topology.idle_partitions(self.down(topology) | deployment.unassigned)
        return set(without & deployment.assignment.keys() - self.held(topology))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """New assignment of one topology: what is to run from now on. `restore`: partitions brought back by
    it; `queries`: those that become whole; `parked`: partitions that ran and are stopped to make room.
    buffering: see `domain.messages.Plan`."""

    method: str
    assignment: Mapping[str, str]
    restore: tuple[str, ...]
    queries: tuple[str, ...] = ()
    parked: tuple[str, ...] = ()
    rollback: bool
    buffering: bool = False
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
    @property
    def name(self) -> str: ...

    def next_waves(self, cases: Sequence[TopologyCase], situation: Situation) -> Mapping[str, Wave | Waiting]:
        """What to do now for topologies that await a wave, by name; planned together where that matters."""


def origin_of(case: TopologyCase, situation: Situation) -> int:
    """The checkpoint that a plan of this topology starts from: what an operator asked for, if it is still in
    storage, else the newest."""
    deployment = situation.deployments[case.name]
    if case.origin is not None and case.origin in deployment.stored:
        return case.origin
    return deployment.latest


def checkpoint_words(case: TopologyCase, situation: Situation) -> str:
    checkpoint = origin_of(case, situation)
    if checkpoint == case.origin:
        return f"checkpoint {checkpoint}, which an operator chose"
    if case.origin is not None:
        gone = f" ({case.origin}, which an operator chose, is not in storage any more)"
    else:
        gone = ""
    if checkpoint:
        return f"checkpoint {checkpoint}, the newest that every partition completed{gone}"
    return "the empty state, because no checkpoint is complete yet"
