"""A simulated driver around the epoch machine."""

from __future__ import annotations

from typing import Any

from domain.execution.checkpoints import Checkpoints
from domain.execution.epoch_machine import EpochMachine, Recorded
from domain.execution.instructions import (
    AcknowledgementsRead,
    CheckpointPointed,
    EpochsPlanned,
    Instruction,
    JobEnded,
    JobFailed,
    PlaceTasks,
    PlanEpochs,
    PointTo,
    Publish,
    ReadAcknowledgements,
    RecordHomes,
    TasksPlaced,
    TurnBegun,
)
from domain.execution.job import PartitionReport, RunJob, TaskReport
from domain.messages import CheckpointAck, Plan
from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec


def chain(deterministic: bool = True) -> Topology:
    """S -> A."""
    source = OperatorSpec(name="S", kind="k", deterministic=deterministic)
    output = OperatorSpec(name="A", kind="k", inputs=(InputSpec(source="S"),), output=True)
    return Topology(TopologySpec(name="t", operators=(source, output)))


class Shell:
    """A simulated driver: answers instructions with events, and keeps them. `fail`: jobs fail."""

    def __init__(self, topology: Topology, recorded: Recorded, kept: tuple[int, ...] = ()) -> None:
        checkpoints = Checkpoints("t", topology.partitions, interval=10.0, since=0.0, kept=list(kept))
        self.machine = EpochMachine(topology, recorded, checkpoints, realtime=False, at=0.0)
        self.topology = topology
        self.plan = plan(1)
        self.head = recorded.head
        self.told: list[Instruction] = []
        self.fail = self.disturbed = False
        self.ready: set[str] = {"n1"}
        self.final = False
        self.absent: set[str] = set()
        self.acks: list[CheckpointAck] | None = None
        # What the tasks of the next job say, if it is not that all went well.
        self.reports: list[TaskReport] = []

    def turn(self, at: float = 1.0, **news: Any) -> list[Instruction]:
        """The instructions of one turn; each turn has one more epoch."""
        self.told, self.head = [], self.head + 1
        self.carry_out(self.machine.handle(self.news(at, **news)), at)
        return self.told

    def news(self, at: float, **news: Any) -> TurnBegun:
        return TurnBegun(at=at, plan=self.plan, ready=self.ready, **news)

    def carry_out(self, instructions: list[Instruction], at: float) -> None:
        for instruction in instructions:
            self.told.append(instruction)
            if isinstance(instruction, RecordHomes):
                self.absent = set()  # what was there runs elsewhere now
            answer = self.answer(instruction, at)
            if answer is not None:
                self.carry_out(self.machine.handle(answer), at)

    def answer(self, instruction: Instruction, at: float) -> Any:
        if isinstance(instruction, PlaceTasks):
            return TasksPlaced(at=at, absent=set(self.absent), reachable=True)
        if isinstance(instruction, PlanEpochs):
            return EpochsPlanned(at=at, head=self.head, ended=self.final, next_due=at + 1.5)
        if isinstance(instruction, RunJob):
            if self.fail:
                return JobFailed(at=at, error="stage failure", cancelled=False)
            reports, self.reports = self.reports or done(instruction), []
            return JobEnded(at=at, reports=reports, disturbed=self.disturbed)
        if isinstance(instruction, ReadAcknowledgements):
            acks = [ack(p, instruction.checkpoint) for p in self.topology.partitions]
            acks = self.acks if self.acks is not None else acks
            return AcknowledgementsRead(at=at, acks=acks)
        return CheckpointPointed(at=at, accepted=True) if isinstance(instruction, PointTo) else None


def done(job: RunJob) -> list[TaskReport]:
    """All partitions of a job have applied its last epoch."""
    lane = job.lane
    applied = {p: PartitionReport(epoch=lane.last) for p in lane.starts} if lane is not None else {}
    return [TaskReport(slot=0, level=0, node="n1", partitions=applied)]


def plan(generation: int, **changes: Any) -> Plan:
    return Plan(generation=generation, kind="deploy", assignment={"S[0]": "n1", "A[0]": "n1"}, **changes)


def ack(partition: str, checkpoint: int, attempt: int = 0) -> CheckpointAck:
    return CheckpointAck(
        partition=partition, checkpoint=checkpoint, generation=1, attempt=attempt, node="n1", size_bytes=1,
        uploaded_bytes=1, files=1, duration=0.1,
    )  # fmt: skip


def kinds(told: list[Instruction]) -> list[type]:
    return [type(instruction) for instruction in told]


def published(told: list[Instruction]) -> Publish:
    return [one for one in told if isinstance(one, Publish)][-1]


def checkpoint_under_way(shell: Shell) -> int:
    pending = shell.machine.checkpoints.pending
    return pending.checkpoint if pending is not None else 0
