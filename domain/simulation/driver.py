"""The driver of one simulated topology: it adopts plans, restores partitions, takes checkpoints and reports.

It keeps the rules of the real one: only a plan of a higher generation replaces the one in force; it is
adopted when all its nodes have executors, until then the old one goes on; with `rollback` every assigned
partition goes back to the checkpoint, without it only those to restore, whose ancestors replay in a fork
while nothing of theirs is undone; with a bounded guarantee what starts goes on in the present; and no
global checkpoint is complete while a partition is absent. A replica that has caught up takes over at once,
and none is added.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import numpy as np

from domain.recovery.events import CheckpointCompleted, DriverReported
from domain.recovery.instructions import CreatePlan
from domain.simulation.agenda import Agenda
from domain.simulation.fluid import INSTANT, NEVER, Fluid, Integers
from domain.simulation.scenario import Delays, takeovers
from domain.topology import Topology


class SimulatedDriver:
    """State of one topology's data plane. `changed` is called when partitions have stopped or started,
    `report_due` when a report would say something new, `applied` when the partitions of a plan have
    started."""

    def __init__(
        self,
        topology: Topology,
        *,
        agenda: Agenda,
        fluid: Fluid,
        changed: Callable[[], None],
        delays: Delays,
        alive: Collection[str],
        checkpoint_at: float,
        assignment: dict[str, str],
        replicas: dict[str, str],
        report_due: Callable[[str], None],
        applied: Callable[[CreatePlan], None],
    ) -> None:
        self.name = topology.name
        self._agenda, self._fluid, self._changed, self._delays = agenda, fluid, changed, delays
        self._alive, self._report_due, self._applied = alive, report_due, applied
        self._labels = topology.partitions
        self._bounded = topology.spec.bounded
        start = fluid.index[f"{self.name}/{self._labels[0]}"]
        self._all: Integers = np.arange(start, start + len(self._labels), dtype=np.int64)
        self.assignment = assignment
        self.replicas = replicas
        # What replicas have taken over under the plan in force, and where.
        self.acting: dict[str, str] = {}
        self.generation = 1
        self.checkpoint = 1
        self._moments = {0: 0.0, 1: checkpoint_at}
        self._checkpoint_generation = 1
        self._newest: CreatePlan | None = None

    @property
    def newest(self) -> int:
        """Generation of the plan in ZooKeeper."""
        return self.generation if self._newest is None else self._newest.generation

    # ---- plans -----------------------------------------------------------------------------------

    def publish(self, plan: CreatePlan) -> bool:
        """The plan is in ZooKeeper now; False if there is a newer one already."""
        if self._newest is not None and self._newest.generation >= plan.generation:
            return False
        self._newest = plan
        self._agenda.after(self._delays.adoption, lambda: self._adopt(plan))
        return True

    def _adopt(self, plan: CreatePlan) -> None:
        superseded = self._newest is not plan
        executors = all(node in self._alive for node in plan.assignment.values())
        if superseded or not executors or plan.generation <= self.generation:
            return
        self.generation = plan.generation
        self.assignment = dict(plan.assignment)
        self.acting = {}
        if plan.rollback:
            self.replicas = {}
        self._fluid.advance(self._agenda.now)
        restored = () if plan.kind == "move" else plan.restore
        back = self._all_of(plan.assignment if plan.rollback else restored)
        self._fluid.stop(back)
        unplanned = self._all_of(label for label in self._labels if label not in plan.assignment)
        self._fluid.stop(unplanned)
        self._changed()
        self._agenda.after(self._delays.restoration, lambda: self._restored(plan, back))

    def _restored(self, plan: CreatePlan, back: Integers) -> None:
        if self.generation != plan.generation:
            return
        self._fluid.advance(self._agenda.now)
        now, kept = self._agenda.now, self._moments[max(plan.checkpoint, self.checkpoint)]
        origin = now if self._bounded else kept
        first = int(self._all[0])
        # A node can have died while its partitions were loading.
        here = [self.assignment[self._labels[int(i) - first]] in self._alive for i in back]
        started = back[np.array(here, dtype=bool)]
        self._fluid.start(started, origin)
        self._changed()
        self._applied(plan)
        self._report_due(self.name)
        moments = self._fluid.caught_up()
        # The wave, and all that runs: the two moments at which a report says something new.
        for members in (started, self._all[self._fluid.running[self._all]]):
            finite = moments[members][moments[members] < NEVER]
            if finite.size:
                self._agenda.at(float(finite.max()), lambda: self._report_due(self.name))

    def lose(self, nodes: Collection[str]) -> Integers:
        """These nodes died now: what ran there stands still, unless a replica takes over. Returns what that
        was."""
        taken = {
            partition: node
            for partition, node in takeovers(self.assignment, self.replicas, nodes).items()
            if self._fluid.running[self._fluid.index[f"{self.name}/{partition}"]]
        }
        self.assignment.update(taken)
        self.acting = {p: node for p, node in (self.acting | taken).items() if node not in nodes}
        self.replicas = {p: node for p, node in self.replicas.items() if p not in taken and node not in nodes}
        lost = self._all_of(label for label, node in self.assignment.items() if node in nodes)
        self._fluid.stop(lost)
        return lost

    def _all_of(self, labels: Iterable[str]) -> Integers:
        return self._fluid.indices(f"{self.name}/{label}" for label in labels)

    # ---- checkpoints -----------------------------------------------------------------------------

    def checkpoint_take(self, done: Callable[[CheckpointCompleted], None], *, routine: bool) -> None:
        """Take a global checkpoint; `done` is called when it is complete, if it gets so."""
        if not self._level():
            return
        number, generation, moment = self.checkpoint + 1, self.generation, self._agenda.now

        def complete() -> None:
            self._fluid.advance(self._agenda.now)
            undisturbed = self.generation == generation and bool(self._fluid.running[self._all].all())
            if undisturbed and self.checkpoint < number:
                self.checkpoint, self._checkpoint_generation = number, generation
                self._moments[number] = moment
                event = CheckpointCompleted(
                    at=self._agenda.now, topology=self.name, checkpoint=number, generation=generation
                )
                done(event)

        self._agenda.after(self._delays.checkpoint, complete, routine=routine)

    def _level(self) -> bool:
        """Whether everything runs and has caught up."""
        self._fluid.advance(self._agenda.now)
        position = self._fluid.position[self._all]
        return bool(self._fluid.running[self._all].all() and (position >= self._agenda.now - INSTANT).all())

    # ---- reports ---------------------------------------------------------------------------------

    def report(self) -> DriverReported:
        """The driver's status as the coordinator reads it."""
        self._fluid.advance(self._agenda.now)
        running = self._fluid.running[self._all]
        late = running & (self._fluid.position[self._all] < self._agenda.now - 1e-6)
        absent = frozenset(self._labels[i] for i in np.flatnonzero(~running))
        state = "degraded" if absent else "replaying" if late.any() else "running"
        epoch = max(0, int(self._agenda.now))
        return DriverReported(
            at=self._agenda.now,
            topology=self.name,
            generation=self.generation,
            state=state,
            head=epoch,
            committed=epoch,
            checkpoint=self.checkpoint if self._checkpoint_generation >= self.generation else 0,
            absent=absent,
            behind=frozenset(self._labels[i] for i in np.flatnonzero(late)),
            acting=dict(self.acting),
        )
