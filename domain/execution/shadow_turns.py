"""What a turn of the epoch loop decides about shadows: which there are, and when they take over. Pure.

Each method that changes where partitions or shadows are returns the instructions that put it on record; the
machine takes the new position over as recorded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from domain.execution.faults import Faults
from domain.execution.instructions import (
    Instruction,
    LookAgain,
    Note,
    PlaceTasks,
    RecordHomes,
    RecordPosition,
    TellProblem,
    TurnBegun,
)
from domain.execution.job import PartitionReport
from domain.execution.progress import ProgressTracker
from domain.execution.shadows import under
from domain.messages import Plan
from domain.topology import Topology
from domain.topology.copies import partition_of, shadow_of


class ShadowTurns:
    """`tracker` knows where shadows are. `faults`: those of shadows, which hold up nothing else."""

    def __init__(self, topology: Topology, tracker: ProgressTracker) -> None:
        self.topology = topology
        self.tracker = tracker
        self.faults = Faults()
        self._told_none = False

    # ---- which there are -------------------------------------------------------------------------

    def differ(self, news: TurnBegun) -> bool:
        """Whether other replicas are wanted than there are."""
        return self.tracker.shadows.differs(self._wanted(news), self.tracker.homes)

    def _wanted(self, news: TurnBegun) -> Mapping[str, str]:
        """A shadow whose operators are not deterministic would come to be in another state."""
        return news.replicas if self.topology.deterministic else {}

    def place(self, news: TurnBegun) -> list[Instruction]:
        """Have the replicas that there are to be. No checkpoint fails for it: none of them leaves a
        snapshot."""
        tracker = self.tracker
        if news.replicas and not self.topology.deterministic and not self._told_none:
            self._told_none = True
            names = ", ".join(one.name for one in self.topology.operators if not one.repeatable)
            what = f"none is run, because {names} may give other rows for the same input"
            return [TellProblem("replicas", what, "Take the replicas away, or replace these operators.")]
        if not tracker.shadows.place(self._wanted(news), tracker.homes, tracker.checkpoint):
            return []
        fields = {"partitions": sorted(map(partition_of, tracker.shadows.homes))[:10]}
        return [RecordPosition(tracker.position), LookAgain(trusted=True), Note("replicas placed", fields)]

    def make_room(self, plan: Plan, moves: Collection[str]) -> list[Instruction]:
        """State is to be handed over. Where a partition has its shadow on its new node, the state comes to
        the place of that one: it ends, and the log says so before."""
        shadows = self.tracker.shadows
        replaced = [p for p in moves if shadows.homes.get(shadow_of(p)) == plan.assignment.get(p)]
        if not replaced:
            return []
        shadows.drop(replaced)
        return [RecordPosition(self.tracker.position, durable=True)]

    def tasks(self, plan: Plan) -> PlaceTasks:
        """The tasks of a plan and of all copies."""
        return PlaceTasks(self.beside(plan), self.tracker.graph)

    def beside(self, plan: Plan) -> Plan:
        """A plan with the shadows and branches, each where it is."""
        homes = self.tracker.copies
        return replace(plan, assignment={**plan.assignment, **homes}) if homes else plan

    # ---- takeovers -------------------------------------------------------------------------------

    def known(self, news: TurnBegun, generation: int, absent: Collection[str]) -> TurnBegun:
        """What the news of a turn mean where shadows act that its plan does not know of: that plan has not to
        wait for nodes of partitions that act elsewhere. generation: of the plan applied last; absent:
        partitions that cannot run."""
        acting = self.tracker.acting
        if news.plan is None or not acting:
            return news
        acting = {partition: node for partition, node in acting.items() if partition not in absent}
        # Of what took over since it was applied, a plan knows nothing, whatever it says of earlier times.
        plan = replace(news.plan, acting={}) if news.plan.generation <= generation else news.plan
        return dataclasses.replace(news, plan=under(plan, acting), ready={*news.ready, *acting.values()})

    def take_over(self, plan: Plan, made: Plan, ready: Collection[str]) -> tuple[Plan, list[Instruction]]:
        """Partitions whose nodes are lost go on where their shadows are, which the replication plan has
        allowed beforehand. It is on disk before anything depends on it. plan: the one in force, made: the
        same as it was made; returns what is in force then."""
        tracker = self.tracker
        taken = tracker.take_over()
        given = tracker.give_back(made, ready)
        if not (taken or given):
            return plan, []
        back = {partition: tracker.homes[partition] for partition in given}
        fields = {"partitions": sorted(taken)[:10], "given_back": sorted(given)[:10]}
        return replace(plan, assignment={**plan.assignment, **taken, **back}), [
            RecordHomes(tracker.position, dict(tracker.homes)),
            LookAgain(trusted=True),
            Note("replicas take over", fields, warning=True),
        ]

    # ---- jobs ------------------------------------------------------------------------------------

    def reported(self, results: Mapping[str, PartitionReport], at: float) -> list[TellProblem | Note]:
        """What the tasks of a job said of shadows."""
        return [_of_replica(told) for told in self.faults.take(results, at)]


def _of_replica(told: TellProblem | Note) -> TellProblem | Note:
    """What is wrong with a shadow, in the words of operators."""
    if isinstance(told, TellProblem):
        return dataclasses.replace(told, where=f"replica of {partition_of(told.where)}")
    return told
