"""Which epochs run next: whole epochs, in order, for every partition that can advance."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.execution.lanes import Coverage, Lane, present_lane, replay_lane
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
        for node, mine in lane.serves.items():
            for first, last, targets in mine.get(partition, ()):
                for target in targets:
                    assert coverage.pieces((partition, target), first, last) == [(first, last, node)]
                    delivered.setdefault((partition, target), set()).update(range(first, last + 1))
        if partition not in lane.starts:
            continue
        at = lane.starts[partition]
        assert at <= progress[partition], "a partition starts from a state that it has not reached"
        while at < lane.end(partition) and all(
            at + 1 in delivered.get((source, partition), set()) for source in TOPOLOGY.upstream(partition)
        ):
            at += 1
            for target in TOPOLOGY.downstream(partition):
                delivered.setdefault((partition, target), set()).add(at)
        assert at == lane.end(partition), f"{partition} lacks an input of epoch {at + 1}"
        after[partition] = max(after[partition], at)
    return after


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(TOPOLOGY.partitions), st.integers(0, 12)),
    partitions,
    buffered,
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(0, 3),
    st.dictionaries(st.sampled_from(TOPOLOGY.partitions), st.sampled_from("xyz")),
    st.integers(0, 3),
)
def test_everything_that_can_advance_reaches_the_head(
    behind: dict[str, int],
    absent: set[str],
    runs: dict[tuple[str, str], tuple[int, int]],
    limit: int,
    replay: int,
    join: int,
    homes: dict[str, str],
    beside: int,
) -> None:
    """Whatever the progress of each partition: restored ones stand anywhere behind those they feed."""
    progress = {partition: behind.get(partition, 6) for partition in TOPOLOGY.partitions}
    coverage = Coverage()
    for channel, epochs in runs.items():
        coverage.add(channel, *epochs, "n1")
    blocked = blocked_partitions(TOPOLOGY, absent)
    for _ in range(80):
        ahead = present_lane(
            TOPOLOGY, progress, absent=absent, coverage=coverage, head=12, limit=limit, join=join
        )
        later = replay_lane(
            TOPOLOGY,
            progress,
            absent=absent,
            coverage=coverage,
            epochs=replay,
            homes=homes,
            beside=beside,
        )
        reached = {progress[partition] for partition in ahead.starts} if ahead is not None else set()
        together = len(reached) > 1
        lanes = [lane for lane in (ahead, None if together else later) if lane is not None]
        if not lanes:
            break
        advancing = [{p for p, start in lane.starts.items() if progress[p] == start} for lane in lanes]
        assert len(lanes) < 2 or not advancing[0] & advancing[1], "no partition advances in both"
        before = progress
        for lane in lanes:
            assert not blocked & lane.starts.keys()
            after = run(lane, before, coverage)
            progress = {p: max(progress[p], after[p]) for p in progress}
        assert progress != before, "a job that advances no partition"
    assert all(progress[partition] == 12 for partition in TOPOLOGY.partitions if partition not in blocked)


def standing(**epochs: int) -> dict[str, int]:
    return {partition: epochs.get(partition[0], 10) for partition in TOPOLOGY.partitions}


def coverage_of(**runs: tuple[int, int]) -> Coverage:
    coverage = Coverage()
    for name, epochs in runs.items():
        coverage.add((f"{name[0]}[0]", f"{name[1]}[0]"), *epochs, "n1")
    return coverage


def present(progress: dict[str, int], *, join: int = 0) -> Lane | None:
    return present_lane(TOPOLOGY, progress, absent=set(), coverage=Coverage(), head=11, limit=8, join=join)


def replay(progress: dict[str, int], *, epochs: int = 3, **runs: tuple[int, int]) -> Lane:
    lane = replay_lane(TOPOLOGY, progress, absent=set(), coverage=coverage_of(**runs), epochs=epochs)
    assert lane is not None
    return lane


def test_who_is_behind_does_not_hold_up_the_others() -> None:
    lane = present(standing(A=2))
    assert lane == Lane(11, 11, dict.fromkeys(("B[0]", "S[0]", "S[1]", "R[0]"), 10))
    # C waits for A; the sources compute what A missed again, and change nothing of theirs.
    behind = replay(standing(A=2))
    assert (behind.first, behind.last) == (3, 5)
    assert behind.starts == {"A[0]": 2, "S[0]": 2, "S[1]": 2}


def test_what_is_buffered_is_not_computed_again() -> None:
    behind = replay(standing(C=2), AC=(1, 10), BC=(1, 4))
    assert behind.serves == {"n1": {"A[0]": [(3, 5, ["C[0]"])]}}
    assert behind.starts == {"C[0]": 2, "B[0]": 2, "R[0]": 2}


def test_the_last_stretch_is_run_together() -> None:
    both = present(standing(A=8), join=2)
    assert both is not None
    assert (both.first, both.last) == (9, 11)
    assert both.starts == {"A[0]": 8, "S[0]": 8, "S[1]": 8, "R[0]": 10, "B[0]": 10, "C[0]": 10}
    assert present(standing(A=8), join=1) == present(standing(A=2))


def test_a_replay_ends_where_those_ahead_are() -> None:
    assert replay(standing(A=8), epochs=8).last == 10


def test_who_has_least_left_goes_first() -> None:
    behind = replay(standing(A=5, B=1), epochs=2)
    assert (behind.first, behind.last) == (6, 7)
    assert "B[0]" not in behind.starts


@pytest.mark.parametrize(
    ("beside", "homes", "end"),
    [
        (4, {"A[0]": "x", "B[0]": "y", "C[0]": "y"}, 7),
        (3, {"A[0]": "x", "B[0]": "y", "C[0]": "y"}, 3),
        (4, {"A[0]": "x", "B[0]": "y", "C[0]": "x"}, 7),
        (4, {"A[0]": "x", "B[0]": "x", "C[0]": "y"}, None),
        (4, {}, None),
    ],
    ids=[
        "with the others from then on",
        "as many epochs nearer",
        "without one",
        "on the same node",
        "nowhere",
    ],
)
def test_those_further_behind_come_along_on_nodes_of_their_own(
    beside: int, homes: dict[str, str], end: int | None
) -> None:
    progress = standing(A=5, B=1, C=1)
    coverage = coverage_of(AC=(1, 5), RB=(1, 10))
    lane = replay_lane(TOPOLOGY, progress, absent=(), coverage=coverage, epochs=2, homes=homes, beside=beside)
    assert lane is not None
    assert (lane.first, lane.last, lane.starts["A[0]"], lane.end("A[0]")) == (
        6 if end is None else 2,
        7,
        5,
        7,
    )
    assert ("B[0]" in lane.starts) is (end is not None)
    # Neither on a node of A's, nor without the epochs of B that it needs.
    assert ("C[0]" in lane.starts) is (end is not None and homes["C[0]"] == "y")
    assert end is None or lane.end("B[0]") == end
    assert lane.epochs == (6 if end == 7 else 2)
    run(lane, progress, coverage)


def test_what_would_run_twice_in_one_job_waits() -> None:
    """R is needed for A's level in this job, as it is, and in a fork for B: one after the other."""
    lane = Lane(6, 7, {"A[0]": 5, "R[0]": 5})
    assert lane.beside(Lane(2, 3, {"B[0]": 1, "R[0]": 1})) is None
    both = lane.beside(Lane(2, 3, {"B[0]": 1}, {"n1": {"R[0]": [(2, 3, ["B[0]"])]}}))
    assert both == Lane(
        2, 7, {"A[0]": 5, "R[0]": 5, "B[0]": 1}, {"n1": {"R[0]": [(2, 3, ["B[0]"])]}}, {"B[0]": 3}
    )


