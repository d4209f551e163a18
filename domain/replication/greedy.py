"""The greedy planner: partitions by the loss if only they fail (Algorithm 2 of the paper on PPA)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from domain.replication.fidelity import FidelityModel, Floats
from domain.replication.planner import Choice, ReplicationPlanner


class Greedy(ReplicationPlanner):
    """Ranks the partitions by the fidelity that is left when only that one fails, the lowest first.

    It ignores which other partitions a partition needs, so a plan, above all a small one, may hold partitions
    that give no output together. Partitions whose failure loses no output are left out.
    """

    name: ClassVar[str] = "greedy"

    def choose(self, model: FidelityModel, budget: int) -> Choice:
        fidelity = fidelity_without_each(model)
        ranked = sorted(
            np.flatnonzero(fidelity < 1.0).tolist(), key=lambda one: (fidelity[one], model.ranks[one])
        )
        return Choice(tuple(frozenset({one}) for one in ranked[:budget]))


def fidelity_without_each(model: FidelityModel) -> Floats:
    """Output fidelity [P] if only that partition failed."""
    return model.fidelity(~np.eye(len(model.partitions), dtype=bool))
