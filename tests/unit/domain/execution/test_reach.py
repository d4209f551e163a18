"""Reach and lanes computed by index ranges equal those computed channel by channel, for every kind of
stream."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.execution.lanes import Coverage, lane_between
from domain.execution.reach import blocked_partitions, consumed_before, reaches
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec


def topology(rng: random.Random) -> Topology:
    """Operators of one, two or four partitions; each reads one or two of those before it."""
    operators: list[OperatorSpec] = []
    for index in range(rng.randint(2, 7)):
        parallelism = rng.choice([1, 2, 4])
        chosen = rng.sample(operators, min(len(operators), rng.randint(0, 2)))
        inputs = tuple(_stream(rng, source, parallelism) for source in chosen)
        operators.append(OperatorSpec(name=f"o{index}", kind="k", parallelism=parallelism, inputs=inputs))
    return Topology(TopologySpec(name="t", operators=tuple(operators)))


def _stream(rng: random.Random, source: OperatorSpec, parallelism: int) -> InputSpec:
    if rng.random() < 0.5:
        return InputSpec(source=source.name, partitioning="full")
    if source.parallelism == parallelism:
        return InputSpec(source=source.name, partitioning="one_to_one")
    return InputSpec(
        source=source.name, partitioning="split" if source.parallelism < parallelism else "merge"
    )


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_ranges_give_what_channels_give(seed: int) -> None:
    rng = random.Random(seed)
    graph = topology(rng)
    progress = {partition: rng.randint(0, 6) for partition in graph.partitions}
    absent = {partition for partition in graph.partitions if rng.random() < 0.15}
    blocked = set(absent)
    reach: dict[str, int] = {}
    for partition in graph.partitions:
        if any(source in blocked for source in graph.upstream(partition)):
            blocked.add(partition)
        if partition not in blocked:
            reach[partition] = min(
                [progress[partition], *(reach[source] for source in graph.upstream(partition))]
            )
    assert blocked_partitions(graph, absent) == blocked
    assert reaches(graph, progress, absent) == reach
    coverage = Coverage()
    for source in graph.partitions:
        for target in graph.downstream(source):
            if rng.random() < 0.3:
                coverage.add((source, target), rng.randint(1, 3), rng.randint(2, 7), "n1")
    levels = set(rng.sample(range(7), 2))
    last = rng.randint(1, 8)
    lane = lane_between(graph, progress, reach, coverage, levels=levels, last=last)
    starts: dict[str, int] = {}
    serves: dict[str, dict[tuple[int, int], list[str]]] = {}
    for partition in reversed(graph.partitions):
        own = progress[partition]
        wanted = [own] if reach.get(partition) in levels and own < last else []
        for target in graph.downstream(partition):
            if target not in starts or starts[target] >= min(own, last):
                continue
            first, passed = starts[target] + 1, min(own, last)
            if coverage.covers((partition, target), first, passed):
                serves.setdefault(partition, {}).setdefault((first, passed), []).append(target)
            else:
                wanted.append(starts[target])
        if wanted:
            starts[partition] = min(wanted)
    served = lane.serves.get("n1", {})
    assert {p: {(a, b): t for a, b, t in mine} for p, mine in served.items()} == serves
    assert lane.starts == starts


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_what_was_consumed_before_is_found_by_ranges_as_by_channels(seed: int) -> None:
    rng = random.Random(seed)
    graph = topology(rng)
    progress = {partition: rng.randint(5, 6) for partition in graph.partitions}
    starts = {p: rng.randint(4, own) for p, own in progress.items() if rng.random() < 0.3}
    expected = any(
        start < progress[target] for source, start in starts.items() for target in graph.downstream(source)
    )
    assert consumed_before(graph, starts, progress) == expected


def test_a_feedback_stream_brings_what_was_sent_an_epoch_before() -> None:
    """A[1] has consumed what A[0] sent on it up to the epoch before its own."""
    operators = (
        OperatorSpec(name="S", kind="k"),
        OperatorSpec(
            name="A",
            kind="k",
            parallelism=2,
            inputs=(InputSpec(source="S"), InputSpec(source="A", feedback=True)),
        ),
    )
    graph = Topology(TopologySpec(name="t", operators=operators))
    progress = {"S[0]": 9, "A[0]": 9, "A[1]": 9}
    assert not consumed_before(graph, {"A[0]": 8}, progress)
    assert consumed_before(graph, {"A[0]": 7}, progress)
    assert not consumed_before(graph, {"S[0]": 9}, progress)
    assert consumed_before(graph, {"S[0]": 8}, progress)
    assert not consumed_before(graph, {"S[0]": 9}, {**progress, "A[0]": 2}), "A[0] does not run"
