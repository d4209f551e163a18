"""Tasks are told all that the epoch machine says of a job."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

from domain.execution.instructions import RunJob
from domain.execution.job import EpochPlan, LaneWork
from domain.execution.lanes import Lane
from spark_jobs.driver.loop import EpochLoop

PLAN = EpochPlan(epoch=9, slices={}, watermark=1, previous_watermark=0, at=1.0)
LANE = Lane(first=9, last=9, starts={"A[0]": 8}, serves={}, ends={"A[0]": 9}, returns={"A[0]": (8, 9)})
TOLD = RunJob(
    lane=LANE,
    progress={"A[0]": 8},
    restore={"A[0]": 5},
    checkpoint=9,
    trim_below=4,
    keep=[3],
    buffering=True,
    drop_buffers=True,
    attempt=6,
    spare=True,
    older=[2],
    fidelity={"A[0]": 0.5},
    origins={"A[0]~": 7},
    save=True,
    spread=2.5,
)


def test_every_field_is_told() -> None:
    loop: Any = SimpleNamespace(log=SimpleNamespace(plans={9: PLAN}))
    job = EpochLoop._job(loop, TOLD)
    assert job.epochs == [PLAN]
    assert job.lane == LaneWork(last=9, starts=LANE.starts, serves={}, ends=LANE.ends, returns=LANE.returns)
    for field in dataclasses.fields(RunJob):
        value = getattr(TOLD, field.name)
        if field.default is not dataclasses.MISSING:
            assert value != field.default, f"{field.name} is tried with another value than its default"
        assert field.name == "lane" or getattr(job, field.name) == value