def test_where_all_are_together_nothing_is_replayed() -> None:
    together = dict.fromkeys(TOPOLOGY.partitions, 11)
    assert present(together) is None
    assert replay_lane(TOPOLOGY, together, absent=set(), coverage=Coverage(), epochs=3) is None


def test_what_is_downstream_of_an_absent_partition_waits() -> None:
    assert blocked_partitions(TOPOLOGY, {"S[1]"}) == {"S[1]", "A[0]", "C[0]"}
    assert blocked_partitions(TOPOLOGY, set()) == set()


def test_coverage_is_runs_of_epochs_that_grow_together() -> None:
    coverage, channel = Coverage(), ("a", "b")
    coverage.add(channel, 3, 5, "n1")
    coverage.add(channel, 9, 9, "n1")
    coverage.add(channel, 10, 10, "n1")
    assert coverage.covers(channel, 3, 5)
    assert coverage.covers(channel, 9, 10)
    assert not coverage.covers(channel, 5, 9)
    coverage.add(channel, 6, 8, "n1")
    assert coverage.runs == {"a": {"b": [(3, 10, "n1")]}}
    coverage.forget({"a"})
    assert not coverage.covers(channel, 3, 3)


def test_what_was_buffered_before_a_move_is_served_from_the_old_node() -> None:
    coverage, channel = Coverage(), ("a", "b")
    coverage.add(channel, 3, 7, "n1")
    coverage.add(channel, 8, 9, "n2")
    assert coverage.pieces(channel, 5, 9) == [(5, 7, "n1"), (8, 9, "n2")]
    coverage.forget_except({"n2"})
    assert coverage.pieces(channel, 5, 9) is None
    assert coverage.pieces(channel, 8, 9) == [(8, 9, "n2")]
    coverage.forget_except(())
    assert coverage.runs == {}


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.sampled_from(["n1", "n2", "n3"]))),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_coverage_knows_exactly_the_epochs_it_was_given_and_where_the_newest_copy_is(
    given_runs: list[tuple[int, int, str]], first: int, last: int
) -> None:
    coverage = Coverage()
    known: dict[int, str] = {}
    for low, high, node in given_runs:
        coverage.add(("a", "b"), low, high, node)
        known.update(dict.fromkeys(range(low, high + 1), node))
    if first > last:
        return
    pieces = coverage.pieces(("a", "b"), first, last)
    wanted = range(first, last + 1)
    if not known.keys() >= set(wanted):
        assert pieces is None
        return
    assert pieces is not None
    assert [(epoch, node) for low, high, node in pieces for epoch in range(low, high + 1)] == [
        (epoch, known[epoch]) for epoch in wanted
    ]
