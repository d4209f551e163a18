"""Whether Spark ran tasks of a job a second time without any executor being lost.

If a task cannot fetch what another one sent, Spark runs the stage before it again, in part, although all
executors live: in a new attempt of the stage, whose tasks count their own attempts from 0. PySpark does not
tell tasks the attempt of their stage. An accumulator does: Spark adds what a task put there each time one of
its runs ends, and has added it before the job ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from pyspark import Accumulator, SparkContext

from domain.execution.job import TaskReport
from spark_jobs.executor.stages import CountedStage


class TaskRuns:
    """Of one job at a time. Jobs that run side by side need one each."""

    def __init__(self, context: SparkContext) -> None:
        # One for all jobs: Spark keeps each that was ever made.
        self._runs: Accumulator[int] = context.accumulator(0)

    def counting(self, stages: Sequence[Any]) -> list[Any]:
        """The stages of a job, whose tasks count when they end."""
        return [CountedStage(stage, self._runs) for stage in stages]

    def begin(self, tasks: int) -> Callable[[list[TaskReport]], list[TaskReport]]:
        """Call it before a job of so many tasks in counting stages. What it returns takes the reports of the
        job, which all say `repeated` if more tasks have ended."""
        before = self._runs.value

        def told(reports: list[TaskReport]) -> list[TaskReport]:
            if self._runs.value - before <= tasks:
                return reports
            return [msgspec.structs.replace(report, repeated=True) for report in reports]

        return told
