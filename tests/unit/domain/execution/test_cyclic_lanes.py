"""Reach and lanes where feedback streams lead back: the partitions of a cycle have one reach, and a lane ends
where what feedback streams bring has not been sent yet."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.execution.job import placed_levels
from domain.execution.lanes import Coverage, Lane, present_lane, replay_lane
from domain.execution.reach import blocked_partitions, reaches
from domain.topology import Topology
from tests.simulation.cyclic_graphs import cyclic_topology
from tests.unit.domain.topology.test_cycles import LOOP, operator, topology

AT_FIVE = dict.fromkeys(LOOP.partitions, 5)


def replayed(**behind: int) -> Lane:
    progress = AT_FIVE | {f"{name}[0]": epoch for name, epoch in behind.items()}
    lane = replay_lane(LOOP, progress, absent=(), coverage=Coverage(), epochs=8)
    assert lane is not None
    return lane


def test_a_reader_of_feedback_streams_replays_many_epochs() -> None:
    """What it reads is in the states of those that sent it: none of them runs again."""
    lane = replayed(B=2)
    assert (lane.first, lane.last, lane.starts) == (3, 5, {"B[0]": 2, "S[0]": 2})
    assert lane.returns == {"A[0]": (3, 5), "A[1]": (3, 5)}


def test_a_sender_on_feedback_streams_replays_one_epoch_at_a_time() -> None:
    """What others need for the next epoch is what it sends in this one."""
    lane = replayed(A=2)
    assert (lane.first, lane.last) == (3, 3)
    assert lane.starts == dict.fromkeys(["A[0]", "B[0]", "B[1]", "S[0]"], 2)


def test_what_is_below_a_cycle_has_its_epochs_computed_again_from_states() -> None:
    lane = replayed(D=2)
    assert (lane.last, lane.starts) == (5, dict.fromkeys(["D[0]", "B[0]", "B[1]", "S[0]"], 2))


def test_the_present_of_a_cycle_is_one_epoch() -> None:
    lane = present_lane(LOOP, AT_FIVE, absent=(), coverage=Coverage(), head=9, limit=4, join=1)
    assert lane is not None
    assert (lane.first, lane.last, len(lane.starts)) == (6, 6, 7)


def test_what_is_beside_a_cycle_that_waits_runs_many() -> None:
    lane = present_lane(LOOP, AT_FIVE, absent={"A[1]"}, coverage=Coverage(), head=9, limit=4, join=1)
    assert lane is not None
    assert (lane.last, lane.starts, lane.returns) == (9, {"S[0]": 5, "E[0]": 5}, {})


def test_those_ahead_wait_for_a_cycle_that_joins() -> None:
    progress = AT_FIVE | dict.fromkeys(["B[0]", "B[1]", "A[0]", "A[1]", "D[0]"], 4)
    lane = present_lane(LOOP, progress, absent=(), coverage=Coverage(), head=9, limit=4, join=1)
    assert lane is not None
    assert (lane.last, lane.starts["S[0]"], "E[0]" in lane.starts) == (5, 4, False)


def test_lanes_beside_one_another_return_what_both_read() -> None:
    one = Lane(3, 4, {"B[0]": 2}, returns={"A[0]": (3, 4)})
    other = Lane(6, 6, {"B[1]": 5}, returns={"A[0]": (6, 6), "A[1]": (6, 6)})
    both = one.beside(other)
    assert both is not None
    assert both.returns == {"A[0]": (3, 6), "A[1]": (6, 6)}


def test_readers_of_feedback_streams_are_not_in_the_first_level() -> None:
    """There, what they read is sent."""
    chain = topology(operator("S"), operator("B", "s a*"), operator("A", "b"))
    assert placed_levels(chain, dict.fromkeys(chain.partitions, "n")) == {"S[0]": 0, "B[0]": 1, "A[0]": 1}


def brute_reach(graph: Topology, progress: dict[str, int], absent: set[str]) -> dict[str, int]:
    """Channel by channel, until nothing changes any more."""
    reach = {p: -1 if p in absent else progress[p] for p in graph.partitions}
    while True:
        next_reach = {p: min([reach[p], *(reach[s] for s in graph.upstream(p))]) for p in graph.partitions}
        if next_reach == reach:
            return {p: epoch for p, epoch in reach.items() if epoch >= 0}
        reach = next_reach


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_reach_and_lanes_of_cycles(seed: int) -> None:
    """A lane brings some partition further, and returns only what is in states on disk."""
    rng = random.Random(seed)
    graph = cyclic_topology(rng)
    progress = {partition: rng.randint(0, 4) for partition in graph.partitions}
    absent = {partition for partition in graph.partitions if rng.random() < 0.1}
    reach = brute_reach(graph, progress, absent)
    assert reaches(graph, progress, absent) == reach
    assert blocked_partitions(graph, absent) == set(graph.partitions) - reach.keys()
    present = present_lane(graph, progress, absent=absent, coverage=Coverage(), head=9, limit=3, join=2)
    replay = replay_lane(
        graph, progress, absent=absent, coverage=Coverage(), epochs=3, beside=2,
        homes={partition: rng.choice("ab") for partition in graph.partitions},
    )  # fmt: skip
    assert (present is not None) == bool(reach)
    assert (replay is not None) == (len(set(reach.values())) > 1)
    for lane in (present, replay):
        if lane is None:
            continue
        assert any(lane.end(p) > progress[p] for p in lane.starts)
        for sender, targets in graph.fed_back.items():
            for target in targets:
                if target in lane.starts:
                    first, last = lane.returns[sender]
                    assert first <= lane.starts[target] + 1
                    assert lane.end(target) <= min(last, progress[sender] + 1)
