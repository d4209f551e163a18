"""The greedy planner: partitions by the loss if only they fail (Algorithm 2 of the paper on PPA)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from domain.fidelity import FidelityModel
from domain.replication.planner import Choice, ReplicationPlanner


class Greedy(ReplicationPlanner):
    """Ranks the partitions by the fidelity that is left when only that one fails, the lowest first.

    It ignores which other partitions a partition needs, so a plan, above all a small one, may hold partitions
    that give no output together. Partitions whose failure loses no output are left out.
    """

    name: ClassVar[str] = "greedy"

    def choose(self, model: FidelityModel, budget: int) -> Choice:
        return Choice(tuple(frozenset({one}) for one in most_missed(model)[:budget]))


def most_missed(model: FidelityModel) -> list[int]:
    """Partitions whose failure alone loses output, those that lose most first."""
    fidelity = model.fidelity(~np.eye(len(model.partitions), dtype=bool))
    missed: list[int] = np.flatnonzero(fidelity < 1.0).tolist()
    return sorted(missed, key=lambda one: (fidelity[one], model.ranks[one]))
