"""What the partitions of one level on one node share: the job, what has arrived, and where outputs go."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from domain.execution.job import Job, decode_job, decode_layout
from domain.execution.lanes import Lane
from domain.execution.partition import Batch
from domain.topology.copies import is_branch, is_copy, operator_of, partition_of
from spark_jobs.executor.exchange import Routed, decode_table, encode_table, route
from spark_jobs.executor.key_saving import KeySaving
from spark_jobs.executor.present import GivingWay
from spark_jobs.executor.storage import NodeStorage, PartitionStorage
from spark_jobs.operators.base import Operator
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.operators.keyed_operator import KeyedOperator
from spark_jobs.sinks.registry import sink_create
from spark_jobs.state.buffers import OutputBuffers

# (level, targets, source partition, epoch, Arrow IPC) or (-1, [], "", 0, encoded TaskReport)
Message = tuple[int, list[str], str, int, bytes]


class LevelContext:
    """Messages come in by `deliver`; a partition hands its outputs to `emit`."""

    def __init__(self, level: int, slot: int, layout: bytes, job: bytes) -> None:
        self.layout, self.topology = decode_layout(layout)
        self.job: Job = decode_job(job)
        self.level = level
        self.slot = slot
        self.arrived: dict[str, list[Batch[pa.Table | None]]] = {}
        self.out: list[tuple[int, Message]] = []
        # Rows for partitions that do not run, where the guarantee is bounded: they count for none.
        self.lost_rows = 0
        self.home = Path(os.environ["NODE_HOME"])
        self._giving_way = GivingWay(self.home) if self.job.spare else None
        self.buffers = OutputBuffers(self.home, self.topology.name, self.layout.deployed)
        sink = sink_create(self.layout.spec, self.layout.outputs, force=self.layout.force)
        self.outputs = sink.outputs(
            deployed=self.layout.deployed, attempt=self.job.attempt, life=self.layout.life
        )
        own: dict[str, Operator] = {
            operator.name: catalogue.create(
                operator.kind,
                operator.params,
                [stream.source for stream in operator.inputs],
                self.layout.operator_modules,
            )
            for operator in self.layout.spec.operators
            if operator.inputs
        }
        self._keyed: dict[str, KeyedOperator] = {}
        self.operators: dict[str, Operator] = {
            operator.name: own[operator_of(operator.name)]
            for operator in self.topology.operators
            if operator.inputs
        }

    def storage(self, partition: str) -> PartitionStorage:
        """Of a partition, or a copy of it, on this node."""
        return NodeStorage(
            self.home,
            self.layout,
            partition_of(partition),
            self.job.attempt,
            self.outputs,
            branch=is_branch(partition),
            spread=self.job.spread,
        )

    def key_saving(self, partition: str) -> KeySaving | None:
        """Of a partition that keeps state, where the guarantee is bounded."""
        name = operator_of(partition)
        if not self.layout.spec.bounded or not self.topology.by_name[name].inputs:
            return None
        if name not in self._keyed:
            self._keyed[name] = KeyedOperator(self.topology, name, self.layout.operator_modules)
        keyed = self._keyed[name]
        return (
            KeySaving(self.home, self.layout, self.topology, partition, keyed) if keyed.keeps_state else None
        )

    def give_way(self) -> None:
        """Before each epoch of a partition: a replay in spare time waits for the present."""
        if self._giving_way is not None:
            self._giving_way.wait()

    def deliver(self, message: Message) -> None:
        _, targets, source, epoch, payload = message
        batch = Batch(source, epoch, decode_table(payload))
        for target in targets:
            self.arrived.setdefault(target, []).append(batch)

    def emit(self, lane: Lane, partition: str, epoch: int, table: pa.Table | None) -> Routed:
        """One epoch's output: to those in the lane who need it; to a buffer for those who will. Returns who
        it is for, whether they need it or not."""
        progress = self.job.progress
        routed = route(self.topology, partition, table, self.operators)
        for targets, rows in routed:
            following = [t for t in targets if lane.starts.get(t, epoch) < epoch <= lane.end(t)]
            waiting = [
                t
                for t in targets
                if not is_copy(t) and epoch > progress[t] and (t not in lane.starts or epoch > lane.end(t))
            ]
            if self.layout.spec.bounded:
                self.lost_rows += _rows_of(rows) * sum(t not in lane.starts for t in targets)
                waiting = []
            waiting = waiting if self.job.buffering else []
            if not following and not waiting:
                continue
            nearby = [t for t in following if self._is_here(t)]
            for target in nearby:
                self.arrived.setdefault(target, []).append(Batch(partition, epoch, rows))
            if len(nearby) < len(following) or waiting:
                # What is kept is copied several times more, by nodes whose CPU may be scarce now.
                payload = encode_table(rows, compressed=self.job.buffering)
                self._send([t for t in following if t not in nearby], partition, epoch, payload)
                if waiting:
                    self.buffers.append(partition, waiting, epoch, payload)
        return routed

    def give_back(self, lane: Lane, partition: str, epoch: int, table: pa.Table | None) -> None:
        """What a partition sent on feedback streams in the epoch before, to those of the lane that read it in
        this one."""
        for targets, rows in route(self.topology, partition, table, self.operators, feedback=True):
            reading = [t for t in targets if lane.starts.get(t, epoch) < epoch <= lane.end(t)]
            if reading:
                self._send(reading, partition, epoch, encode_table(rows))

    def _is_here(self, target: str) -> bool:
        """Whether the target runs in this very task."""
        here = self.layout.slots.get(target) == self.slot
        return here and self.layout.levels[target] == self.level

    def _send(self, targets: list[str], source: str, epoch: int, payload: bytes) -> None:
        """Through the exchange, or directly to a partition of the same task."""
        by_place: dict[tuple[int, int], list[str]] = {}
        for target in targets:
            if self._is_here(target):
                batch = Batch(source, epoch, decode_table(payload))
                self.arrived.setdefault(target, []).append(batch)
                continue
            slot = self.layout.slots.get(target)
            if slot is not None:
                level = self.layout.levels[target]
                by_place.setdefault((level, slot), []).append(target)
        for (level, slot), members in by_place.items():
            self.out.append((slot, (level, members, source, epoch, payload)))


def _rows_of(rows: pa.Table | None) -> int:
    return rows.num_rows if rows is not None else 0
