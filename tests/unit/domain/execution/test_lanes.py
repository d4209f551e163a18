"""Which epochs run next: whole epochs, in order, for every partition that can advance."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.execution.lanes import Coverage, Lane, next_lanes
from domain.execution.reach import blocked_partitions
from domain.topology import Topology, load_topology
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
channels = st.sampled_from([(p, t) for p in TOPOLOGY.partitions for t in TOPOLOGY.downstream(p)])
buffered = st.dictionaries(channels, st.tuples(st.integers(1, 8), st.integers(1, 12)))


def run(lane: Lane, progress: dict[str, int], coverage: Coverage) -> dict[str, int]:
    """Run a lane: each partition goes on from its start while it gets all its inputs."""
    after = dict(progress)
    delivered: dict[tuple[str, str], set[int]] = {}
    for partition in TOPOLOGY.partitions:
        for target in lane.serves.get(partition, ()):
            first, last = lane.starts[target] + 1, min(progress[partition], lane.last)
            assert coverage.covers((partition, target), first, last)
            delivered.setdefault((partition, target), set()).update(range(first, last + 1))
        if partition not in lane.starts:
            continue
        at = lane.starts[partition]
        assert at <= progress[partition], "a partition starts from a state that it has not reached"
        while at < lane.last and all(
            at + 1 in delivered.get((source, partition), set()) for source in TOPOLOGY.upstream(partition)
        ):
            at += 1
            for target in TOPOLOGY.downstream(partition):
                delivered.setdefault((partition, target), set()).add(at)
        assert at == lane.last, f"{partition} lacks an input of epoch {at + 1}"
        after[partition] = max(after[partition], at)
    return after


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(TOPOLOGY.partitions), st.integers(0, 12)),
    partitions,
    buffered,
    st.integers(1, 4),
    st.integers(1, 6),
)
def test_everything_that_can_advance_reaches_the_head(
    behind: dict[str, int],
    absent: set[str],
    runs: dict[tuple[str, str], tuple[int, int]],
    limit: int,
    replay: int,
) -> None:
    """Whatever the progress of each partition: restored ones stand anywhere behind those they feed."""
    progress = {partition: behind.get(partition, 6) for partition in TOPOLOGY.partitions}
    coverage = Coverage()
    for channel, epochs in runs.items():
        coverage.add(channel, *epochs)
    blocked = blocked_partitions(TOPOLOGY, absent)
    for _ in range(80):
        lanes = next_lanes(
            TOPOLOGY, progress, absent=absent, coverage=coverage, head=12, limit=limit, replay=replay
        )
        if not lanes:
            break
        assert len(lanes) <= 2
        before = progress
        for lane in lanes:
            assert not blocked & lane.starts.keys()
            after = run(lane, before, coverage)
            progress = {p: max(progress[p], after[p]) for p in progress}
        assert progress != before, "a job that advances no partition"
    assert all(progress[partition] == 12 for partition in TOPOLOGY.partitions if partition not in blocked)


def standing(**epochs: int) -> dict[str, int]:
    return {partition: epochs.get(partition[0], 10) for partition in TOPOLOGY.partitions}


def lanes(progress: dict[str, int], *, replay: int = 3, **runs: tuple[int, int]) -> list[Lane]:
    coverage = Coverage()
    for name, epochs in runs.items():
        coverage.add((f"{name[0]}[0]", f"{name[1]}[0]"), *epochs)
    return next_lanes(TOPOLOGY, progress, absent=set(), coverage=coverage, head=11, limit=8, replay=replay)


def test_who_is_behind_does_not_hold_up_the_others() -> None:
    present, replay = lanes(standing(A=2))
    assert (present.first, present.last, set(present.starts)) == (11, 11, {"S[0]", "S[1]", "R[0]", "B[0]"})
    # C waits for A; the sources compute what A missed again, and change nothing of theirs.
    assert (replay.first, replay.last) == (3, 5)
    assert replay.starts == {"A[0]": 2, "S[0]": 2, "S[1]": 2}


def test_what_is_buffered_is_not_computed_again() -> None:
    _, replay = lanes(standing(C=2), AC=(1, 10), BC=(1, 4))
    assert replay.serves == {"A[0]": ["C[0]"]}
    assert replay.starts == {"C[0]": 2, "B[0]": 2, "R[0]": 2}


def test_the_last_stretch_is_run_together() -> None:
    (both,) = lanes(standing(A=8))
    assert (both.first, both.last) == (9, 11)
    assert both.starts == {"A[0]": 8, "S[0]": 8, "S[1]": 8, "R[0]": 10, "B[0]": 10, "C[0]": 10}


def test_who_has_least_left_goes_first() -> None:
    _, replay = lanes(standing(A=5, B=1), replay=2)
    assert (replay.first, replay.last) == (6, 7)
    assert "B[0]" not in replay.starts


def test_without_replay_those_behind_wait() -> None:
    (present,) = lanes(standing(A=2), replay=0)
    assert "A[0]" not in present.starts


def test_what_is_downstream_of_an_absent_partition_waits() -> None:
    assert blocked_partitions(TOPOLOGY, {"S[1]"}) == {"S[1]", "A[0]", "C[0]"}
    assert blocked_partitions(TOPOLOGY, set()) == set()


def test_nothing_to_do_at_the_head() -> None:
    assert lanes(dict.fromkeys(TOPOLOGY.partitions, 11)) == []


def test_coverage_is_runs_of_epochs_that_grow_together() -> None:
    coverage, channel = Coverage(), ("a", "b")
    coverage.add(channel, 3, 5)
    coverage.add(channel, 9, 9)
    coverage.add(channel, 10, 10)
    assert coverage.covers(channel, 3, 5)
    assert coverage.covers(channel, 9, 10)
    assert not coverage.covers(channel, 5, 9)
    coverage.add(channel, 6, 8)
    assert coverage.runs == {"a": {"b": [(3, 10)]}}
    coverage.forget({"a"})
    assert not coverage.covers(channel, 3, 3)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))), st.integers(0, 30), st.integers(0, 30))
def test_coverage_knows_exactly_the_epochs_it_was_given(
    given_runs: list[tuple[int, int]], first: int, last: int
) -> None:
    coverage = Coverage()
    known: set[int] = set()
    for low, high in given_runs:
        coverage.add(("a", "b"), low, high)
        known.update(range(low, high + 1))
    if first <= last:
        assert coverage.covers(("a", "b"), first, last) == known.issuperset(range(first, last + 1))
