"""What feedback streams bring (asynchronous barrier snapshots, Algorithm 2): rows that a partition sent in an
epoch, which its state after that epoch holds and which others read in the next one.

They are sent before any partition of a job runs, from states that are there already. In transit between two
epochs is nothing else, so a checkpoint, a fork, a handover or a restored state has all of it.
"""

from __future__ import annotations

from domain.execution.lanes import Lane
from spark_jobs.executor.level_context import LevelContext
from spark_jobs.state.store import StateMissingError


class Returning:
    """What one partition sends back in a job."""

    def __init__(self, level: LevelContext, lane: Lane, partition: str) -> None:
        self.level, self.lane, self.partition = level, lane, partition
        self.targets = level.topology.fed_back[partition]
        self.error, self.missing = "", False

    def execute(self) -> bool:
        """Send it; where that fails, `error` says why, `missing` whether its node lacks the state. A
        partition that is to be put back to a damaged checkpoint finds that out again when it runs, and says
        so then."""
        try:
            self._send()
        except Exception as problem:  # its neighbours in the task are well
            self.error = f"{type(problem).__name__}: {problem}"
            self.missing = isinstance(problem, StateMissingError)
        return not self.error

    def _send(self) -> None:
        storage = self.level.storage(self.partition)
        if self.partition in self.level.job.restore:
            storage.bring(self.level.job.restore[self.partition])
        first, last = self.lane.returns[self.partition]
        for epoch in range(first, last + 1):
            if self._is_read_in(epoch):
                state = storage.store.open(storage.store.manifest(epoch - 1))
                self.level.give_back(self.lane, self.partition, epoch, state.sent_back)

    def _is_read_in(self, epoch: int) -> bool:
        lane = self.lane
        return any(lane.starts.get(target, epoch) < epoch <= lane.end(target) for target in self.targets)
