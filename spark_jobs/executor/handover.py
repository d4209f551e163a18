"""The state of partitions goes from node to node between two epochs, in a Spark job of two stages.

On the old node the first stage reads the states since the newest checkpoint. On the new one the second puts
the partition to that checkpoint, from the storage, and adds these states. All of them are needed, not only
the last: a fork starts from an older one. Where the guarantee is bounded there are no forks and no
checkpoints, and the newest state is all that goes; keys that the old node was asked to store are stored from
there. A partition for which anything goes wrong is not handed
over; the others are.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from domain.execution.job import (
    Handover,
    Layout,
    PartitionReport,
    TaskReport,
    decode_layout,
    handovers,
)
from spark_jobs.executor.level_context import Message
from spark_jobs.executor.storage import NodeStorage, PartitionStorage
from spark_jobs.executor.task import report_message
from spark_jobs.state.store import StateMissingError, StateVersion, state_versions

SEND, RECEIVE = 0, 1


def receive_state(
    storage: PartitionStorage, versions: dict[int, StateVersion], *, since: int | None, last: int
) -> None:
    """Put a partition to checkpoint `since`, and then to the states of the epochs up to `last`; None: to that
    of `last` alone. Raises `StateMissingError` if one of them has not arrived; the partition then has to be
    restored."""
    if since is not None:
        storage.restore(since)
    for epoch in range(last if since is None else since + 1, last + 1):
        if epoch not in versions:
            raise StateMissingError(f"the state of epoch {epoch} was not handed over")
        storage.store.receive(versions[epoch])


class HandoverTask:
    """One stage on one node: `stage` is SEND or RECEIVE."""

    def __init__(self, stage: int, layout: bytes, handover: bytes) -> None:
        self.stage = stage
        self.layout = layout
        self.handover = handover

    def __call__(
        self, slot: int, records: Iterator[tuple[int, Message | None]]
    ) -> Iterator[tuple[int, Message]]:
        layout, _ = decode_layout(self.layout)
        arrived = [message for _, message in records if message is not None]
        actual = os.environ.get("NODE_ID", "")
        if actual != layout.nodes[slot]:
            yield report_message(TaskReport(slot=slot, level=self.stage, node=actual, misplaced=True))
            return
        work = _Work(layout, handovers.decode(self.handover), slot)
        yield from work.send() if self.stage == SEND else work.receive(arrived)


class _Work:
    """What one node has to send or to receive."""

    def __init__(self, layout: Layout, handover: Handover, slot: int) -> None:
        self.layout, self.handover, self.slot = layout, handover, slot
        self.home = Path(os.environ["NODE_HOME"])

    def _storage(self, partition: str) -> NodeStorage:
        return NodeStorage(self.home, self.layout, partition, self.handover.attempt)

    def send(self) -> Iterator[tuple[int, Message]]:
        """One message for each state. Where one cannot be read the receiver misses it, and says so."""
        for partition, source in self.handover.sources.items():
            target = self.layout.slots.get(partition)
            if source != self.slot or target is None:
                continue
            storage, last = self._storage(partition), self.handover.epochs[partition]
            store, since = storage.store, self.handover.since
            if since is None:
                self._settle(storage, last)
            try:
                versions = [store.version(last)] if since is None else store.versions(after=since, last=last)
                for version in versions:
                    content = msgspec.msgpack.encode(version)
                    yield target, (RECEIVE, [], partition, version.manifest.epoch, content)
            except (LookupError, OSError, ValueError):
                continue

    def _settle(self, storage: NodeStorage, applied: int) -> None:
        """Have the keys stored that the state says are: no later job on this node tells that their epochs
        count. The state goes also where this fails, since without it more would be lost."""
        with contextlib.suppress(OSError):
            storage.settle_keys(applied)

    def receive(self, arrived: list[Message]) -> Iterator[tuple[int, Message]]:
        versions: dict[str, dict[int, StateVersion]] = {}
        for _, _, partition, epoch, content in arrived:
            versions.setdefault(partition, {})[epoch] = state_versions.decode(content)
        reports: dict[str, PartitionReport] = {}
        for partition in self.handover.sources:
            if self.layout.slots.get(partition) != self.slot:
                continue
            since, last = self.handover.since, self.handover.epochs[partition]
            error = ""
            try:
                receive_state(self._storage(partition), versions.get(partition, {}), since=since, last=last)
            except Exception as problem:  # the partition is restored instead; its neighbours are well
                error = f"{type(problem).__name__}: {problem}"
            reports[partition] = PartitionReport(epoch=last, error=error)
        yield report_message(
            TaskReport(slot=self.slot, level=RECEIVE, node=self.layout.nodes[self.slot], partitions=reports)
        )
