"""What a turn of the epoch loop decides about branches, which give tentative output. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from domain.execution.faults import Faults
from domain.execution.instructions import Instruction, LookAgain, Note, TellProblem, TurnBegun
from domain.execution.job import PartitionReport, TaskReport
from domain.execution.lanes import Lane
from domain.execution.progress import ProgressTracker
from domain.topology import Topology
from domain.topology.copies import is_copy, partition_of

SMOOTHING = 0.1
"""Windows give rows in few epochs, so rates are a moving average over some twenty."""


class TentativeTurns:
    """`tracker` knows where branches are. `faults`: those of branches, which hold up nothing else. `rates`:
    rows that partitions give in an epoch, smoothed."""

    def __init__(self, topology: Topology, tracker: ProgressTracker) -> None:
        self.topology = topology
        self.tracker = tracker
        self.faults = Faults()
        self.rates: dict[str, float] = {}

    def look(self, news: TurnBegun) -> list[Instruction]:
        """Begin branches, and end those that are of no use any more; something to do only if some begin, so
        that tasks have to be placed. Operators that are not deterministic have none: their partitions all
        start again, so there is no exact state beside which they could go on."""
        wanted = news.tentative if self.topology.deterministic else {}
        before = set(self.tracker.branches.homes)
        if not (wanted or before):
            return []
        begun = self.tracker.branch(wanted, self.rates)
        now = set(self.tracker.branches.homes)
        if before - now:
            self.faults.forget(before - now)
        if not begun:
            return []
        fields = {"partitions": sorted(map(partition_of, now - before))[:10], "all": len(now)}
        return [LookAgain(trusted=True), Note("branches without lost inputs begin", fields, warning=True)]

    def observe(self, lane: Lane, reports: Sequence[TaskReport], before: Mapping[str, int]) -> None:
        """What a job of the present says of rates. before: the last epoch of each partition before it."""
        for name, report in (item for task in reports for item in task.partitions.items()):
            epochs = report.epoch - before[name]
            if is_copy(name) or lane.starts.get(name) != before[name] or epochs < 1:
                continue
            rate = report.rows_out / epochs
            known = self.rates.get(name, rate)
            self.rates[name] = known + SMOOTHING * (rate - known)

    def reported(self, results: Mapping[str, PartitionReport], at: float) -> list[TellProblem | Note]:
        """What the tasks of a job said of branches. One whose node lacks its state begins anew."""
        self.tracker.branches.drop(partition_of(name) for name, one in results.items() if one.missing)
        return [_of_branch(told) for told in self.faults.take(results, at)]


def _of_branch(told: TellProblem | Note) -> TellProblem | Note:
    """What is wrong with a branch, in the words of operators."""
    if isinstance(told, TellProblem):
        return dataclasses.replace(told, where=f"tentative output of {partition_of(told.where)}")
    return told
