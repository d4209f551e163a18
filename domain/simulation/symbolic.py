# ruff: noqa: S101 - the assertions are what this module is for
"""Symbolic operators, the disks of nodes that run them, and the record of what they did.

The state of a partition after an epoch is a digest of its state before and of all its inputs, and so is its
output; hence a single batch that is missing, doubled, reordered or of another epoch makes every later output
differ from that of a clean run, which is known.

Where operators are not deterministic, every digest has a throw of dice in it. No clean run is known then;
what must hold is that there was one history: each partition consumed exactly what its inputs last sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from domain.execution.lanes import Channel
from domain.topology import Topology

Digest = int


@dataclass(slots=True)
class Kept:
    """What a node keeps of a topology: partition -> epoch -> state, and channel -> epoch -> what was sent."""

    states: dict[str, dict[int, Digest]] = field(default_factory=dict)
    buffers: dict[Channel, dict[int, Digest]] = field(default_factory=dict)


class Disk(defaultdict[str, Kept]):
    """What a node keeps, by topology."""

    def __init__(self) -> None:
        super().__init__(Kept)


@dataclass(frozen=True, slots=True)
class Applied:
    """One epoch of one partition: the state before it, what it consumed, and what came of it."""

    before: Digest
    inputs: tuple[tuple[str, Digest], ...]
    state: Digest
    output: Digest


def epoch_apply(
    partition: str, epoch: int, state: Digest, inputs: Iterable[tuple[str, Digest]], chance: int = 0
) -> Applied:
    """One epoch; stable within a process but for `chance`, and that is all that is compared."""
    consumed = tuple(inputs)
    after = hash((partition, epoch, state, consumed, chance))
    return Applied(state, consumed, after, hash((after, "output")))


class History:
    """What each partition did last in each epoch, and the outputs of the queries."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.applied: dict[tuple[str, int], Applied] = {}
        self.outputs: dict[tuple[str, int], Digest] = {}
        self._expected = lru_cache(maxsize=None)(self._compute)

    def expected(self, partition: str, epoch: int) -> Applied:
        """What a partition does in an epoch of a clean run."""
        for earlier in range(1, epoch):
            self._expected(partition, earlier)  # keeps the recursion shallow
        return self._expected(partition, epoch)

    def _compute(self, partition: str, epoch: int) -> Applied:
        if epoch == 0:
            return Applied(0, (), 0, 0)
        sources = sorted(self.topology.upstream(partition))
        inputs = [(source, self.expected(source, epoch).output) for source in sources]
        return epoch_apply(partition, epoch, self.expected(partition, epoch - 1).state, inputs)

    def record(self, partition: str, epoch: int, done: Applied) -> None:
        """An epoch was applied, for the first time or again; the outputs of queries are written."""
        self.applied[partition, epoch] = done
        if partition not in self.topology.query_partitions:
            return
        if self.topology.deterministic:
            right = self.expected(partition, epoch).output
            assert done.output == right, f"{partition} wrote something else for epoch {epoch}"
        self.outputs[partition, epoch] = done.output

    def validate(self, committed: int) -> None:
        """Every query has one output, the right one, for every epoch up to `committed`, and all of them are
        of one history; raises AssertionError."""
        for partition in self.topology.partitions:
            state = 0
            for epoch in range(1, committed + 1):
                done = self.applied.get((partition, epoch))
                assert done is not None, f"{partition} lacks epoch {epoch}"
                assert done.before == state, f"{partition} had another state before epoch {epoch}"
                for source, payload in done.inputs:
                    sent = self.applied[source, epoch].output
                    assert payload == sent, f"{partition} consumed another epoch {epoch} of {source}"
                state = done.state
        for query in self.topology.queries:
            for epoch in range(1, committed + 1):
                sent = self.applied[query, epoch].output
                assert self.outputs.get((query, epoch)) == sent, f"{query} lacks epoch {epoch}"
