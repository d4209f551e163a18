"""Symbolic operators, and the record of what they did.

The state of a partition after an epoch is a digest of its state before and of all its inputs, and so is its
output; hence a single batch that is missing, doubled, reordered or of another epoch makes every later output
differ from that of a clean run, which is known.

Where operators are not deterministic, every digest has a random number in it. No clean run is known then;
what must hold is that there was one history: each partition consumed exactly what its inputs last sent.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from domain.execution.job import EpochPlan
from domain.topology import Topology
from domain.topology.copies import partition_of
from spark_jobs.operators.base import EpochContext

Digest = int
TUPLES = 10
"""In each slice of a source."""


NOTHING_SENT = 0
"""What feedback streams bring in the first epoch."""


class ContradictionError(BaseException):
    """A write that no run may make. Not an `Exception`, because tasks catch and report those."""


class Sent(msgspec.Struct, frozen=True):
    """The output of a partition in an epoch, in place of a table."""

    source: str
    digest: Digest
    num_rows: int = 1


def nothing_sent(partition: str) -> Sent:
    """What is in transit from a partition before the first epoch."""
    return Sent(partition, NOTHING_SENT, 0)


class Applied(msgspec.Struct, frozen=True):
    """One epoch of one partition: the state before it, its inputs, and the results."""

    before: Digest
    inputs: tuple[tuple[str, Digest], ...]
    state: Digest
    output: Digest


class Version(msgspec.Struct, frozen=True):
    """The state of a partition after an epoch, and what it sent on feedback streams in it."""

    digest: Digest
    sent_back: Sent


@dataclass(slots=True)
class SymbolicState:
    """The state an operator works on: its digest, what it did last, and what it sends on feedback streams."""

    digest: Digest
    sent_back: Sent
    applied: Applied | None = None
    values: dict[str, Any] = field(default_factory=dict)

    def send_back(self, rows: Sent) -> None:
        self.sent_back = rows


def epoch_apply(
    partition: str, epoch: int, state: Digest, consumed: tuple[tuple[str, Digest], ...], chance: int = 0
) -> Applied:
    """Process one epoch. The digests are the same within a process, apart from `chance`; only such digests
    are compared."""
    after = hash((partition, epoch, state, consumed, chance))
    return Applied(state, consumed, after, hash((after, "output")))


def slice_read(partition: str, start: int, end: int, chance: int = 0) -> Digest:
    """The rows that a source partition reads between two offsets."""
    return hash((partition, start, end, chance))


def epoch_plan(topology: Topology, epoch: int) -> EpochPlan:
    ends = ({"tuple": TUPLES * (epoch - 1)}, {"tuple": TUPLES * epoch})
    slices = {source.name: ends for source in topology.sources}
    return EpochPlan(epoch=epoch, slices=slices, watermark=epoch, previous_watermark=epoch - 1, at=0.0)


class SymbolicOperator:
    """Of one partition. dry: the first epoch in which it gives no rows, so that feedback streams drain; its
    outputs still have a digest."""

    def __init__(self, partition: str, rng: random.Random | None, dry: int | None = None) -> None:
        self.partition, self.rng, self.dry = partition, rng, dry

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[Sent]], state: SymbolicState
    ) -> Sent:
        consumed = tuple((one.source, one.digest) for group in inputs.values() for one in group)
        chance = self.rng.getrandbits(60) if self.rng is not None else 0
        state.applied = epoch_apply(self.partition, context.epoch, state.digest, consumed, chance)
        state.digest = state.applied.state
        rows = 0 if self.dry is not None and context.epoch >= self.dry else 1
        return Sent(self.partition, state.applied.output, rows)


class History:
    """The last record of each partition and epoch, and the outputs of the queries."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.applied: dict[tuple[str, int], Applied] = {}
        self.outputs: dict[tuple[str, int], Digest] = {}
        # Epochs that shadows have applied.
        self.shadowed = 0
        # Epochs of branches, and how many of them lacked an input.
        self.branched = self.lacking = 0
        # What branches sent.
        self.sent: dict[tuple[str, int], set[Digest]] = {}
        self.tentative: dict[tuple[str, int], tuple[Digest, float]] = {}
        self._inputs = {p: sorted(topology.upstream(p)) for p in topology.partitions}
        self._before = {p: frozenset(topology.before(p)) for p in topology.partitions}
        # Inputs of epochs that feedback streams have brought.
        self.returned = 0
        self._clean = [dict.fromkeys(topology.partitions, Applied(0, (), 0, NOTHING_SENT))]

    def expected(self, partition: str, epoch: int) -> Applied:
        """The record of a partition and epoch in a clean run."""
        while len(self._clean) <= epoch:
            self._clean.append(self._next_clean(len(self._clean), self._clean[-1]))
        return self._clean[epoch][partition]

    def _next_clean(self, epoch: int, before: dict[str, Applied]) -> dict[str, Applied]:
        done: dict[str, Applied] = {}
        for partition, sources in self._inputs.items():
            if sources:
                inputs = tuple(
                    (source, (done if source in self._before[partition] else before)[source].output)
                    for source in sources
                )
                done[partition] = epoch_apply(partition, epoch, before[partition].state, inputs)
            else:
                read = slice_read(partition, TUPLES * (epoch - 1), TUPLES * epoch)
                done[partition] = Applied(0, (), 0, read)
        return done

    def record(self, partition: str, epoch: int, done: Applied) -> None:
        """Note that the state after an epoch was committed, for the first time or again."""
        self.applied[partition, epoch] = done

    def shadow(self, partition: str, epoch: int, done: Applied) -> None:
        """A shadow has applied an epoch: it must be in the state in which its partition is."""
        if done != self.expected(partition, epoch):
            raise ContradictionError(f"the shadow of {partition} applied something else in epoch {epoch}")
        self.shadowed += 1

    def branch(self, partition: str, epoch: int, done: Applied) -> None:
        """A branch has applied an epoch: inputs may lack, but none is there twice, and each is what the
        partition sent, or its branch."""
        sources = [partition_of(source) for source, _ in done.inputs]
        known = self._inputs[partition]
        if len(set(sources)) < len(sources) or not sources or not set(sources) <= set(known):
            raise ContradictionError(f"the branch of {partition} read {done.inputs} in epoch {epoch}")
        for source, payload in done.inputs:
            sent = self.sent.get((partition_of(source), epoch), set())
            if payload != self.expected(partition_of(source), epoch).output and payload not in sent:
                raise ContradictionError(f"the branch of {partition} read another epoch {epoch} of {source}")
        self.sent.setdefault((partition, epoch), set()).add(done.output)
        self.branched += 1
        self.lacking += len(sources) < len(known)

    def write_tentative(self, query: str, epoch: int, output: Digest, fidelity: float) -> None:
        """Note that tentative output of a query was written."""
        if not 0.0 < fidelity <= 1.0:
            raise ContradictionError(f"tentative output of {query} for epoch {epoch} of fidelity {fidelity}")
        self.tentative[query, epoch] = output, fidelity

    def write(self, query: str, epoch: int, output: Digest) -> None:
        """Note that the output of a query was written."""
        if self.topology.deterministic and output != self.expected(query, epoch).output:
            raise ContradictionError(f"{query} wrote something else for epoch {epoch}")
        self.outputs[query, epoch] = output

    def validate(self, committed: int) -> None:
        """Raises AssertionError unless every query has exactly the right output for every epoch up to
        `committed`, and all outputs belong to one history."""
        for partition in self.topology.partitions:
            state = 0
            for epoch in range(1, committed + 1):
                done = self.applied.get((partition, epoch))
                assert done is not None, f"{partition} lacks epoch {epoch}"
                assert done.before == state, f"{partition} had another state before epoch {epoch}"
                sources = [source for source, _ in done.inputs]
                assert sources == self._inputs[partition], f"{partition} lacks an input of epoch {epoch}"
                for source, payload in done.inputs:
                    sent = self._sent_for(source, partition, epoch)
                    assert payload == sent, f"{partition} consumed another epoch {epoch} of {source}"
                state = done.state
        self.returned = committed * sum(len(targets) for targets in self.topology.fed_back.values())
        for query in self.topology.queries:
            for epoch in range(1, committed + 1):
                sent = self.applied[query, epoch].output
                assert self.outputs.get((query, epoch)) == sent, f"{query} lacks epoch {epoch}"

    def _sent_for(self, source: str, partition: str, epoch: int) -> Digest:
        """What an input gave to a partition in an epoch: what it sent then, or an epoch before on a feedback
        stream."""
        sent = epoch if source in self._before[partition] else epoch - 1
        return self.applied[source, sent].output if sent else NOTHING_SENT
