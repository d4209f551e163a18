"""The optimal plan, by mixed-integer programming, with a proof or a gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from domain.fidelity import FidelityModel
from domain.replication.growth import in_order
from domain.replication.planner import Choice, ReplicationPlanner
from domain.replication.program import COLUMNS, ReplicationProgram
from domain.replication.structure_aware import StructureAware

PROVEN = 1e-6
"""Fidelity up to which a bound counts as reached, which is the solver's precision."""


@dataclass(frozen=True)
class Optimal(ReplicationPlanner):
    """The solver starts from the plan of `StructureAware`, so the answer is never worse than that.

    time_limit: seconds; when it ends the search, the plan carries the bound reached, and so the gap. Which
    plan
        that is then depends on the machine; a proven one has the same fidelity everywhere.
    columns: size of the program from which joins are bounded instead of copied.
    """

    time_limit: float = 5.0
    columns: int = COLUMNS
    name: ClassVar[str] = "optimal"

    def choose(self, model: FidelityModel, budget: int) -> Choice:
        first = StructureAware().choose(model, budget)
        start = frozenset[int]().union(*first.steps)
        program = ReplicationProgram(model, budget, columns=self.columns)
        program.suggest(sorted(start))
        solved = program.solve(self.time_limit)
        steps = first.steps
        fidelity = float(model.fidelity(model.flags([start]))[0])
        if solved.chosen is not None:
            found = float(model.fidelity(model.flags([solved.chosen]))[0])
            if found > fidelity + PROVEN:
                steps, fidelity = in_order(model, solved.chosen).steps, found
        bound = max(fidelity, solved.bound)
        if bound - fidelity <= PROVEN:
            return Choice(steps, proven=True, note="proven optimal")
        note = f"solver: {solved.status.lower()}; no plan keeps more than {bound:.4g}"
        if program.relaxed:
            note += "; there are too many joins of joins to count them exactly in this bound"
        return Choice(steps, bound=bound, note=note)
