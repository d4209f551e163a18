"""What the loop makes of single instructions. Whole runs: `tests/simulation/test_engine.py`."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from domain.execution.instructions import PlaceTasks, RecordPlan, RecordPosition, Retire
from domain.execution.job import Division, EpochPlan
from domain.execution.progress import Position
from domain.messages import DeployedSpec
from domain.topology import OperatorSpec, Topology, TopologySpec
from spark_jobs.driver.loop import EpochLoop
from spark_jobs.sinks.base import SinkError

TOPOLOGY = Topology(TopologySpec(name="t", operators=(OperatorSpec(name="S", kind="source", output=True),)))
PLAN = EpochPlan(epoch=9, slices={}, watermark=1, previous_watermark=0, at=1.0)


def test_what_may_be_written_again_is_not_put_in_order() -> None:
    """A replay may begin with the epoch `log_below`."""
    loop: Any = Mock()
    EpochLoop._retire(loop, Retire(kept=[5, 9], log_below=6, latest=9))
    loop.sink.settle.assert_called_once_with(epoch=5)
    loop.log.trim.assert_called_once_with(6)
    loop._retention.keep.assert_called_once_with([5, 9], loop.placement.deployed, loop._record.return_value)


@pytest.mark.parametrize(("divided_at", "recorded"), [(None, True), (9, False), (5, True)])
def test_a_checkpoint_of_another_parallelism_keeps_its_record(
    divided_at: int | None, *, recorded: bool
) -> None:
    """It says of which partitions the states in it are."""
    division = Division(checkpoint=divided_at, operators=["S"]) if divided_at is not None else None
    loop: Any = SimpleNamespace(
        spec=DeployedSpec(name="t", version=3, spec={}, renewed=["S"]),
        log=SimpleNamespace(plans={9: PLAN}, origin_us=7, division=division),
        topology=TOPOLOGY,
    )
    record = EpochLoop._record(loop, 9, 4)
    assert (record is not None) is recorded
    if record is not None:
        said = (record.deployed, record.checkpoint, record.version, record.origin_us, record.renewed)
        assert said == (4, 9, 3, 7, ["S"])
        assert (record.plan, record.spec) == (PLAN, TOPOLOGY.to_data())


@pytest.mark.parametrize("durable", [False, True])
def test_a_position_is_in_the_log_before_readers_see_it(*, durable: bool) -> None:
    calls: Any = Mock()
    calls.clock.return_value = 3.0
    EpochLoop._record_position(calls, RecordPosition(Position(4), durable=durable))
    assert [name for name, *_ in calls.mock_calls] == ["clock", "log.commit", "_show"]
    calls.log.commit.assert_called_once_with(Position(4), 3.0, durable=durable)


def test_an_adopted_plan_is_recorded_with_what_it_is_of() -> None:
    loop: Any = Mock()
    loop.spec.computation, loop.placement.deployed = 3, 2
    EpochLoop._record_plan(loop, RecordPlan(generation=7, position=Position(4), homes={"S[0]": "n1"}))
    assert (loop.log.deployed, loop.log.computation) == (2, 3)
    loop.log.applied.assert_called_once_with(7, Position(4), {"S[0]": "n1"})


@pytest.mark.parametrize(("deterministic", "shown"), [(True, 9), (False, 5)])
def test_readers_see_what_can_never_be_undone(*, deterministic: bool, shown: int) -> None:
    loop: Any = Mock()
    loop.topology.deterministic, loop.topology.spec.bounded = deterministic, False
    assert EpochLoop._show(loop, Position(9, checkpoint=5))
    loop.sink.commit.assert_called_once_with(epoch=shown)
    loop.sink.commit.side_effect = SinkError("here", "it is full", "Make room.")
    assert not EpochLoop._show(loop, Position(9, checkpoint=5))
    loop._status.problem.assert_called_once_with("here", "it is full", "Make room.")


@pytest.mark.parametrize(
    ("deterministic", "disturbed", "forsaken", "obsolete"),
    [
        (True, True, False, True),
        (False, True, False, False),  # all partitions would have to start again
        (False, True, True, True),
        (True, False, True, True),
        (True, False, False, False),
    ],
)
def test_a_job_is_given_up_where_that_is_worth_it(
    *, deterministic: bool, disturbed: bool, forsaken: bool, obsolete: bool
) -> None:
    loop: Any = Mock()
    loop.topology.deterministic, loop.topology.spec.bounded = deterministic, False
    loop.placement.disturbed.return_value = disturbed
    loop.placement.forsaken.return_value = forsaken
    assert EpochLoop._obsolete(loop) is obsolete


def test_no_task_is_placed_before_earlier_ones_can_write_no_outputs() -> None:
    """What keeps the sink from being prepared is told, and tried again with the next turn."""
    loop: Any = Mock()
    loop.cluster.replaying = False
    loop._prepare_sink.side_effect = SinkError("here", "it is full", "Make room.")
    place = PlaceTasks(plan=Mock(), graph=Mock())
    loop._failed = partial(EpochLoop._failed, loop)
    failed: Any = EpochLoop._place_tasks(loop, place)
    assert (failed.where, failed.error, failed.hint) == ("here", "it is full", "Make room.")
    loop.placement.follow.assert_not_called()
    loop._prepare_sink.side_effect = None
    EpochLoop._place_tasks(loop, place)
    assert [name for name, *_ in loop.mock_calls if name in ("_prepare_sink", "placement.follow")] == [
        "_prepare_sink", "_prepare_sink", "placement.follow",
    ]  # fmt: skip
