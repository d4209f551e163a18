"""A Spark job of the exact simulation that runs beside others, task by task."""

from __future__ import annotations

import random

from domain.execution.job import TaskReport
from tests.simulation.exact_job import MemoryJob


class MemoryReplay:
    """`result`: once it has run to its end. cancelled: it was told to end; some of its tasks may run on."""

    def __init__(self, job: MemoryJob, rng: random.Random) -> None:
        self.job = job
        self.result: tuple[list[TaskReport], bool] | None = None
        self.cancelled = False
        self._rng = rng
        self._steps = job.run()

    def step(self) -> None:
        """Run one task more, if there is any."""
        if self.result is not None:
            return
        try:
            next(self._steps)
        except StopIteration as ended:
            self.result = ended.value

    def cancel(self) -> None:
        """End it. Tasks that run already run to their end, and what they say is not heard."""
        for _ in range(self._rng.randint(0, 3)):
            self.step()
        self.cancelled = self.result is None
        self._steps.close()
