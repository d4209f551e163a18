"""State of an incident, its transition table, and what the story is told through."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from domain.planning import natural_key
from domain.planning.arrivals import Delay
from domain.recovery.blocking import Blocking
from domain.recovery.incident import (
    Deployment,
    NodeView,
    Phase,
    Request,
    State,
    TopologyCase,
)
from domain.recovery.incremental import Incremental
from domain.recovery.instructions import (
    AskForCheckpoint,
    EntryKind,
    Instruction,
    Involve,
    MarkPartitions,
    MarkPlan,
    Tell,
)
from domain.recovery.liveness import ImpossibleTransitionError
from domain.recovery.memory import Memory
from domain.recovery.method import Method


class Transitions:
    """What one incident knows, and how its cases get from one phase to another."""

    def __init__(
        self,
        *,
        number: int,
        deployments: dict[str, Deployment],
        nodes: dict[str, NodeView],
        state: State = State.OPEN,
        cases: dict[str, TopologyCase] | None = None,
        requests: Iterable[Request] = (),
        memory: Memory | None = None,
        max_utilisation: float = 0.8,
        opened_at: float | None = None,
        may_plan: bool = True,
        delay: Delay | None = None,
        blocking: Method | None = None,
        incremental: Method | None = None,
    ) -> None:
        """may_plan: whether everything observed has been fed, the newest checkpoints above all, so that
        plans can be made. delay: of the provider, for planners that look ahead."""
        self.number = number
        self.deployments = deployments
        self.nodes = nodes
        self.state = state
        self.cases = cases or {}
        self.requests = {request.key: request for request in requests}
        self.memory = memory or Memory()
        self.max_utilisation = max_utilisation
        self.opened_at = opened_at
        self.may_plan = may_plan
        self.delay = delay
        self.blocking = blocking or Blocking()
        self.incremental = incremental or Incremental()
        self.now = float("-inf")

    def _transition(self, case: TopologyCase, finish: Phase, why: str) -> list[Instruction]:
        action = self._TRANSITIONS.get((case.phase, finish))
        if action is None:
            subject = f"{case.name} in incident {self.number}"
            raise ImpossibleTransitionError(subject, case.phase, finish, case.story)
        start, case.phase = case.phase, finish
        case.story = [*case.story[-49:], (self.now, f"{start} -> {finish}", why)]
        return action(self, case, why)

    def _to_failed(self, case: TopologyCase, why: str) -> list[Instruction]:
        """A plan that is not known to be applied is thrown away. What it was to restore, and a rollback it
        carried, fall to the next one: the driver may have applied it or not."""
        case.failed |= case.restore
        case.unrestored |= case.restore
        case.forced = case.forced or not case.restore
        case.owed = case.owed or case.rollback
        fact = {
            "fact": "unrestored",
            "topology": case.name,
            "generation": self._generation(case.name),
            "partitions": sorted(case.restore),
            "forced": case.forced,
            "owed": case.owed,
        }
        return [
            MarkPlan(topology=case.name, generation=case.generation, state="superseded", reason=why),
            *self._tell("step", f"Plan {case.generation} of {case.name} no longer fits: {why}.", fact),
        ]

    def _failed_again(self, case: TopologyCase, why: str) -> list[Instruction]:
        return []

    def _to_planned(self, case: TopologyCase, why: str) -> list[Instruction]:
        return []

    def _back_to_replaying(self, case: TopologyCase, why: str) -> list[Instruction]:
        return self._tell("step", f"{case.name}: no checkpoint is awaited any more, {why}.")

    def _to_published(self, case: TopologyCase, why: str) -> list[Instruction]:
        return [
            MarkPlan(topology=case.name, generation=case.generation, state="published"),
            *self._tell("step", f"Plan {case.generation} of {case.name} is in force: {why}."),
        ]

    def _to_replaying(self, case: TopologyCase, why: str) -> list[Instruction]:
        case.applied, case.owed, case.origin = True, False, None
        case.unrestored = set()
        fact = {"fact": "applied", "topology": case.name, "generation": case.generation}
        return [
            MarkPlan(topology=case.name, generation=case.generation, state="applied"),
            MarkPartitions(topology=case.name, state="replaying", partitions=self._of_wave(case)),
            *self._tell("step", f"{case.name}: {why}.", fact),
        ]

    def _to_verifying(self, case: TopologyCase, why: str) -> list[Instruction]:
        fact = {"fact": "verifying", "topology": case.name, "generation": case.generation}
        return [
            MarkPartitions(topology=case.name, state="running"),
            AskForCheckpoint(topology=case.name),
            *self._tell(
                "step",
                f"{case.name}: {why}. The next complete checkpoint will prove that nothing depends on the "
                "lost nodes any more.",
                fact,
            ),
        ]

    def _to_verified(self, case: TopologyCase, why: str) -> list[Instruction]:
        return [
            MarkPlan(topology=case.name, generation=case.generation, state="verified"),
            *self._tell("outcome", f"{case.name} is recovered: {why}."),
        ]

    def _to_dropped(self, case: TopologyCase, why: str) -> list[Instruction]:
        case.failed, case.unrestored = set(), set()
        case.forced = case.owed = False
        case.origin = None
        fact = {"fact": "dropped", "topology": case.name, "generation": self._generation(case.name)}
        # Only a plan of this incident that is still current is affected; marking checks its state.
        mark = MarkPlan(topology=case.name, generation=case.generation, state="superseded", reason=why)
        told = self._tell("outcome", f"Nothing more to recover of {case.name}: {why}.", fact)
        return [*([mark] if case.wave else []), *told]

    _TRANSITIONS: dict[tuple[Phase, Phase], Callable[..., list[Instruction]]] = {  # noqa: RUF012
        (Phase.FAILED, Phase.PLANNED): _to_planned,
        (Phase.REPLAYING, Phase.PLANNED): _to_planned,
        (Phase.PLANNED, Phase.PUBLISHED): _to_published,
        (Phase.PUBLISHED, Phase.REPLAYING): _to_replaying,
        (Phase.REPLAYING, Phase.VERIFYING): _to_verifying,
        (Phase.VERIFYING, Phase.VERIFIED): _to_verified,
        (Phase.VERIFYING, Phase.REPLAYING): _back_to_replaying,
        (Phase.PLANNED, Phase.FAILED): _to_failed,
        (Phase.PUBLISHED, Phase.FAILED): _to_failed,
        (Phase.VERIFIED, Phase.FAILED): _failed_again,
        (Phase.DROPPED, Phase.FAILED): _failed_again,
        (Phase.FAILED, Phase.DROPPED): _to_dropped,
        (Phase.PLANNED, Phase.DROPPED): _to_dropped,
        (Phase.PUBLISHED, Phase.DROPPED): _to_dropped,
        (Phase.REPLAYING, Phase.DROPPED): _to_dropped,
        (Phase.VERIFYING, Phase.DROPPED): _to_dropped,
    }

    def _fail(
        self, name: str, partitions: Collection[str], why: str, *, down: bool = True
    ) -> list[Instruction]:
        """Add failed partitions to the topology's case, which is opened if there is none.

        A plan that is not known to be applied is thrown away when something goes down; one that is applied
        stays, and only what has failed newly is restored by the next. down: False for what is to move.
        """
        instructions: list[Instruction] = []
        case = self.cases.get(name)
        if case is None:
            deployment = self.deployments[name]
            case = self.cases[name] = TopologyCase(name=name, generation=deployment.generation)
            instructions.append(Involve(topology=name))
            instructions += self._down_since_before(case, partitions)
        elif case.phase in (Phase.PLANNED, Phase.PUBLISHED):
            instructions += self._transition(case, Phase.FAILED, why) if down else []
        elif case.phase is Phase.VERIFYING:
            instructions += self._transition(case, Phase.REPLAYING, why)
        elif case.phase in (Phase.VERIFIED, Phase.DROPPED):
            instructions += self._transition(case, Phase.FAILED, why)
            instructions += self._down_since_before(case, partitions)
        case.failed |= set(partitions)
        self.memory.verifying.pop(name, None)
        if down and partitions:
            instructions.append(
                MarkPartitions(topology=name, state="failed", partitions=frozenset(partitions))
            )
        return instructions

    def _down_since_before(self, case: TopologyCase, partitions: Collection[str]) -> list[Instruction]:
        """An incident that was aborted leaves partitions on lost nodes; no new plan may name these."""
        case.failed |= self.deployments[case.name].left_out
        more = self._down(case.name) - case.failed - set(partitions)
        if not more:
            return []
        case.failed |= more
        told = f"Down since before, of {case.name}: {', '.join(sorted(more, key=natural_key))}."
        return self._tell("evidence", told, self._lost_fact((), {case.name: more}))

    # ---- shared ----------------------------------------------------------------------------------

    def _tell(
        self,
        kind: EntryKind,
        text: str,
        fact: Mapping[str, Any] | None = None,
    ) -> list[Instruction]:
        if fact:
            self.memory.remember(fact)
        return [Tell(kind=kind, text=text, fact=fact or {})]

    def _down(self, topology: str) -> frozenset[str]:
        """Partitions that have no living node, or none at all."""
        alive = {node.name for node in self.nodes.values() if node.alive}
        deployment = self.deployments[topology]
        return frozenset(
            p for p in deployment.topology.partitions if deployment.assignment.get(p) not in alive
        )

    def _of_wave(self, case: TopologyCase) -> frozenset[str]:
        """The partitions that the last plan put back, as far as they have not failed again."""
        deployment = self.deployments.get(case.name)
        everything = case.rollback and deployment is not None
        back = deployment.assignment.keys() if everything and deployment is not None else case.restore
        return frozenset(back) - case.failed

    def _failed_fact(self, affected: Mapping[str, Collection[str]]) -> dict[str, Any]:
        return {
            name: {
                "generation": self.deployments[name].generation,
                "partitions": sorted(partitions, key=natural_key),
            }
            for name, partitions in affected.items()
        }

    def _lost_fact(
        self, nodes: Collection[str], affected: Mapping[str, Collection[str]], **more: Any
    ) -> dict[str, Any]:
        failed = self._failed_fact(affected)
        return {"fact": "lost", "at": self.now, "nodes": sorted(nodes), "failed": failed, **more}

    def _generation(self, topology: str) -> int:
        deployment = self.deployments.get(topology)
        if deployment is not None:
            return deployment.generation
        case = self.cases.get(topology)
        return case.generation if case is not None else 0
