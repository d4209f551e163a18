"""What a turn of the epoch loop decides about branches, which give tentative output. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from domain.execution.faults import Faults
from domain.execution.flows import Flows
from domain.execution.instructions import Instruction, LookAgain, Note, TellProblem, TurnBegun
from domain.execution.job import PartitionReport
from domain.execution.progress import ProgressTracker
from domain.topology import Topology
from domain.topology.copies import partition_of


class TentativeTurns:
    """`tracker` knows where branches are. `faults`: those of branches, which hold up nothing else. `flows`:
    what partitions give to which."""

    def __init__(self, topology: Topology, tracker: ProgressTracker) -> None:
        self.topology = topology
        self.tracker = tracker
        self.faults = Faults()
        self.flows = Flows(topology)
        self._told_none = False

    def look(self, news: TurnBegun) -> list[Instruction]:
        """Begin branches, and end those that are of no use any more; something to do only if some begin, so
        that tasks have to be placed. Operators that are not deterministic have none: their partitions all
        start again, so there is no exact state beside which they could go on."""
        wanted = news.tentative if self.topology.deterministic else {}
        told = self._refused(wanted)
        wanted = {
            name: least for name, least in wanted.items() if name not in self.topology.in_or_below_cycles
        }
        before = set(self.tracker.branches.homes)
        if not (wanted or before):
            return told
        begun = self.tracker.branch(wanted, self.flows)
        now = set(self.tracker.branches.homes)
        if before - now:
            self.faults.forget(before - now)
        if not begun:
            return told
        fields = {"partitions": sorted(map(partition_of, now - before))[:10], "all": len(now)}
        return [
            *told,
            LookAgain(trusted=True),
            Note("branches without lost inputs begin", fields, warning=True),
        ]

    def _refused(self, wanted: Mapping[str, float]) -> list[Instruction]:
        """A branch would send its tentative rows round the cycle, and no epoch would end that."""
        names = sorted(self.topology.in_or_below_cycles.intersection(wanted))
        if not names or self._told_none:
            return []
        self._told_none = True
        what = f"{', '.join(names)} cannot give any, being in a cycle or below one"
        hint = "What was sent tentatively would go round and never become exact. These queries wait instead."
        return [TellProblem("tentative output", what, hint)]

    def reported(self, results: Mapping[str, PartitionReport], at: float) -> list[TellProblem | Note]:
        """What the tasks of a job said of branches. One whose node lacks its state begins anew."""
        self.tracker.branches.drop(partition_of(name) for name, one in results.items() if one.missing)
        return [_of_branch(told) for told in self.faults.take(results, at)]


def _of_branch(told: TellProblem | Note) -> TellProblem | Note:
    """What is wrong with a branch, in the words of operators."""
    if isinstance(told, TellProblem):
        return dataclasses.replace(told, where=f"tentative output of {partition_of(told.where)}")
    return told
