"""The structure-aware planner (section IV-C, Algorithms 3 to 5 of the paper on PPA)."""

from __future__ import annotations

from typing import ClassVar, Literal

from domain.fidelity import FidelityModel
from domain.replication.greedy import most_missed
from domain.replication.growth import grown, in_order
from domain.replication.planner import Choice, ReplicationPlanner
from domain.topology import Topology

Structure = Literal["structured", "full", "general"]


class StructureAware(ReplicationPlanner):
    """Extends plans, again and again, by a partition with the rest of a complete tree around it, so nothing
    is chosen that gives nothing. Which rest follows from the structure, without enumerating trees:
    `reach.py`. Which plans are extended: `growth.py`. Where `Greedy` does better its plan is taken.
    """

    name: ClassVar[str] = "structure_aware"

    def choose(self, model: FidelityModel, budget: int) -> Choice:
        growth = grown(model, budget)
        ranked = frozenset(most_missed(model)[:budget])
        found, baseline = model.fidelity(model.flags([frozenset().union(*growth.steps), ranked]))
        if baseline > found:
            growth = in_order(model, ranked)
        note = f"a {structure_of(model.topology)} topology"
        if growth.coarse:
            note += "; it is large, so several extensions were taken between two comparisons"
        return Choice(growth.steps, note=note)


def structure_of(topology: Topology) -> Structure:
    """`structured`: only what output operators send is `full`; `full`: every stream is; else `general`."""
    streams = [stream for operator in topology.operators for stream in operator.inputs if not stream.feedback]
    full = [stream for stream in streams if stream.partitioning == "full"]
    if all(topology.by_name[stream.source].output for stream in full):
        return "structured"
    return "full" if len(full) == len(streams) else "general"
