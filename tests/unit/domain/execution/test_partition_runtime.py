"""The partition runtime under random arrival orders, repetitions and losses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.execution.partition import (
    Acknowledge,
    Batch,
    DropDuplicate,
    PartitionRuntime,
    Process,
    Processed,
    SnapshotRequest,
)

INPUTS = ["A[0]", "A[1]", "B[0]"]


def drive(runtime: PartitionRuntime[str], events: list[Batch[str]]) -> list[tuple[int, tuple[str, ...]]]:
    """Carry out every instruction at once; returns what was processed."""
    done: list[tuple[int, tuple[str, ...]]] = []
    for event in events:
        waiting = list(runtime.handle(event))
        while waiting:
            instruction = waiting.pop(0)
            if isinstance(instruction, Process):
                done.append((instruction.epoch, tuple(batch.payload for batch in instruction.batches)))
                waiting += runtime.handle(Processed(instruction.epoch))
        runtime.validate_state()
    return done


@settings(deadline=None)
@given(st.permutations([(source, epoch) for source in INPUTS for epoch in range(1, 5)]), st.data())
def test_any_order_with_repetitions_processes_each_epoch_once_in_order(
    order: list[tuple[str, int]], data: st.DataObject
) -> None:
    repeats = data.draw(st.lists(st.sampled_from(order), max_size=6))
    positions = data.draw(st.lists(st.integers(0, len(order)), min_size=len(repeats), max_size=len(repeats)))
    for repeat, position in zip(repeats, positions, strict=True):
        order = [*order[:position], repeat, *order[position:]]
    runtime: PartitionRuntime[str] = PartitionRuntime("C[0]", INPUTS, 0)
    done = drive(runtime, [Batch(source, epoch, f"{source}@{epoch}") for source, epoch in order])
    assert done == [(epoch, tuple(f"{source}@{epoch}" for source in sorted(INPUTS))) for epoch in range(1, 5)]


@settings(deadline=None)
@given(
    st.integers(0, 5),
    st.sets(st.tuples(st.sampled_from(INPUTS), st.integers(1, 6)), max_size=18),
)
def test_an_epoch_without_all_its_inputs_is_never_skipped(
    progress: int, arrived: set[tuple[str, int]]
) -> None:
    runtime: PartitionRuntime[str] = PartitionRuntime("C[0]", INPUTS, progress)
    done = [epoch for epoch, _ in drive(runtime, [Batch(s, e, "") for s, e in sorted(arrived)])]
    expected = progress
    while all((source, expected + 1) in arrived for source in INPUTS):
        expected += 1
    assert runtime.progress == expected
    assert done == list(range(progress + 1, expected + 1))
    assert runtime.missing(expected + 1) == [s for s in sorted(INPUTS) if (s, expected + 1) not in arrived]


def test_what_was_processed_before_is_dropped() -> None:
    runtime: PartitionRuntime[str] = PartitionRuntime("C[0]", ["A[0]"], 7)
    assert runtime.handle(Batch("A[0]", 7, "again")) == [DropDuplicate("A[0]", 7)]
    assert runtime.handle(Batch("A[0]", 8, "new")) == [Process(8, (Batch("A[0]", 8, "new"),))]


def test_a_snapshot_is_acknowledged_at_its_epoch_and_not_before() -> None:
    runtime: PartitionRuntime[str] = PartitionRuntime("C[0]", ["A[0]"], 1)
    assert runtime.handle(SnapshotRequest(3)) == []
    runtime.handle(Batch("A[0]", 2, ""))
    assert runtime.handle(Processed(2)) == []
    runtime.handle(Batch("A[0]", 3, ""))
    assert runtime.handle(Processed(3)) == [Acknowledge(3)]
    assert runtime.handle(SnapshotRequest(3)) == [Acknowledge(3)]
    assert runtime.handle(SnapshotRequest(2)) == []


def test_a_source_runs_epoch_after_epoch() -> None:
    runtime: PartitionRuntime[str] = PartitionRuntime("S[0]", [], 4)
    assert runtime.start(4) == [DropDuplicate("S[0]", 4)]
    with pytest.raises(ValueError, match="cannot skip to 6"):
        runtime.start(6)
    assert runtime.start(5) == [Process(5, ())]
    runtime.handle(Processed(5))
    assert runtime.progress == 5


def test_a_batch_from_an_unknown_source_is_refused() -> None:
    runtime: PartitionRuntime[str] = PartitionRuntime("C[0]", ["A[0]"], 0)
    with pytest.raises(ValueError, match=r"C\[0\] does not subscribe to X\[0\]"):
        runtime.handle(Batch("X[0]", 1, ""))
