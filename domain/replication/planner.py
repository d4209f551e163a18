"""The interface of all replication planners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from domain.fidelity import FidelityModel, Flows, Objective
from domain.replication.explanation import ReplicationPlan, explained
from domain.topology import Topology


@dataclass(frozen=True)
class ReplicationProblem:
    """Which partitions to replicate, at most `budget` of them. rates: tuples per second that each partition
    gives. objective: what is to be high. priorities: of queries, where they
    are not those of the specification. flows: how partitions divide what they give, where that is measured.
    Raises ValueError for a budget or rates that cannot be."""

    topology: Topology
    rates: Mapping[str, float]
    budget: int
    objective: Objective = "weighted"
    priorities: Mapping[str, int] | None = None
    flows: Flows | None = None

    def __post_init__(self) -> None:
        if self.budget < 0:
            raise ValueError(f"the budget must not be negative: {self.budget}")
        _ = self.model

    @cached_property
    def model(self) -> FidelityModel:
        return FidelityModel(self.topology, self.rates, self.objective, self.priorities, self.flows)


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of an algorithm, in its order; partitions of one step count together. proven: no plan of
    this budget has a higher fidelity. bound: no plan of this budget is above it, None where that is not
    known.
    note: what bounded the search, if anything did."""

    steps: tuple[frozenset[int], ...]
    proven: bool = False
    bound: float | None = None
    note: str = ""


class ReplicationPlanner(ABC):
    """Chooses which partitions get an active replica, so that the output fidelity is high in the worst case
    of a correlated failure (Definition 2 of the paper: everything without a replica fails).

    Planners hold parameters only and can be shared; the same problem always gives the same plan.
    """

    name: ClassVar[str]

    @abstractmethod
    def choose(self, model: FidelityModel, budget: int) -> Choice:
        """The algorithm itself; `budget` is less than there are partitions, and more than none."""

    def plan(self, problem: ReplicationProblem) -> ReplicationPlan:
        """Choose and explain. Raises `TooLargeError` where the planner is exact and the problem too large."""
        model, budget = problem.model, problem.budget
        if budget >= len(model.partitions):
            everything = frozenset(range(len(model.partitions)))
            choice = Choice((everything,), proven=True, note="the budget is enough for every partition")
        elif budget == 0:
            choice = Choice((), proven=True, note="without a budget nothing is replicated")
        else:
            choice = self.choose(model, budget)
        return explained(
            model,
            budget,
            choice.steps,
            planner=self.name,
            objective=problem.objective,
            proven=choice.proven,
            bound=choice.bound,
            note=choice.note,
        )
