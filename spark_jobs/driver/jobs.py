"""One Spark job: what it is told, whether it still makes sense, and what follows when Spark fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import structlog

from domain.execution.job import Job, LaneWork
from domain.execution.lanes import Lane
from domain.execution.progress import Conductor
from domain.topology import Topology
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.placing import Placing

log = structlog.get_logger()
MAX_FAILURES = 5
# More Spark jobs than one driver runs in its life.
JOBS_A_LIFE = 10**9


class Jobs:
    """`trim`: the next job removes state that no checkpoint needs any more. `drop_buffers`: it removes what
    was buffered. `problem(where, what, hint)` tells operators of a failure."""

    def __init__(
        self,
        topology: Topology,
        *,
        conductor: Conductor,
        placing: Placing,
        epoch_log: EpochLog,
        problem: Callable[[str, str, str], None],
    ) -> None:
        self.trim = False
        # Files of a driver that died may be about.
        self.drop_buffers = True
        self._topology = topology
        self._conductor = conductor
        self._placing = placing
        self._log = epoch_log
        self._problem = problem
        self._count = 0
        self._failures = 0
        epoch_log.begin_life()

    def make(self, lanes: Sequence[Lane], *, checkpoint: int, newest: int) -> Job:
        """The job that runs these lanes. checkpoint: the epoch at which they leave snapshots, 0 for none;
        newest: the newest complete checkpoint, whose state every node keeps."""
        conductor = self._conductor
        self._count += 1
        running = {partition for lane in lanes for partition in lane.starts}
        first = min((lane.first for lane in lanes), default=1)
        last = max((lane.last for lane in lanes), default=0)
        # Forks and restores start at the newest checkpoint or later, and need the epochs since.
        keep = min(conductor.committed, conductor.checkpoint)
        return Job(
            lanes=[LaneWork(last=lane.last, starts=lane.starts, serves=lane.serves) for lane in lanes],
            epochs=[self._log.plans[epoch] for epoch in range(first, last + 1) if _in_lanes(lanes, epoch)],
            progress=conductor.progress,
            restore={p: k for p, k in conductor.restore.items() if p in running or checkpoint},
            checkpoint=checkpoint,
            trim_below=keep if self.trim else 0,
            keep=[newest] if self.trim else [],
            buffering=conductor.buffering,
            drop_buffers=self.drop_buffers,
            attempt=0 if self._topology.deterministic else self._log.life * JOBS_A_LIFE + self._count,
        )

    def obsolete(self) -> bool:
        """Called in another thread while a job runs. What its tasks may still write then comes out the same
        when it is written again, if operators are deterministic. Otherwise everybody has to start again, and
        only a node that Spark would wait for in vain is worth that."""
        return (self._topology.deterministic and self._placing.disturbed()) or self._placing.forsaken()

    def done(self, job: Job) -> None:
        """It ran to its end, and what it was told has been done."""
        if job.drop_buffers:
            self.drop_buffers = False
            self._conductor.dropped()
        self.trim = self.trim and not job.trim_below

    def succeeded(self) -> None:
        """Spark works."""
        self._failures = 0

    def failed(self, error: Exception) -> None:
        """Spark's own failure: a job is repeatable, so it is tried again, after a pause that grows. Raises
        `RuntimeError` when that has no end."""
        self._failures += 1
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        log.exception("spark job failed", attempt=self._failures)
        self._problem("Spark job", text, "It is repeated; see the driver's log if it goes on failing.")
        if self._failures >= MAX_FAILURES:
            raise RuntimeError(f"{MAX_FAILURES} Spark jobs in a row failed; the last one: {text}") from error
        self._placing.look_again()
        time.sleep(min(0.2 * 2**self._failures, 3.0))


def _in_lanes(lanes: Sequence[Lane], epoch: int) -> bool:
    return any(lane.first <= epoch <= lane.last for lane in lanes)
