"""Tasks are told all that the epoch machine says of a job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from domain.execution.job import EpochPlan, Job, RunJob, decode_job
from domain.execution.lanes import Lane
from spark_jobs.driver.loop import EpochLoop

PLAN = EpochPlan(epoch=9, slices={}, watermark=1, previous_watermark=0, at=1.0)
LANE = Lane(9, 9, {"A[0]": 8}, {"node-1": {"B[0]": [(7, 8, ["A[0]"])]}}, {"A[0]": 9}, {"A[0]": (8, 9)})
TOLD = RunJob(lane=LANE, progress={"A[0]": 8}, checkpoint=9, older=[2], spread=2.5)


def test_every_field_is_told() -> None:
    loop: Any = SimpleNamespace(log=SimpleNamespace(plans={9: PLAN}))
    job = decode_job(msgspec.json.encode(EpochLoop._job(loop, TOLD)))
    assert job == Job(lane=LANE, progress={"A[0]": 8}, checkpoint=9, older=[2], spread=2.5, epochs=[PLAN])
