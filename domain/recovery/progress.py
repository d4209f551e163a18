"""Events about plans and drivers: published, refused, applied, caught up, verified."""

from __future__ import annotations

from collections.abc import Collection

from domain.recovery import wording
from domain.recovery.events import (
    CheckpointCompleted,
    DriverReported,
    PlanPublished,
    PlanRefused,
    TopologyWithdrawn,
)
from domain.recovery.incident import ENDED_PHASES, PLAN_PHASES, Phase, TopologyCase
from domain.recovery.instructions import Instruction, MarkPartitions, MarkPlan
from domain.recovery.waves import Waves

APPLIED_STATES = frozenset({"replaying", "running", "degraded", "paused", "completed"})
CAUGHT_UP_STATES = frozenset({"running", "completed"})
LIVE_STATES = CAUGHT_UP_STATES | {"degraded"}
"""In these a partition that is neither absent nor behind works live."""
TERMINAL_DRIVER_STATES = frozenset({"completed"})


class Progress(Waves):
    """How far the plans of an incident have got."""

    def _on_published(self, event: PlanPublished) -> list[Instruction]:
        case = self._case_of_plan(event.topology, event.generation, {Phase.PLANNED})
        if case is None:
            return []
        return self._transition(case, Phase.PUBLISHED, "the plan is in ZooKeeper")

    def _on_refused(self, event: PlanRefused) -> list[Instruction]:
        """Another plan got into ZooKeeper first: what ours was to restore is failed still."""
        case = self._case_of_plan(event.topology, event.generation, {Phase.PLANNED, Phase.PUBLISHED})
        deployment = self.deployments.get(event.topology)
        if case is None or deployment is None or event.in_force <= event.generation:
            return []
        deployment.generation = max(deployment.generation, event.in_force)
        why = f"ZooKeeper already holds a plan of generation {event.in_force}"
        return self._fail(event.topology, frozenset(), why)

    def _on_driver(self, event: DriverReported) -> list[Instruction]:
        case = self._case_of_plan(event.topology, None, PLAN_PHASES)
        if case is None or event.generation < case.generation or event.state not in APPLIED_STATES:
            return []
        instructions: list[Instruction] = []
        if case.phase is Phase.PLANNED:
            instructions += self._transition(case, Phase.PUBLISHED, "the driver already has the plan")
        if case.phase is Phase.PUBLISHED:
            instructions += self._transition(
                case, Phase.REPLAYING, wording.applied(event.generation, case.checkpoint, event.head)
            )
        instructions += self._catch_up(case, event)
        everything = not (event.absent or event.behind or case.failed)
        if case.phase is Phase.REPLAYING and everything and event.state in CAUGHT_UP_STATES:
            instructions += self._transition(
                case, Phase.VERIFYING, f"caught up at epoch {event.committed} of {event.head}"
            )
        if case.phase is Phase.VERIFYING and event.state in TERMINAL_DRIVER_STATES:
            return [*instructions, *self._transition(case, Phase.VERIFIED, "the topology ran to its end")]
        newest = event.checkpoint if event.generation >= case.generation else 0
        return [*instructions, *self._verify(case, newest)]

    def _catch_up(self, case: TopologyCase, event: DriverReported) -> list[Instruction]:
        """Whether all that the last wave put back works live now; told once per wave."""
        if case.phase is not Phase.REPLAYING or self.memory.caught_up.get(case.name) == case.generation:
            return []
        wave = self._of_wave(case)
        if event.state not in LIVE_STATES or not wave or wave & (event.absent | event.behind):
            return []
        fact = {"fact": "caught_up", "topology": case.name, "generation": case.generation}
        text = wording.wave_caught_up(case.name, case.wave, wave, len(case.failed))
        return [
            MarkPlan(topology=case.name, generation=case.generation, state="caught_up"),
            MarkPartitions(topology=case.name, state="running", partitions=wave),
            *self._tell("step", text, fact),
        ]

    def _on_checkpoint(self, event: CheckpointCompleted) -> list[Instruction]:
        case = self._case_of_plan(event.topology, None, PLAN_PHASES)
        if event.topology in self.deployments:
            deployment = self.deployments[event.topology]
            deployment.latest = max(deployment.latest, event.checkpoint)
        if case is None or event.generation < case.generation:
            return []
        return self._verify(case, event.checkpoint)

    def _verify(self, case: TopologyCase, checkpoint: int) -> list[Instruction]:
        if case.phase is not Phase.VERIFYING or checkpoint <= case.checkpoint:
            return []
        return self._transition(
            case, Phase.VERIFIED, f"checkpoint {checkpoint} is complete on all partitions"
        )

    def _on_withdrawn(self, event: TopologyWithdrawn) -> list[Instruction]:
        case = self.cases.get(event.topology)
        self.deployments.pop(event.topology, None)
        if case is None or case.phase in ENDED_PHASES:
            return []
        return self._transition(case, Phase.DROPPED, event.reason)

    def _case_of_plan(
        self, topology: str, generation: int | None, phases: Collection[Phase]
    ) -> TopologyCase | None:
        """The case a message is about, if it is in one of these phases and about its present plan."""
        case = self.cases.get(topology)
        if case is None or case.phase not in phases or generation not in (None, case.generation):
            return None
        return case
