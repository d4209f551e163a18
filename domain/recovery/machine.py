"""The incident state machine: events in, instructions out, no I/O (after the manner of dask.distributed).

States of a case and what moves it on:

    failed     -> planned     the method found nodes for all or some of the failed partitions
    planned    -> published   the plan is in ZooKeeper
    published  -> replaying   the driver has applied a generation that is at least the plan's
    replaying  -> planned     partitions are still failed, and a further wave restores at least one query more
    replaying  -> verifying   nothing is failed, and the driver has nothing absent and nothing behind
    verifying  -> replaying   further partitions were lost; only these are restored
    verifying  -> verified    a global checkpoint newer than the plan's is complete
    planned, published -> failed   partitions were lost before the plan was known to be applied, or an
                              operator asked to plan anew; what it was to restore is failed again
    verified, dropped -> failed    further partitions were lost
    any        -> dropped     nothing is left to recover

Events are facts that may be repeated, late or out of order: a fact that says nothing new does nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from domain.recovery import events
from domain.recovery.incident import ENDED_PHASES, ENDED_STATES, PLAN_PHASES, Phase, State
from domain.recovery.instructions import Instruction
from domain.recovery.losses import Losses
from domain.recovery.orders import Orders
from domain.recovery.progress import Progress


class IncidentMachine(Losses, Progress, Orders):
    """One incident. Rebuilt from the database before each step, so its process may die at any moment.

    `deployments` holds every deployed topology, `nodes` every known node, `cases` those topologies that
    the incident concerns. `memory` is what the story remembers.
    """

    def handle_stimulus(self, *stimuli: events.Event) -> list[Instruction]:
        """Take in what happened, in order; the instructions must be carried out in order, all or none."""
        instructions: list[Instruction] = []
        for event in stimuli:
            if self.state in ENDED_STATES:
                break
            self.now = max(self.now, event.at)
            instructions += self._HANDLERS[type(event)](self, event)
            instructions += self._look_again()
        return instructions

    def _on_look(self, event: events.Looked) -> list[Instruction]:
        return []

    _HANDLERS: dict[type, Callable[..., list[Instruction]]] = {  # noqa: RUF012
        events.NodesLost: Losses._on_nodes_lost,
        events.PartitionsLost: Losses._on_partitions_lost,
        events.NodeReturned: Losses._on_returned,
        events.NodeArrived: Losses._on_arrived,
        events.DrainAsked: Losses._on_drain,
        events.PlanPublished: Progress._on_published,
        events.PlanRefused: Progress._on_refused,
        events.DriverReported: Progress._on_driver,
        events.CheckpointCompleted: Progress._on_checkpoint,
        events.TopologyWithdrawn: Progress._on_withdrawn,
        events.RecoveryAsked: Orders._on_recovery_asked,
        events.ApproveAsked: Orders._on_approved,
        events.PauseAsked: Orders._on_paused,
        events.ResumeAsked: Orders._on_resumed,
        events.ReplanAsked: Orders._on_replan,
        events.AbortAsked: Orders._on_abort,
        events.Looked: _on_look,
    }

    def validate_state(self) -> None:
        """Invariants between events; raises AssertionError naming what is wrong."""
        for name, case in self.cases.items():
            story = "\n".join(map(str, case.story))
            if case.phase is Phase.VERIFYING and case.failed:
                raise AssertionError(f"{name}: verifying with {sorted(case.failed)} failed\n{story}")
            deployment = self.deployments.get(name)
            if case.phase in PLAN_PHASES and deployment is not None and deployment.left_out - case.failed:
                forgotten = sorted(deployment.left_out - case.failed)
                raise AssertionError(f"{name}: {forgotten} are neither running nor failed\n{story}")
            if deployment is not None and case.generation > deployment.generation:
                raise AssertionError(
                    f"{name}: plan {case.generation} is ahead of generation {deployment.generation}\n{story}"
                )
        if self.state is State.CLOSED:
            unfinished = [name for name, case in self.cases.items() if case.phase not in ENDED_PHASES]
            if unfinished:
                raise AssertionError(f"incident {self.number} is closed, but {unfinished} are unfinished")
        keys = [(request.lost_node, request.attempt) for request in self.requests.values()]
        if len(keys) != len(set(keys)):
            raise AssertionError(f"incident {self.number} asked twice for the same replacement: {keys}")
