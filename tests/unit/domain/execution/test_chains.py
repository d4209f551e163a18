"""Lanes of a job run beside each other, on the nodes and levels that each concerns."""

from __future__ import annotations

from typing import Any

import msgspec

from domain.execution.chains import Chain, chains_of
from domain.execution.job import Job, LaneWork, Layout
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec

SPEC = TopologySpec(
    name="t",
    operators=(
        OperatorSpec(name="S", kind="k", parallelism=2),
        OperatorSpec(name="A", kind="k", parallelism=2, inputs=(InputSpec(source="S"),)),
        OperatorSpec(name="B", kind="k", inputs=(InputSpec(source="A"),), output=True),
    ),
)
LAYOUT = Layout(
    spec=SPEC,
    generation=1,
    nodes=["node-1", "node-2", "node-3"],
    slots={"S[0]": 0, "S[1]": 1, "A[0]": 0, "A[1]": 1, "B[0]": 2},
    levels={"S": 0, "A": 1, "B": 2},
    outputs="",
    checkpoints="",
    readers={},
)
PRESENT = LaneWork(last=9, starts={"S[0]": 8, "S[1]": 8, "A[0]": 8, "A[1]": 8})
REPLAY = LaneWork(last=5, starts={"B[0]": 3, "A[1]": 3}, serves={"A[0]": ["B[0]"]})


def job(*lanes: LaneWork, **more: Any) -> Job:
    return msgspec.structs.replace(Job(lanes=list(lanes), epochs=[], progress={}), **more)


def test_each_lane_has_tasks_only_where_it_works() -> None:
    """What serves a buffer works, too."""
    assert chains_of(LAYOUT, job(PRESENT, REPLAY)) == [Chain(0, (0, 1), (0, 1)), Chain(1, (0, 1, 2), (1, 2))]


def test_what_concerns_every_node_is_one_chain_of_everything() -> None:
    whole = [Chain(None, (0, 1, 2), (0, 1, 2))]
    for more in ({"checkpoint": 9}, {"trim_below": 3}, {"drop_buffers": True}):
        assert chains_of(LAYOUT, job(PRESENT, REPLAY, **more)) == whole
    assert chains_of(LAYOUT, job()) == whole


def test_partitions_that_are_nowhere_have_no_task() -> None:
    layout = msgspec.structs.replace(LAYOUT, slots={"S[0]": 1, "A[0]": 1})
    assert chains_of(layout, job(PRESENT, REPLAY)) == [Chain(0, (1,), (0, 1)), Chain(1, (1,), (1,))]
