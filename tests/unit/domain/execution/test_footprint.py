"""A job has tasks only on the nodes and levels that its lane concerns."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from domain.execution.footprint import Footprint, footprint_of
from domain.execution.job import Job, Layout
from domain.execution.lanes import Lane
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
    levels={"S[0]": 0, "S[1]": 0, "A[0]": 1, "A[1]": 1, "B[0]": 2},
    outputs="",
    checkpoints="",
    readers={},
)
PRESENT = Lane(9, 9, {"S[0]": 8, "S[1]": 8, "A[0]": 8, "A[1]": 8})
REPLAY = Lane(4, 5, {"B[0]": 3, "A[1]": 3}, serves={"node-1": {"A[0]": [(4, 5, ["B[0]"])]}})
EVERYWHERE = Footprint((0, 1, 2), (0, 1, 2))


def job(lane: Lane | None, **more: Any) -> Job:
    return msgspec.structs.replace(Job(lane=lane, epochs=[], progress={}), **more)


def test_a_job_has_tasks_only_where_it_works() -> None:
    """What serves a buffer works, too."""
    assert footprint_of(LAYOUT, job(PRESENT)) == Footprint((0, 1), (0, 1))
    assert footprint_of(LAYOUT, job(REPLAY)) == Footprint((0, 1, 2), (1, 2))


@pytest.mark.parametrize("more", [{"checkpoint": 9}, {"trim_below": 3}, {"drop_buffers": True}])
def test_what_concerns_every_node_has_tasks_everywhere(more: dict[str, Any]) -> None:
    assert footprint_of(LAYOUT, job(PRESENT, **more)) == EVERYWHERE


def test_a_job_without_a_lane_has_tasks_everywhere() -> None:
    assert footprint_of(LAYOUT, job(None)) == EVERYWHERE


def test_partitions_that_are_nowhere_have_no_task() -> None:
    layout = msgspec.structs.replace(LAYOUT, slots={"S[0]": 1, "A[0]": 1})
    assert footprint_of(layout, job(PRESENT)) == Footprint((1,), (0, 1))


def test_a_buffer_is_served_where_it_was_written() -> None:
    layout = msgspec.structs.replace(LAYOUT, slots={"S[0]": 1, "A[0]": 1})
    assert footprint_of(layout, job(REPLAY)) == Footprint((0,), (1,))
