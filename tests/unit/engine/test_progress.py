"""Which epochs run next: whole epochs, in order, nobody skipped, nobody dragged along for ever."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.topology import Topology, load_topology
from spark_jobs.driver.progress import blocked_partitions, next_range
from spark_jobs.operators.catalogue import catalogue


def topology() -> Topology:
    def inputs(*names: str) -> list[dict[str, Any]]:
        return [{"from": name, "partitioning": "full"} for name in names]

    window = {"size_s": 5}
    return load_topology(
        {
            "name": "t",
            "operators": [
                {"name": "S", "kind": "source", "parallelism": 2, "params": {"path": "x.parquet"}},
                {
                    "name": "A",
                    "kind": "tumbling_window",
                    "inputs": inputs("S"),
                    "params": window,
                    "output": True,
                },
                {"name": "R", "kind": "source", "params": {"path": "x.parquet"}},
                {
                    "name": "B",
                    "kind": "tumbling_window",
                    "inputs": inputs("R"),
                    "params": window,
                    "output": True,
                },
                {"name": "C", "kind": "latest", "inputs": inputs("A", "B"), "output": True},
            ],
        },
        catalogue,
    )


TOPOLOGY = topology()
partitions = st.sets(st.sampled_from(TOPOLOGY.partitions))


def run(work: Any, progress: dict[str, int], absent: set[str]) -> dict[str, int]:
    """What the partitions do with a range: each goes on from its start while all its inputs deliver."""
    after = dict(progress)
    delivered: dict[str, set[int]] = {}
    for partition in TOPOLOGY.partitions:
        if partition in absent:
            continue
        delivered[partition] = set()
        at = work.progress[partition]
        for epoch in range(work.first, work.last + 1):
            inputs = TOPOLOGY.upstream(partition)
            if epoch == at + 1 and all(epoch in delivered.get(source, set()) for source in inputs):
                at = epoch
                delivered[partition].add(epoch)
        after[partition] = max(after[partition], at)
    return after


@given(
    st.dictionaries(st.sampled_from(TOPOLOGY.partitions), st.integers(0, 12)), partitions, st.integers(1, 4)
)
def test_everything_that_can_advance_reaches_the_head(
    behind: dict[str, int], absent: set[str], limit: int
) -> None:
    progress = {partition: behind.get(partition, 0) for partition in TOPOLOGY.partitions}
    # A partition is never ahead of its inputs.
    for partition in TOPOLOGY.partitions:
        for source in TOPOLOGY.upstream(partition):
            progress[partition] = min(progress[partition], progress[source])
    blocked = blocked_partitions(TOPOLOGY, absent)
    for _ in range(60):
        work = next_range(TOPOLOGY, progress, head=12, absent=absent, limit=limit)
        if work is None:
            break
        assert work.last - work.first < limit
        after = run(work, progress, absent)
        assert after != progress, "a job that advances nobody"
        progress = after
    assert all(progress[partition] == 12 for partition in TOPOLOGY.partitions if partition not in blocked)


def test_what_is_downstream_of_an_absent_partition_waits() -> None:
    assert blocked_partitions(TOPOLOGY, {"S[1]"}) == {"S[1]", "A[0]", "C[0]"}
    assert blocked_partitions(TOPOLOGY, set()) == set()


@pytest.mark.parametrize(("head", "expected"), [(5, (6, 5)), (7, (6, 7))])
def test_nothing_to_do_at_the_head(head: int, expected: tuple[int, int]) -> None:
    progress = dict.fromkeys(TOPOLOGY.partitions, 5)
    work = next_range(TOPOLOGY, progress, head=head, absent=set(), limit=8)
    assert (work.first, work.last) == expected if work else head == 5
